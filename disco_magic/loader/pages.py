"""Files that are mapped to be read, without the two ways in which a map is worse than a read.

Who touches a page that is not there any more (somebody saves the file anew, the disk failed) ends the process
with SIGBUS. So we do not touch pages: on Linux the kernel copies out of the map, as if it were another
process's memory, and says in an error what is wrong. It takes up to 1,024 rows at a time, where `os.pread`
takes one. Elsewhere, and where a container forbids it, pages are copied as any memory is. 256 MiB in the page
cache to fresh memory, 4 threads on 2 cores, in ms: a run for each 50 (read 40, touched 45), runs of 64 KiB 49
(a read for each 52, touched 43), of 4 KiB 67 (reads of whole rows 120, touched 63).

And pages count as memory of the process until the kernel takes them back. So they are let go now and then:
they stay in the page cache, and a load takes no more than `KEPT_NBYTES` per worker, however large the file.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import DiscoError, words

if TYPE_CHECKING:
    from disco_magic.loader.stored import StoredFile

    Array = np.ndarray[Any, Any]

# To let pages go interrupts the other cores, which is much beside a small tensor.
KEPT_NBYTES: Final = 16 * 2**20
# A row takes the kernel 0.5 us, however short it is: copying more bytes than are wanted may be faster.
NARROW_NBYTES: Final = 4096
_WHOLE_ROWS_NBYTES: Final = 512 * 2**10  # they shall stay in a core's cache
_MOST_ROWS: Final = 1024  # IOV_MAX of Linux
_DONTNEED: Final = 4  # of madvise; Python's mmap module has it only where it was built with it


class Pages:
    """A map of a file, or of a piece of one.

    Args:
        file: which one.
        begin: the first byte that is wanted.
        nbytes: how many, at least one; None: all from there.
        access: as `mmap.mmap` takes it; with ACCESS_COPY what is written to `bytes` stays out of the file.

    Attributes:
        file: as given.
        bytes: what was wanted, uint8. Who touches them and does not `copy` risks SIGBUS.

    Raises:
        DiscoError: the file cannot be read, is shorter, or is not the one that was checked.
    """

    def __init__(
        self, file: StoredFile, begin: int = 0, nbytes: int | None = None, access: int = mmap.ACCESS_READ
    ) -> None:
        self.file = file
        wanted = file.nbytes - begin if nbytes is None else nbytes
        lead = begin % mmap.ALLOCATIONGRANULARITY
        with file.open() as opened:
            try:
                held = mmap.mmap(opened.fileno(), lead + wanted, access=access, offset=begin - lead)
            except (OSError, ValueError) as reason:  # it was cut short, or its file system has no maps
                raise DiscoError(f"{file.path} cannot be mapped: {words(reason)}") from None
        self.bytes: Array = np.frombuffer(held, np.uint8, wanted, lead)
        self._resident_nbytes = 0

    def copy(self, rows: Array, out: Array) -> None:
        """Copy rows of the file.

        Args:
            rows: a view of `bytes`, of two axes, the second one contiguous.
            out: contiguous, of the shape and dtype of `rows`.

        Raises:
            DiscoError: the file is not there any more, was changed, or cannot be read.
        """
        self.file.check()
        if self._resident_nbytes >= KEPT_NBYTES:
            self.let_go()
        self._resident_nbytes += max(rows.nbytes, len(rows) * mmap.PAGESIZE)
        if len(rows) > 1 and rows[0].nbytes < rows.strides[0] < NARROW_NBYTES:
            self._copy_narrow(rows, out)
        else:
            self._gather(rows, out)

    def _copy_narrow(self, rows: Array, out: Array) -> None:
        stride, width = rows.strides[0], out.shape[1]
        begin = _address(rows) - _address(self.bytes)
        count = min(len(rows), (len(self.bytes) - begin) // stride)
        between = self.bytes[begin : begin + count * stride].view(rows.dtype).reshape(count, -1)
        step = _WHOLE_ROWS_NBYTES // stride
        whole = np.empty((min(step, count), stride // rows.itemsize), rows.dtype)
        for top in range(0, count, step):
            some = between[top : top + step]
            self._gather(some, whole[: len(some)])
            out[top : top + len(some)] = whole[: len(some), :width]
        if count < len(rows):  # the file ends with the last one
            self._gather(rows[count:], out[count:])

    def _gather(self, rows: Array, out: Array) -> None:
        for top in range(0, len(rows), _MOST_ROWS):
            wrong = _copy_out(rows[top : top + _MOST_ROWS], out[top : top + _MOST_ROWS])
            if wrong in _NOT_HERE:
                np.copyto(out, rows)
                return
            if wrong:
                self.file.check()  # which says more, if somebody has written it
                raise DiscoError(f"{self.file.path} cannot be read: {os.strerror(wrong)}; see to its disk")

    def let_go(self) -> None:
        """Count no page as the process's memory any longer; who touches one has it again.

        Of all of the map: with a page that is read the kernel may map megabytes around it.
        """
        if _libc is not None:
            lead = _address(self.bytes) % mmap.PAGESIZE
            _libc.madvise(_address(self.bytes) - lead, lead + len(self.bytes), _DONTNEED)
        self._resident_nbytes = 0


class Reader:
    """The map of the file that a worker is reading, until it comes to another one.

    So a load in a thousand files has one file open per worker. Used by one worker; `close` may be called by
    anybody.
    """

    def __init__(self) -> None:
        self._pages: Pages | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Reader:
        return self  # it holds nothing that could differ

    def pages(self, file: StoredFile) -> Pages:
        """All of `file`.

        Raises:
            DiscoError: as `Pages`.
        """
        pages = self._pages
        if pages is not None and pages.file == file:
            return pages
        self._pages = None  # before the next one is opened
        self._pages = pages = Pages(file)
        return pages

    def close(self) -> None:
        """Let the file go."""
        self._pages = None


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


# What says that the kernel does not copy: none of the kind, or it is not allowed to.
_NOT_HERE: Final = frozenset({errno.ENOSYS, errno.EPERM})
_libc: Any = None
if sys.platform == "linux":
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    _vectors = (ctypes.c_void_p, ctypes.c_ulong)
    _libc.process_vm_readv.argtypes = (ctypes.c_int, *_vectors, *_vectors, ctypes.c_ulong)
    _libc.process_vm_readv.restype = ctypes.c_ssize_t


class _Vector(ctypes.Structure):
    """struct iovec: bytes in memory."""

    _fields_ = (("begin", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


def _copy_out(rows: Array, out: Array) -> int:
    """Have the kernel copy; the error's number, 0 if there was none."""
    if _libc is None:
        return errno.ENOSYS
    begin, run, count = _address(rows), out.nbytes, 1
    if len(rows) > 1 and rows.strides[0] != rows[0].nbytes:
        run, count = rows[0].nbytes, len(rows)
    source: Any
    if count == 1:
        source = _Vector(begin, run)
    else:
        source = (_Vector * count)()
        filled = np.frombuffer(source, np.uintp).reshape(count, 2)
        filled[:, 0] = np.arange(count, dtype=np.uintp) * rows.strides[0] + begin
        filled[:, 1] = run
    target = _Vector(_address(out), out.nbytes)
    copied = _libc.process_vm_readv(os.getpid(), ctypes.byref(target), 1, ctypes.byref(source), count, 0)
    if copied == out.nbytes:
        return 0
    return ctypes.get_errno() if copied < 0 else errno.EFAULT
