"""Memory that is a file's: maps that a load shares, and arrays that take no memory of one's own."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from disco_magic.errors import DiscoError
from disco_magic.loader import pages
from disco_magic.loader.pages import Pages, spilled, writable
from disco_magic.loader.safetensors import open_safetensors
from disco_magic.loader.stored import StoredFile
from tests.loader.files import write_safetensors

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f.bin"
    path.write_bytes(bytes(range(100)))
    return StoredFile.at(path, "file f")


def maps_of(path):
    """What /proc says of maps of a file: kB that are resident, one number per map."""
    found, mine = [], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            mine = str(path) in line
        elif mine and line.startswith("Rss:"):
            found.append(int(line.split()[1]))
    return found


# --- a load's files --------------------------------------------------------------------------------


@on_linux
def test_a_file_is_mapped_once_for_all_and_let_go_with_the_load(file):
    load = Pages()
    got = []

    def ask(load):
        got.append(load.of(file))

    threads = [threading.Thread(target=ask, args=(load,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    threads.clear()
    assert {bytes(each) for each in got} == {bytes(range(100))}
    assert len({id(each) for each in got}) == 1
    assert len(maps_of(file.path)) == 1
    got.clear()
    del load
    assert maps_of(file.path) == []


@on_linux
def test_a_part_costs_the_pages_it_touches_and_nothing_else(tmp_path):
    array = np.arange(2**24, dtype="u4").reshape(16, -1)
    path = write_safetensors(tmp_path / "m.safetensors", {"x": array})
    tensor, load = open_safetensors(path).tensors["x"], Pages()
    out = np.empty(tensor.part_shape(0, 16), tensor.dtype)
    for _ in tensor.copy_to(out, 0, 9, 16, load):
        pass
    np.testing.assert_array_equal(out, array[9:10])
    (resident,) = maps_of(path)
    # With a page the kernel may map what lies around it, up to 2 MiB.
    assert out.nbytes // 1024 <= resident <= out.nbytes // 1024 + 2 * 2048


def test_a_file_that_changes_between_two_tensors_is_refused(file):
    load = Pages()
    load.of(file)
    os.utime(file.path, ns=(0, 0))
    with pytest.raises(DiscoError, match=r"f\.bin was changed after it had been checked"):
        load.of(file)
    os.unlink(file.path)
    with pytest.raises(DiscoError, match=r"f\.bin cannot be read: No such file"):
        load.of(file)


# --- what may be written to ------------------------------------------------------------------------


def test_what_is_written_to_a_private_map_stays_out_of_the_file(file):
    mine = writable(file, 10, 20)
    assert mine.tolist() == list(range(10, 30))
    mine[:] = 0
    assert writable(file, 10, 20).tolist() == list(range(10, 30))
    assert writable(file, 10, 0).shape == (0,)


@on_linux
def test_a_spilled_array_is_a_file_without_a_name_and_goes_with_the_array(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(pages.tempfile, "tempdir", None)
    array = spilled((3, 1000), np.dtype("f8"))
    assert (array.shape, array.dtype, array.any()) == ((3, 1000), np.dtype("f8"), False)
    array[:] = np.arange(3000).reshape(3, 1000)
    assert array.sum() == 3000 * 2999 / 2
    assert array.ctypes.data % 64 == 0
    assert list(tmp_path.iterdir()) == []
    assert len(maps_of(tmp_path)) == 1
    del array
    assert maps_of(tmp_path) == []
    assert spilled((2, 0), np.dtype("f4")).shape == (2, 0)


def test_it_lies_where_there_is_room_rather_than_in_memory(monkeypatch):
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(pages.os.path, "isdir", lambda path: True)
    monkeypatch.setattr(pages.os, "access", lambda path, mode: True)
    assert pages._folder() == "/var/tmp"  # noqa: S108 - compared
    monkeypatch.setattr(pages.os, "access", lambda path, mode: False)
    assert pages._folder() == pages.tempfile.gettempdir()


def test_a_full_disk_is_found_before_anything_is_written(monkeypatch):
    def full(descriptor, start, nbytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pages.os, "posix_fallocate", full, raising=False)
    with pytest.raises(DiscoError, match=r"temporary file of 800 bytes .* No space left .* TMPDIR"):
        spilled((100,), np.dtype("f8"))


def test_room_is_taken_by_writing_where_the_system_cannot_reserve_it(monkeypatch, tmp_path):
    monkeypatch.delattr(pages.os, "posix_fallocate", raising=False)
    with (tmp_path / "f").open("wb") as file:
        pages._reserve(file.fileno(), 2**21 + 5)
    assert (tmp_path / "f").stat().st_size == 2**21 + 5
    assert (tmp_path / "f").stat().st_blocks * 512 >= 2**21
