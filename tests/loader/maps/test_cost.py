"""What a mapped file takes of memory, descriptors and the disk."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from disco_magic.errors import DiscoError
from disco_magic.loader import pages
from disco_magic.loader.pages import Pages, Reader
from disco_magic.loader.safetensors import open_safetensors
from tests.loader.files import write_safetensors
from tests.loader.maps.reading import descriptors, part
from tests.loader.test_spilling import maps_of, on_linux


@pytest.mark.parametrize(("axis", "count"), [(None, 1), (0, 2), (1, 16)])
def test_a_load_keeps_few_pages(tensor, monkeypatch, copied, axis, count):
    monkeypatch.setattr(pages, "KEPT_NBYTES", 2**23)
    before, reader, resident = descriptors(), Reader(), []
    copy_out = pages._copy_out

    def looked(address, stride, out):
        wrong = copy_out(address, stride, out)
        resident.append(sum(maps_of(tensor.file.path)))
        return wrong

    monkeypatch.setattr(pages, "_copy_out", looked)
    part(tensor, axis, 0, count, reader)
    # kB. With a page the kernel maps what lies around it, which was 8 MiB.
    assert 0 < max(resident) <= tensor.stored_nbytes // 1024 // 2
    assert descriptors() == before + 1
    reader.close()
    assert maps_of(tensor.file.path) == []
    assert descriptors() == before


def test_rows_that_are_far_apart_are_let_go_between(tensor, monkeypatch, copied):
    let_go = []

    class Libc:
        process_vm_readv = pages._libc.process_vm_readv

        @staticmethod
        def madvise(address, nbytes, advice):
            let_go.append((nbytes, advice))

    monkeypatch.setattr(pages, "KEPT_NBYTES", 2**23)
    monkeypatch.setattr(pages, "_libc", Libc)
    part(tensor, 1, 0, 16)
    assert copied == [(2, 2**18)] * 8  # 4 MiB from each other
    assert let_go == [(tensor.file.nbytes, 4)] * 4


def test_small_tensors_far_apart_are_let_go_too(tmp_path, copied):
    names = [f"{number:02}{kind}" for number in range(32) for kind in ("large", "norm")]
    arrays = {name: np.zeros(2**20 if "large" in name else 2**10, "f4") for name in names}
    tensors = open_safetensors(write_safetensors(tmp_path / "m.safetensors", arrays)).tensors
    reader, resident = Reader(), []
    for name in names[1::2]:
        tensors[name].read(reader)
        resident.append(sum(maps_of(tmp_path)))
    assert max(resident) <= 32 * 2**10  # kB, of 128 MiB


def test_of_a_tensor_without_elements_the_file_is_checked(stored_as):
    tensor = stored_as(np.zeros((4, 0)))
    assert part(tensor, 0, 1, 2).shape == (2, 0)
    os.utime(tensor.file.path)
    with pytest.raises(DiscoError, match="was changed after it had been checked"):
        part(tensor, 0, 1, 2)


def test_where_nothing_is_copied_nothing_is_mapped(tensor, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_libc", None)
    reader = Reader()
    assert part(tensor, 1, 3, 16, reader)[1, 0] == 2**20 + 3 * 2**16
    if sys.platform == "linux":
        assert maps_of(tmp_path) == []


@pytest.mark.parametrize("error", [OSError, AttributeError])
def test_a_python_that_cannot_ask_its_c_library_reads(monkeypatch, error):
    def refuse(name, use_errno):
        raise error

    monkeypatch.setattr(pages.ctypes, "CDLL", refuse)
    assert pages._find_libc() is None


@on_linux
def test_of_many_files_one_is_open_at_a_time(stored_as, tmp_path, monkeypatch):
    reader, before, opened = Reader(), descriptors(), []
    make = Pages.__init__

    def noted(self, file):
        opened.append((descriptors() - before, len(maps_of(tmp_path))))
        make(self, file)

    monkeypatch.setattr(Pages, "__init__", noted)
    for number in range(3):
        tensor = stored_as(np.full(3, number), name=str(number))
        assert tensor.read(reader).tolist() == tensor.read(reader).tolist() == [number] * 3
    assert opened == [(0, 0)] * 3
    assert (descriptors() - before, len(maps_of(tmp_path))) == (1, 1)


@on_linux
@pytest.mark.parametrize("late", [False, True], ids=["before", "meanwhile"])
def test_a_reader_that_was_closed_keeps_nothing(tensor, tmp_path, monkeypatch, late):
    reader, before = Reader(), descriptors()
    if late:
        make = Pages.__init__
        monkeypatch.setattr(Pages, "__init__", lambda *given: (make(*given), reader.close())[0])
    else:
        reader.close()
    assert part(tensor, 0, 1, 16, reader)[0, 0] == 2**20
    assert maps_of(tmp_path) == []
    assert descriptors() == before


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


@on_linux
def test_a_file_that_does_not_fit_the_address_space_is_read(tensor):
    program = """
import resource, sys
import numpy as np
from disco_magic.loader.pages import Reader
from disco_magic.loader.safetensors import open_safetensors
tensor = open_safetensors(sys.argv[1]).tensors["x"]
out = np.zeros(tensor.part_shape(0, 16), tensor.dtype)
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 2**25, resource.RLIM_INFINITY))
list(tensor.copy_to(out, 0, 5, Reader()))
assert out[0, 0] == 5 * 2**20, out
"""
    command = [sys.executable, "-c", program, tensor.file.path]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3])  # noqa: S603 - our own
