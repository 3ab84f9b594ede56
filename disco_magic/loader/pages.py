"""Reads files through memory maps, without the drawbacks of a map.

Touching a mapped page that no longer exists (the file was saved anew, the disk failed) ends the process with
SIGBUS. So `Pages` never does: on Linux the kernel copies out of the map, as if it were another process's
memory, and reports an error if it cannot. It copies up to 1,024 rows per call, where `os.pread` copies one.
256 MiB from the page cache to fresh memory, 4 threads on 2 cores, in ms: one run per thread 50 (by read 40,
by touching the map 45); runs of 64 KiB 49 (a read for each 52, touching 43), of 4 KiB 67 (reads of whole rows
120, touching 63).

The file is read instead where the kernel does not copy or a container forbids it, where the file cannot be
mapped, and where copying failed, because a read reports the reason.

The pages of a map also count as memory of the process until the kernel reclaims them. So they are released
now and then; they stay in the page cache.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import DiscoError
from disco_magic.phrases import words

if TYPE_CHECKING:
    from io import FileIO

    from disco_magic.loader.stored import StoredFile

    Array = np.ndarray[Any, Any]

# About how much of a file may be resident per worker, however large it is. Releasing pages interrupts the
# other cores, which is expensive compared with a small tensor.
KEPT_NBYTES: Final = 16 * 2**20
# When a page is touched the kernel also maps what is around it: 64 KiB, or a large page of the cache.
_AROUND_NBYTES: Final = 2 * 2**20
# Each row costs the kernel 0.5 us, however short it is: copying more than is wanted may be faster.
NARROW_NBYTES: Final = 4096
_SCRATCH_NBYTES: Final = 512 * 2**10  # small enough to stay in a core's cache
_MOST_ROWS: Final = 1024  # IOV_MAX of Linux
_DONTNEED: Final = 4  # for madvise; Python's mmap module has it only if it was built with it


class Pages:
    """A file that is mapped if possible, otherwise read."""

    def __init__(self, file: StoredFile) -> None:
        self.file = file
        self._bytes: Array | None = None
        self._resident_nbytes = 0
        self._end = 0  # where the last copy ended
        with file.open() as opened:
            if _libc is None:
                return
            try:
                held = mmap.mmap(opened.fileno(), file.nbytes, access=mmap.ACCESS_READ)
            except (OSError, ValueError):  # no address space, a file system without maps, an empty file
                return
        self._bytes = np.frombuffer(held, np.uint8)

    def copy(self, begin: int, stride: int, out: Array) -> None:
        """Fill `out` with rows at equal distances.

        Args:
            begin: where the first row begins, in bytes.
            stride: from the beginning of one row to that of the next one, in bytes.
            out: contiguous, with two axes.

        Raises:
            DiscoError: the file no longer exists, was changed meanwhile, or cannot be read.
        """
        if len(out) > 1 and out[0].nbytes < stride < NARROW_NBYTES:
            self._copy_narrow(begin, stride, out)
        else:
            self._copy_rows(begin, stride, out)
        # Checked after the copy: what was written meanwhile would otherwise pass for the checked content. The
        # system may not report it if the file is milliseconds old or is written through another map.
        self.file.check()

    def _copy_narrow(self, begin: int, stride: int, out: Array) -> None:
        """Copy rows as long as their distance, of which each begins with a wanted one, and cut them."""
        width, count = out.shape[1], min(len(out), (self.file.nbytes - begin) // stride)
        step = max(1, _SCRATCH_NBYTES // stride)
        scratch = np.empty((min(step, count), stride // out.itemsize), out.dtype)
        for top in range(0, count, step):
            long = scratch[: min(step, count - top)]
            self._copy_rows(begin + top * stride, stride, long)
            out[top : top + len(long)] = long[:, :width]
        if count < len(out):  # the last row ends with the file
            self._copy_rows(begin + count * stride, stride, out[count:])

    def _copy_rows(self, begin: int, stride: int, out: Array) -> None:
        if len(out) > 1 and stride == out[0].nbytes:
            out = out.reshape(1, -1)
        step = max(1, min(_MOST_ROWS, KEPT_NBYTES // stride))
        for top in range(0, len(out), step):
            self._copy_some(begin + top * stride, stride, out[top : top + step])

    def _copy_some(self, begin: int, stride: int, out: Array) -> None:
        """Copy up to `_MOST_ROWS` rows, spread over no more than may be resident."""
        if self._bytes is None:
            self._read(begin, stride, out)
            return
        near = abs(begin - self._end) < _AROUND_NBYTES
        self._end = begin + (len(out) - 1) * stride + out[0].nbytes
        self._resident_nbytes += self._end - begin + (0 if near else _AROUND_NBYTES)
        address: int = self._bytes.__array_interface__["data"][0]
        wrong = _copy_out(address + begin, stride, out)
        if wrong:
            if wrong != errno.EFAULT:  # not supported: do not try again for this file
                self._bytes = None
            self._read(begin, stride, out)
        elif self._resident_nbytes >= KEPT_NBYTES:
            # All of the file: around one page the kernel may map megabytes.
            _libc.madvise(address, self.file.nbytes, _DONTNEED)
            self._resident_nbytes = 0

    def _read(self, begin: int, stride: int, out: Array) -> None:
        with self.file.open() as opened:
            for number, row in enumerate(out):
                opened.seek(begin + number * stride)
                self._fill(row.view(np.uint8).data, opened)

    def _fill(self, room: memoryview, opened: FileIO) -> None:
        while room:
            try:
                nbytes = opened.readinto(room)  # at most 2 GiB, perhaps less
            except OSError as reason:
                raise self.file.unreadable(reason) from None
            if not nbytes:
                self.file.check()
                raise DiscoError(f"{self.file.path} was cut short while it was read")
            room = room[nbytes:]


class Reader:
    """The file that a worker is reading, until it turns to another one.

    So a load from a thousand files has only one of them mapped per worker. Used by one worker.
    """

    def __init__(self) -> None:
        self._pages: Pages | None = None
        self._closed = False

    def pages(self, file: StoredFile) -> Pages:
        """Return the pages of `file`."""
        pages = self._pages
        if pages is not None and pages.file == file:
            return pages
        pages = self._pages = None  # released before the next one is opened
        self._pages = pages = Pages(file)
        if self._closed:
            self._pages = None
        return pages

    def close(self) -> None:
        """Release the file, and keep none that is opened later; from any thread, at any time."""
        self._closed = True
        self._pages = None


def private(file: StoredFile, begin: int, nbytes: int) -> Array:
    """Map bytes of a file as uint8, without using memory; writes to them do not reach the file."""
    lead = begin % mmap.ALLOCATIONGRANULARITY
    with file.open() as opened:
        try:
            held = mmap.mmap(opened.fileno(), lead + nbytes, access=mmap.ACCESS_COPY, offset=begin - lead)
        except (OSError, ValueError) as reason:
            file.check()
            raise DiscoError(f"{file.path} cannot be mapped: {words(reason)}") from None
    return np.frombuffer(held, np.uint8, nbytes, lead)


class _Vector(ctypes.Structure):
    """struct iovec: a range of memory."""

    _fields_ = (("begin", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


def _find_libc() -> Any:
    """Return the C library if it has the function that copies; else None."""
    if sys.platform != "linux":
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        vectors = (ctypes.c_void_p, ctypes.c_ulong)
        libc.process_vm_readv.argtypes = (ctypes.c_int, *vectors, *vectors, ctypes.c_ulong)
        libc.process_vm_readv.restype = ctypes.c_ssize_t
    except (OSError, AttributeError):  # a Python without shared libraries; an old C library
        return None
    return libc


_libc: Any = _find_libc()


def _copy_out(address: int, stride: int, out: Array) -> int:
    """Let the kernel copy rows of this process's memory; return the error number, 0 for success."""
    count, run = len(out), out[0].nbytes
    source: Any = _Vector(address, run)
    if count > 1:
        source = (_Vector * count)()
        vectors = np.frombuffer(source, np.uintp).reshape(count, 2)
        vectors[:, 0] = np.arange(count, dtype=np.uintp) * stride + address
        vectors[:, 1] = run
    target = _Vector(out.__array_interface__["data"][0], out.nbytes)
    copied = _libc.process_vm_readv(os.getpid(), ctypes.byref(target), 1, ctypes.byref(source), count, 0)
    if copied == out.nbytes:
        return 0
    return ctypes.get_errno() if copied < 0 else errno.EFAULT
