"""Memory that is a file's: what lies there is read and written without holding any of one's own.

A file is mapped once for a whole load, by the worker that needs it first, and all of them copy their parts
from there. To map and unmap every tensor of its own costs 60 us beside workers that do the same: 1,000
tensors of 4 KiB for 4 workers on 2 cores then take 440 ms, with one map 110, and reading the whole of each
140. The price: whoever cuts a file short in the very milliseconds of a copy ends the process with SIGBUS, as
with every memory map. Files that were changed earlier are refused.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import DiscoError

if TYPE_CHECKING:
    from disco_magic.loader.stored import StoredFile

Array = np.ndarray[Any, Any]


class Pages:
    """The files of one load, each mapped when it is first needed; they are let go with this and its arrays.

    May be used by several threads at once.
    """

    def __init__(self) -> None:
        self._maps: dict[StoredFile, mmap.mmap] = {}

    def of(self, file: StoredFile) -> mmap.mmap:
        """All of `file`, to be read only.

        Raises:
            DiscoError: it cannot be read, or is not the one that was checked.
        """
        found = self._maps.get(file)
        if found is None:
            with file.open() as opened:
                found = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            return self._maps.setdefault(file, found)  # another worker may have been faster
        file.check()
        return found


def writable(file: StoredFile, offset: int, nbytes: int) -> Array:
    """Bytes of `file`, which may be written to; that stays out of the file.

    Raises:
        DiscoError: as `Pages.of`.
    """
    if not nbytes:
        return np.empty(0, np.uint8)
    lead = offset % mmap.ALLOCATIONGRANULARITY
    with file.open() as opened:
        pages = mmap.mmap(opened.fileno(), lead + nbytes, access=mmap.ACCESS_COPY, offset=offset - lead)
    return np.frombuffer(pages, np.uint8, nbytes, lead)


def spilled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Zeros in a temporary file, which goes with the array: the kernel can write them out to have room.

    The file is where TMPDIR says, else in /var/tmp: /tmp is often memory itself.

    Raises:
        DiscoError: there is no room for it.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if not nbytes:
        return np.empty(shape, dtype)
    folder = _folder()
    try:
        with tempfile.TemporaryFile(prefix="disco-magic-", dir=folder, buffering=0) as file:
            _reserve(file.fileno(), nbytes)
            pages = mmap.mmap(file.fileno(), nbytes)
    except OSError as reason:
        raise DiscoError(
            f"a temporary file of {nbytes} bytes cannot be written in {folder}: {reason.strerror}; "
            "name a folder with more room in the environment variable TMPDIR"
        ) from None
    return np.frombuffer(pages, np.uint8).view(dtype).reshape(shape)


def _folder() -> str:
    roomy = "/var/tmp"  # noqa: S108 - the file has no name there that anybody could guess
    if "TMPDIR" not in os.environ and os.path.isdir(roomy) and os.access(roomy, os.W_OK):
        return roomy
    return tempfile.gettempdir()


def _reserve(descriptor: int, nbytes: int) -> None:
    """Take the room now: a write to a map of a file whose disk is full ends the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, nbytes)
        return
    zeros = bytes(min(nbytes, 2**20))
    while nbytes:
        nbytes -= os.write(descriptor, zeros[:nbytes])
