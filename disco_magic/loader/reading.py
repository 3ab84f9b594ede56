"""Reads rows of a file into memory, without a copy in between.

Not through a map of the file: touching a page that no longer exists, because the file was saved anew or the
disk failed, ends the process. A map that the kernel copies out of, which gets an error instead, is no faster:
of 256 MiB in the page cache it took 85 ms of CPU time where reading takes 60, by 4 threads in runs of 64 KiB;
in runs of 4 KiB, 117 where reading takes 132.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import DiscoError
from disco_magic.phrases import words

if TYPE_CHECKING:
    from io import FileIO

    from disco_magic.loader.stored import StoredFile

    Array = np.ndarray[Any, Any]

# Each row costs a call, however short it is: reading more than is wanted is faster.
NARROW_NBYTES: Final = 4096
_SCRATCH_NBYTES: Final = 512 * 2**10  # small enough to stay in a core's cache


def read_rows(file: StoredFile, opened: FileIO, begin: int, stride: int, out: Array) -> None:
    """Fill `out` with rows at equal distances of an open file.

    Args:
        file: the file, as it was checked.
        opened: the same.
        begin: where the first row begins, in bytes.
        stride: from the beginning of one row to that of the next one, in bytes.
        out: contiguous, with two axes.
    """
    if len(out) > 1 and out[0].nbytes < stride < NARROW_NBYTES:
        _read_narrow(file, opened, begin, stride, out)
    else:
        _read(file, opened, begin, stride, out)
    # Checked after that: what was written meanwhile would otherwise pass for the checked content.
    file.check()


def _read_narrow(file: StoredFile, opened: FileIO, begin: int, stride: int, out: Array) -> None:
    """Read rows as long as their distance, of which each begins with a wanted one, and cut them."""
    width, count = out.shape[1], min(len(out), (file.nbytes - begin) // stride)
    step = max(1, _SCRATCH_NBYTES // stride)
    scratch = np.empty((min(step, count), stride // out.itemsize), out.dtype)
    for top in range(0, count, step):
        long = scratch[: min(step, count - top)]
        _read(file, opened, begin + top * stride, stride, long)
        out[top : top + len(long)] = long[:, :width]
    if count < len(out):  # the last row ends with the file
        _read(file, opened, begin + count * stride, stride, out[count:])


def _read(file: StoredFile, opened: FileIO, begin: int, stride: int, out: Array) -> None:
    run = out[0].nbytes
    if stride == run:
        run = out.nbytes
    every = out.reshape(-1).view(np.uint8).data
    for start in range(0, out.nbytes, run):
        try:
            opened.seek(begin)
            _fill(every[start : start + run], file, opened)
        except OSError as reason:
            raise file.unreadable(reason) from None
        begin += stride


def _fill(room: memoryview, file: StoredFile, opened: FileIO) -> None:
    while room:
        nbytes = opened.readinto(room)  # at most 2 GiB, perhaps less
        if not nbytes:
            file.check()
            raise DiscoError(f"{file.path} was cut short while it was read")
        room = room[nbytes:]


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
