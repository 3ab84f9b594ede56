"""What reading takes of descriptors and the disk."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
import pytest

from disco_magic.errors import DiscoError
from tests.loader.reads.part import descriptors, part
from tests.loader.test_spilling import on_linux


def test_of_a_tensor_without_elements_the_file_is_checked(stored_as):
    tensor = stored_as(np.zeros((4, 0)))
    assert part(tensor, 0, 1, 2).shape == (2, 0)
    os.utime(tensor.file.path)
    with pytest.raises(DiscoError, match="was changed after it had been checked"):
        part(tensor, 0, 1, 2)


@on_linux
def test_a_load_that_is_given_up_leaves_no_file_open(tensor):
    blocks = tensor.copy_to(np.zeros((16, 2**20), "u4"), None, 0)
    next(blocks)
    assert descriptors(tensor.file.path) == 1
    blocks.close()
    assert descriptors(tensor.file.path) == 0


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
    np.testing.assert_array_equal(part(tensor, 0, 9, 16)[0], np.arange(9 * 2**20, 10 * 2**20))
    read = cached(tensor.file.path)
    begin = tensor.offset // mmap.PAGESIZE
    assert read[begin + 9 * 1024 : begin + 10 * 1024].all()
    # Of 64 MiB. What the kernel reads ahead is the disk's business: here and there it is 8 MiB.
    assert read.sum() <= len(read) // 2
