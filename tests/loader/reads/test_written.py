"""Files that somebody writes, or a disk gives no more, while they are read: an error, and no other bytes."""

from __future__ import annotations

import errno
import mmap
import os

import numpy as np
import pytest

from disco_magic.errors import DiscoError
from disco_magic.loader import reading, stored
from disco_magic.loader.reading import private
from tests.loader.reads.part import part


def cut_in_a_page(path):
    os.truncate(path, os.path.getsize(path) - 100)


def cut_by_pages(path):
    os.truncate(path, 2**20)


def overwritten(path):
    nbytes = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.write(b"7" * nbytes)


def saved_anew(path):
    nbytes = os.path.getsize(path)
    with open(path, "wb") as file:
        file.truncate(nbytes)


@pytest.mark.parametrize("change", [cut_in_a_page, cut_by_pages, overwritten, saved_anew])
@pytest.mark.parametrize("shape", [(1024, 1024), (2**18, 4), (64, 2**14)])
@pytest.mark.parametrize("where", [(None, 0, 1), (0, 1, 2), (1, 1, 2)], ids=lambda where: where[0])
def test_what_is_written_meanwhile_is_an_error(stored_as, monkeypatch, change, shape, where):
    tensor, changes, read = stored_as(np.ones(shape, "f4")), [change], reading._read

    def late(file, *given):
        if changes:  # just before the first bytes are read
            changes.pop()(file.path)
        read(file, *given)

    monkeypatch.setattr(reading, "_read", late)
    with pytest.raises(DiscoError, match=r"m\.safetensors was changed after it had been checked: it had"):
        part(tensor, *where)


class Opened:
    """An open file whose reads do something else."""

    def __init__(self, opened, readinto):
        self.opened, self.seek, self.readinto = opened, opened.seek, readinto

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.opened.close()


def test_what_the_disk_does_not_give_is_said_as_the_system_says_it(tensor, monkeypatch):
    def broken(room):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    opens = stored.StoredFile.open
    monkeypatch.setattr(stored.StoredFile, "open", lambda file: Opened(opens(file), broken))
    with pytest.raises(DiscoError, match=r"m\.safetensors cannot be read: .*Input/output error"):
        part(tensor, 0, 2, 16)


def test_a_read_that_comes_in_pieces_goes_on(stored_as, monkeypatch):
    def sparing(file):
        opened = opens(file)
        return Opened(opened, lambda room: opened.readinto(room[:300]))

    tensor = stored_as(np.arange(1000.0))
    opens = stored.StoredFile.open
    monkeypatch.setattr(stored.StoredFile, "open", sparing)
    assert part(tensor, None, 0, 1).tolist() == list(range(1000))


@pytest.mark.parametrize(
    ("cut", "words"), [(False, "was cut short while it was read"), (True, "was changed after it had been")]
)
def test_a_read_that_comes_to_the_end_too_early_is_an_error(tensor, monkeypatch, cut, words):
    def ended(room):
        if cut:
            cut_by_pages(tensor.file.path)
        return 0

    opens = stored.StoredFile.open
    monkeypatch.setattr(stored.StoredFile, "open", lambda file: Opened(opens(file), ended))
    with pytest.raises(DiscoError, match=words):
        part(tensor, 0, 5, 16)


@pytest.fixture
def cut_when_opened(monkeypatch):
    """The next file that is opened is cut short as soon as it is open."""
    opens, changes = stored.StoredFile.open, [cut_by_pages]

    def late(file):
        opened = opens(file)
        if changes:
            changes.pop()(file.path)
        return opened

    monkeypatch.setattr(stored.StoredFile, "open", late)


def test_what_was_cut_short_when_it_was_opened_is_an_error(tensor, cut_when_opened):
    with pytest.raises(DiscoError, match="was changed after it had been checked"):
        part(tensor, 0, 5, 16)


def test_a_private_map_of_what_was_cut_short_is_an_error(tensor, cut_when_opened):
    with pytest.raises(DiscoError, match="was changed after it had been checked"):
        private(tensor.file, 0, tensor.file.nbytes)


def test_a_private_map_beyond_the_end_is_an_error(tensor):
    with pytest.raises(DiscoError, match="cannot be mapped: "):
        private(tensor.file, 0, tensor.file.nbytes + mmap.PAGESIZE)
