"""A tensor as it lies in a file: where, and how a worker gets its part of it.

Parts are copied from a map of the file (`pages.py`), so that one along any axis costs the pages it touches
and nothing else. 256 MiB from the page cache into fresh memory, 4 threads on 2 cores: parts of 16 MiB along
axis 0 take 85 ms, with `readinto` 170; of 1 MiB 270 and 340; along axis 1 of rows of 1 KiB 41, by blocks of
whole rows 92. From disk both wait for the disk.
"""

from __future__ import annotations

import math
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import DiscoError, UsageMistake
from disco_magic.functions.aligned import new_array
from disco_magic.loader.pages import Pages, writable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO

Array = np.ndarray[Any, Any]
# Between two blocks a copy can be stopped and its progress seen: 1 to 4 ms.
BLOCK_NBYTES: Final = 8 * 2**20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as it was when its table of contents was checked.

    Attributes:
        path: absolute.
        nbytes: its size.
        mtime_ns: when it was last written.
        md5: what its content must hash to, in lower-case hex; None if nobody said.
    """

    path: str
    nbytes: int
    mtime_ns: int
    md5: str | None = None

    @classmethod
    def at(cls, path: Path, where: str, md5: str | None = None) -> StoredFile:
        """The file at `path`; `where` begins the error.

        Raises:
            UsageMistake: there is none that can be read.
        """
        try:
            found = path.stat()
        except OSError as reason:
            raise UsageMistake(f"{where} cannot be read: {reason.strerror}: {path}") from None
        if not stat.S_ISREG(found.st_mode):
            raise UsageMistake(f"{where} is no file: {path}")
        if not os.access(path, os.R_OK):
            raise UsageMistake(f"{where} cannot be read: Permission denied: {path}")
        return cls(os.path.abspath(path), found.st_size, found.st_mtime_ns, md5)

    def open(self) -> FileIO:
        """The file, open for reading.

        Raises:
            DiscoError: it cannot be read, or is not the one that was checked.
        """
        try:
            opened = open(self.path, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
        except OSError as reason:
            raise DiscoError(f"{self.path} cannot be read: {reason.strerror}") from None
        try:
            self._compare(os.fstat(opened.fileno()))
        except DiscoError:
            opened.close()
            raise
        return opened

    def check(self) -> None:
        """See that the file is there and the one that was checked; raises as `open`."""
        try:
            self._compare(os.stat(self.path))
        except OSError as reason:
            raise DiscoError(f"{self.path} cannot be read: {reason.strerror}") from None

    def _compare(self, found: os.stat_result) -> None:
        if (found.st_size, found.st_mtime_ns) != (self.nbytes, self.mtime_ns):
            raise DiscoError(
                f"{self.path} was changed after it had been checked: it had {self.nbytes} bytes and has "
                f"{found.st_size}; load it again when nobody writes it any more"
            )

    def hashed(self) -> Iterator[int]:
        """Read the whole file and compare its MD5 sum; yields the bytes of each block that was read.

        Raises:
            DiscoError: the sum differs.
        """
        import hashlib  # 3 ms that only who has sums to check has to spend

        sum_ = hashlib.md5(usedforsecurity=False)
        block = bytearray(min(BLOCK_NBYTES, self.nbytes))
        with self.open() as opened:
            while nbytes := opened.readinto(block):
                sum_.update(memoryview(block)[:nbytes])
                yield nbytes
        if self.md5 is not None and sum_.hexdigest() != self.md5:
            raise DiscoError(
                f"{self.path} is damaged: its MD5 sum is {sum_.hexdigest()}, expected {self.md5}; "
                "fetch the file again"
            )


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor lies and what it is.

    Attributes:
        name: as the file has it.
        shape, dtype: of the whole tensor, as it is loaded.
        file, offset: the first byte's place.
        halved: only the upper halves of float32 numbers are stored: bfloat16, to be widened.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    file: StoredFile
    offset: int
    halved: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def stored_nbytes(self) -> int:
        """Bytes in the file."""
        return stored_nbytes(self.shape, self.dtype, halved=self.halved)

    def part_shape(self, axis: int | None, count: int) -> tuple[int, ...]:
        """Shape of one of `count` equal parts along `axis`; None: of the whole."""
        if axis is None:
            return self.shape
        return (*self.shape[:axis], self.shape[axis] // count, *self.shape[axis + 1 :])

    def part_nbytes(self, axis: int | None, count: int) -> int:
        """Bytes that such a part takes in memory."""
        return math.prod(self.part_shape(axis, count)) * self.dtype.itemsize

    @property
    def _kind(self) -> np.dtype[Any]:
        """What an element is in the file, as an unsigned integer."""
        return np.dtype(f"<u{self.dtype.itemsize // (1 + self.halved)}")

    def elements(self) -> Array:
        """All that is stored, flat, as unsigned integers; what is written there stays out of the file."""
        return writable(self.file, self.offset, self.stored_nbytes).view(self._kind)

    def copy_to(self, out: Array, axis: int | None, rank: int, count: int, pages: Pages) -> Iterator[int]:
        """Fill `out` with part `rank` of `count` along `axis`, None: the whole, in blocks.

        Args:
            out: contiguous, of shape ``part_shape(axis, count)`` and the tensor's dtype.
            axis: along which the tensor is split; None: it is not.
            rank: which part.
            count: of how many equal ones.
            pages: of the load that this belongs to.

        Yields:
            Bytes written to `out` since the last time, once per block; whoever does not go on leaves the rest
            unwritten.

        Raises:
            DiscoError: the file is not there any more, or was changed.
        """
        source = self._part(axis, rank, count, pages)
        target = out.reshape(-1).view(f"<u{self.dtype.itemsize}").reshape(source.shape)
        if source.ndim == 2 and (len(source) == 1 or source.flags.c_contiguous):
            source, target = source.reshape(-1), target.reshape(-1)
        row_nbytes = max(1, target[:1].nbytes)
        rows = max(1, BLOCK_NBYTES // row_nbytes)
        for start in range(0, len(source), rows):
            block = target[start : start + rows]
            if self.halved:
                np.left_shift(source[start : start + rows], np.uint32(16), out=block)
            else:
                np.copyto(block, source[start : start + rows])
            yield block.nbytes

    def _part(self, axis: int | None, rank: int, count: int, pages: Pages) -> Array:
        """The stored part as a matrix: a row per index of the axes before `axis`."""
        mapped = pages.of(self.file) if self.size else b""
        flat = np.frombuffer(mapped, self._kind, self.size, self.offset if self.size else 0)
        if axis is None:
            return flat.reshape(1, -1)
        before = math.prod(self.shape[:axis])
        width = math.prod(self.shape[axis:]) // count
        return flat.reshape(before, width * count)[:, rank * width : (rank + 1) * width]

    def read(self, pages: Pages, out: Array | None = None) -> Array:
        """The whole tensor in `out`, or in memory of its own."""
        filled: Array = new_array(self.shape, self.dtype) if out is None else out
        for _ in self.copy_to(filled, None, 0, 1, pages):
            pass
        return filled


def stored_nbytes(shape: tuple[int, ...], dtype: np.dtype[Any], *, halved: bool = False) -> int:
    """Bytes that a tensor takes in a file."""
    return math.prod(shape) * (dtype.itemsize // (1 + halved))


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The checked contents of a file, or of several that belong together.

    Attributes:
        path: what was opened.
        tensors: by name, in the order they lie on disk.
        metadata: what the file says about itself.
    """

    path: str
    tensors: dict[str, StoredTensor]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """The files that hold the tensors, each once."""
        return tuple(dict.fromkeys(tensor.file for tensor in self.tensors.values()))


def sibling(folder: Path, name: str, where: str) -> Path:
    """A file named by another one that lies in `folder`.

    Raises:
        UsageMistake: the name leads out of the folder.
    """
    path = Path(name)
    if not name or path.is_absolute() or ".." in path.parts:
        raise UsageMistake(f"{where} names the file {name!r}, expected one in the folder {folder}")
    return folder / path
