"""Maps of files: what they cost, what is read, and that nobody dies of a page that is not there."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

import numpy as np
import pytest

from disco_magic.errors import DiscoError
from disco_magic.loader import pages, stored
from disco_magic.loader.pages import Pages, Reader
from disco_magic.loader.safetensors import open_safetensors
from tests.loader.files import write_safetensors
from tests.loader.test_spilling import maps_of, on_linux


@pytest.fixture
def tensor(tmp_path):
    """Of 16 rows of 4 MiB."""
    array = np.arange(2**24, dtype="u4").reshape(16, -1)
    return open_safetensors(write_safetensors(tmp_path / "m.safetensors", {"x": array})).tensors["x"]


def part(tensor, axis, rank, reader):
    out = np.empty(tensor.part_shape(axis, 16), tensor.dtype)
    for _ in tensor.copy_to(out, axis, rank, reader):
        pass
    return out


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@on_linux
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_pages_are_let_go_while_a_part_is_copied(tensor, monkeypatch, axis):
    monkeypatch.setattr(stored, "BLOCK_NBYTES", 2**20)
    monkeypatch.setattr(pages, "KEPT_NBYTES", 2**20)
    before, reader = descriptors(), Reader()
    out = np.empty(tensor.part_shape(axis, 16), tensor.dtype)
    resident = [sum(maps_of(tensor.file.path)) for _ in tensor.copy_to(out, axis, 0, reader)]
    assert len(resident) == out.nbytes // 2**20
    # kB. With a page the kernel maps what lies around it, which may be megabytes.
    assert 0 < max(resident) <= tensor.stored_nbytes // 1024 // 2
    assert descriptors() == before + 1
    reader.close()
    assert maps_of(tensor.file.path) == []
    assert descriptors() == before


@on_linux
def test_of_many_files_one_is_open_at_a_time(tmp_path):
    before, reader = descriptors(), Reader()
    for number in range(5):
        path = write_safetensors(tmp_path / f"{number}.safetensors", {"x": np.full(3, number)})
        assert open_safetensors(path).tensors["x"].read(reader).tolist() == [number] * 3
        assert descriptors() == before + 1
        assert len(maps_of(tmp_path)) == 1


def cached(path):
    """Which pages of a file are in the page cache."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as held:
        count = -(-len(held) // mmap.PAGESIZE)
        found = np.zeros(count, np.uint8)
        first = ctypes.c_char.from_buffer(held)
        mincore = ctypes.CDLL(None).mincore
        mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
        assert mincore(ctypes.addressof(first), len(held), found.ctypes.data) == 0
        del first
    return (found & 1).astype(bool)


@on_linux
def test_a_worker_reads_only_its_part_of_what_is_not_in_the_page_cache(tensor):
    with open(tensor.file.path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if cached(tensor.file.path).any():
        pytest.skip("this file system keeps its pages")
    np.testing.assert_array_equal(part(tensor, 0, 9, Reader())[0], np.arange(9 * 2**20, 10 * 2**20))
    read = cached(tensor.file.path)
    begin = tensor.offset // mmap.PAGESIZE
    assert read[begin + 9 * 1024 : begin + 10 * 1024].all()
    # Of 64 MiB. What the kernel reads ahead is the disk's business: here and there it is 8 MiB.
    assert read.sum() <= len(read) // 2


@pytest.mark.parametrize("width", [1, 3, 1000])
@pytest.mark.parametrize("rows", [1, 2, 1024, 2500])
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_rows_of_all_widths_are_copied(tmp_path, monkeypatch, width, rows, ranks):
    monkeypatch.setattr(stored, "BLOCK_NBYTES", 2**20)
    array = np.random.default_rng(0).integers(0, 255, (rows, ranks * width), "u1").astype("u4")
    tensors = {"odd": np.zeros(3, "i1"), "x": array}
    path = write_safetensors(tmp_path / "m.safetensors", tensors)  # so that the last row ends the file
    tensor, reader = open_safetensors(path).tensors["x"], Reader()
    for rank, expected in enumerate(np.split(array, ranks, 1)):
        out = np.empty((rows, width), "u4")
        assert sum(tensor.copy_to(out, 1, rank, reader)) == expected.nbytes
        np.testing.assert_array_equal(out, expected)


@on_linux
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("width", [4, 2**20])
def test_a_file_that_is_cut_short_in_the_middle_of_a_copy_is_an_error(tmp_path, monkeypatch, axis, width):
    array = np.ones((2**22 // width, width), "f4")
    tensor = open_safetensors(write_safetensors(tmp_path / "m.safetensors", {"x": array})).tensors["x"]
    out = np.empty(tensor.part_shape(axis, 4), "f4")
    looks, cut = [], 2**20

    def look(file):  # somebody cuts it short just after the first look; a touch would end the process now
        looks.append(file)
        os.truncate(file.path, cut)
        if len(looks) > 1:
            check(file)

    check = stored.StoredFile.check
    monkeypatch.setattr(stored.StoredFile, "check", look)
    with pytest.raises(DiscoError, match=r"m\.safetensors was changed after it had been .* has 1048576"):
        list(tensor.copy_to(out, axis, 3 if axis == 0 else 0, Reader()))
    assert len(looks) == 2


@on_linux
def test_what_the_disk_cannot_give_is_an_error(tensor, monkeypatch):
    monkeypatch.setattr(stored.StoredFile, "check", lambda file: None)
    held = Pages(tensor.file)
    os.truncate(tensor.file.path, 2**20)
    out = np.zeros((1, 2**20), "u1")
    with pytest.raises(DiscoError, match=r"m\.safetensors cannot be read: Bad address; see to its disk"):
        held.copy(held.bytes[2**20 : 2**21].reshape(1, -1), out)
    with pytest.raises(DiscoError, match="Bad address"):  # of some rows
        held.copy(held.bytes[: 2**21].reshape(2, -1)[:, : 2**19], out.reshape(2, -1))


def test_where_the_kernel_does_not_copy_we_do(tensor, monkeypatch):
    monkeypatch.setattr(pages, "_copy_out", lambda rows, out: errno.EPERM)
    assert part(tensor, 0, 3, Reader())[0, 0] == 3 * 2**20
    monkeypatch.undo()
    monkeypatch.setattr(pages, "_libc", None)
    monkeypatch.setattr(pages, "KEPT_NBYTES", 1)
    assert part(tensor, 1, 3, Reader())[1, 0] == 2**20 + 3 * 2**16
