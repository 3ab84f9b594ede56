"""Files that are mapped to be read: what it costs, and that nothing ends the process or gives other bytes."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from disco_magic.errors import DiscoError
from disco_magic.loader import pages, stored
from disco_magic.loader.pages import Pages, Reader, private
from disco_magic.loader.safetensors import open_safetensors
from tests.loader.files import write_safetensors
from tests.loader.test_spilling import maps_of, on_linux


@pytest.fixture
def stored_as(tmp_path):
    """Stores an array as the last one of a safetensors file; its StoredTensor."""

    def store(array, name="m"):
        path = write_safetensors(tmp_path / f"{name}.safetensors", {"odd": np.zeros(3, "i1"), "x": array})
        os.utime(path, (10**9, 10**9))  # long ago: there are systems whose clock for files stands for 4 ms
        return open_safetensors(path).tensors["x"]

    return store


@pytest.fixture
def tensor(stored_as):
    """Of 16 rows of 4 MiB."""
    return stored_as(np.arange(2**24, dtype="u4").reshape(16, -1))


@pytest.fixture
def copied(monkeypatch):
    """The kernel copies, nothing is read; what it is asked for: (number of rows, bytes of one)."""
    if sys.platform != "linux":
        pytest.skip("Linux copies")
    source, target, asked = np.arange(8, dtype="u1"), np.zeros((1, 8), "u1"), []
    copy_out = pages._copy_out
    if copy_out(source.ctypes.data, 8, target) in (errno.EPERM, errno.ENOSYS):
        pytest.skip("it may not here")

    def noted(address, stride, out):
        asked.append((len(out), out[0].nbytes))
        return copy_out(address, stride, out)

    def read(self, begin, stride, out):
        raise AssertionError("it is read")

    monkeypatch.setattr(pages, "_copy_out", noted)
    monkeypatch.setattr(Pages, "_read", read)
    return asked


def part(tensor, axis, rank, count, reader=None):
    out = np.zeros(tensor.part_shape(axis, count), tensor.dtype)
    for _ in tensor.copy_to(out, axis, rank, reader or Reader()):
        pass
    return out


def descriptors():
    return len(os.listdir("/proc/self/fd"))


# --- what is copied --------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3, 1000])
@pytest.mark.parametrize("rows", [1, 2, 1024, 2500])
@pytest.mark.parametrize("ranks", [1, 2, 5])
class TestRowsOfAllWidths:
    def test_are_copied(self, stored_as, copied, width, rows, ranks):
        self.compare(stored_as, (rows, ranks * width), ranks)
        assert copied

    def test_are_read(self, stored_as, monkeypatch, width, rows, ranks):
        monkeypatch.setattr(pages, "_libc", None)
        self.compare(stored_as, (rows, ranks * width), ranks)

    @staticmethod
    def compare(stored_as, shape, ranks):
        array = np.random.default_rng(0).integers(0, 255, shape, "u1").astype("u4")
        tensor, reader = stored_as(array), Reader()
        for rank, expected in enumerate(np.split(array, ranks, 1)):
            np.testing.assert_array_equal(part(tensor, 1, rank, ranks, reader), expected)


def test_the_kernel_is_asked_for_many_rows_at_once(stored_as, copied):
    tensor = stored_as(np.zeros((2500, 2048), "f4"))
    part(tensor, 1, 1, 2)
    assert copied == [(1024, 4096), (1024, 4096), (452, 4096)]


def test_narrow_rows_are_copied_with_what_lies_between_them(stored_as, copied):
    tensor = stored_as(np.zeros((10_000, 64), "u1"))
    part(tensor, 1, 0, 4)
    assert copied == [(1, 2**13 * 64), (1, (10_000 - 2**13) * 64)]
    copied.clear()
    part(tensor, 1, 3, 4)  # whose last row is the end of the file
    assert copied == [(1, 2**13 * 64), (1, (9999 - 2**13) * 64), (1, 16)]


@pytest.mark.parametrize("wrong", [errno.EPERM, errno.ENOSYS])
def test_a_kernel_that_does_not_copy_is_asked_once(tensor, monkeypatch, wrong):
    asked, reader = [], Reader()
    monkeypatch.setattr(pages, "_libc", object())
    monkeypatch.setattr(pages, "_copy_out", lambda address, stride, out: asked.append(out) or wrong)
    assert part(tensor, 0, 3, 16, reader)[0, 0] == 3 * 2**20
    assert part(tensor, 1, 3, 16, reader)[1, 0] == 2**20 + 3 * 2**16
    assert len(asked) == 1


def test_errors_are_the_kernel_s(copied):
    out = np.zeros((1025, 1), "u1")
    assert pages._copy_out(out.ctypes.data, 1, out) == errno.EINVAL  # more rows than it takes
    assert pages._copy_out(1, 1, out[:1]) == errno.EFAULT
    assert pages._copy_out(out.ctypes.data, 2**48, out[:2]) == errno.EFAULT  # the first row is there


def test_a_copy_that_fails_is_read_and_the_next_one_is_tried_again(tensor, monkeypatch):
    asked, reader = [], Reader()
    monkeypatch.setattr(pages, "_libc", object())
    monkeypatch.setattr(pages, "_copy_out", lambda address, stride, out: asked.append(out) or errno.EFAULT)
    for rank in (3, 4):
        assert part(tensor, 0, rank, 16, reader)[0, 0] == rank * 2**20
    assert len(asked) == 2


# --- what it costs ---------------------------------------------------------------------------------


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


def test_a_map_that_fails_because_the_file_was_cut_short_is_an_error(tensor, monkeypatch):
    opens, changes = stored.StoredFile.open, [cut_by_pages]

    def late(file):
        opened = opens(file)
        if changes:
            changes.pop()(file.path)
        return opened

    monkeypatch.setattr(stored.StoredFile, "open", late)
    with pytest.raises(DiscoError, match="was changed after it had been checked"):
        part(tensor, 0, 5, 16)


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
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])  # noqa: S603 - our own


# --- files that somebody writes --------------------------------------------------------------------


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
class TestWhatIsWrittenMeanwhile:
    def test_is_an_error_of_a_copy(self, stored_as, monkeypatch, change, shape, where):
        self.load(stored_as(np.ones(shape, "f4")), monkeypatch, change, "_copy_some", where)

    def test_is_an_error_of_a_read(self, stored_as, monkeypatch, change, shape, where):
        monkeypatch.setattr(pages, "_libc", None)
        self.load(stored_as(np.ones(shape, "f4")), monkeypatch, change, "_read", where)

    @staticmethod
    def load(tensor, monkeypatch, change, name, where):
        changes, original = [change], getattr(Pages, name)

        def late(self, *given):
            if changes:  # just before the first bytes are copied
                changes.pop()(self.file.path)
            original(self, *given)

        monkeypatch.setattr(Pages, name, late)
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

    reader, opens = Reader(), stored.StoredFile.open
    assert part(tensor, 0, 1, 16, reader)[0, 0] == 2**20
    monkeypatch.setattr(stored.StoredFile, "open", lambda file: Opened(opens(file), broken))
    monkeypatch.setattr(pages, "_copy_out", lambda address, stride, out: errno.EFAULT)
    with pytest.raises(DiscoError, match=r"m\.safetensors cannot be read: .*Input/output error"):
        part(tensor, 0, 2, 16, reader)


def test_a_read_that_comes_in_pieces_goes_on(stored_as, monkeypatch):
    def sparing(file):
        opened = opens(file)
        return Opened(opened, lambda room: opened.readinto(room[:300]))

    tensor = stored_as(np.arange(1000.0))
    reader, opens = Reader(), stored.StoredFile.open
    monkeypatch.setattr(pages, "_libc", None)
    reader.pages(tensor.file)
    monkeypatch.setattr(stored.StoredFile, "open", sparing)
    assert part(tensor, None, 0, 1, reader).tolist() == list(range(1000))


@pytest.mark.parametrize(
    ("cut", "words"), [(False, "was cut short while it was read"), (True, "was changed after it had been")]
)
def test_a_read_that_comes_to_the_end_too_early_is_an_error(tensor, monkeypatch, cut, words):
    def ended(room):
        if cut:
            cut_by_pages(tensor.file.path)
        return 0

    reader, opens = Reader(), stored.StoredFile.open
    monkeypatch.setattr(pages, "_libc", None)
    reader.pages(tensor.file)
    monkeypatch.setattr(stored.StoredFile, "open", lambda file: Opened(opens(file), ended))
    with pytest.raises(DiscoError, match=words):
        part(tensor, 0, 5, 16, reader)


def test_a_private_map_of_what_was_cut_short_is_refused(tensor, monkeypatch):
    opens = stored.StoredFile.open

    def late(file):
        opened = opens(file)
        cut_by_pages(file.path)
        return opened

    monkeypatch.setattr(stored.StoredFile, "open", late)
    with pytest.raises(DiscoError, match="was changed after it had been checked"):
        private(tensor.file, 0, tensor.file.nbytes)
    monkeypatch.undo()
    file = stored.StoredFile.at(Path(tensor.file.path), "file f")
    with pytest.raises(DiscoError, match="cannot be mapped: "):
        private(file, 0, file.nbytes + mmap.PAGESIZE)
