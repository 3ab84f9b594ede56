"""A tensor in a file: where it is, and how a worker gets its part of it.

A part is read in blocks: it takes its own memory and nothing else.
"""

from __future__ import annotations

import math
import os
import stat
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import DiscoError, UsageMistake
from disco_magic.functions.aligned import new_array
from disco_magic.loader.reading import private, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO

Array = np.ndarray[Any, Any]
# Between two blocks a copy can be stopped and its progress read: 1 to 4 ms, more if rows are short.
BLOCK_NBYTES: Final = 8 * 2**20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as it was when its table of contents was checked."""

    path: str
    nbytes: int
    mtime_ns: int
    md5: str | None = None

    @classmethod
    def at(cls, path: Path, where: str, md5: str | None = None) -> StoredFile:
        """Return the file at `path`; `where` begins the error."""
        try:
            found = path.stat()
        except OSError as reason:
            raise UsageMistake(f"{where} cannot be read: {reason.strerror}: {path}") from None
        except ValueError as reason:  # a zero, or half a character
            raise UsageMistake(f"{where} cannot be read: {reason}: {str(path)!r}") from None
        if not stat.S_ISREG(found.st_mode):
            raise UsageMistake(f"{where} is not a file: {path}")
        if not os.access(path, os.R_OK):
            raise UsageMistake(f"{where} cannot be read: Permission denied: {path}")
        return cls(os.path.abspath(path), found.st_size, found.st_mtime_ns, md5)

    def text(self, where: str) -> str:
        """Return the text in the file; `where` begins the error."""
        try:
            return Path(self.path).read_text("utf-8")
        except UnicodeDecodeError as reason:
            raise UsageMistake(f"{where} is no UTF-8 text: {reason}") from None

    def open(self) -> FileIO:
        """Open the file for reading.

        Raises:
            DiscoError: it cannot be read, or is not the one that was checked.
        """
        try:
            opened = open(self.path, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
            found = os.fstat(opened.fileno())
        except OSError as reason:
            raise self.unreadable(reason) from None
        if self._is(found):
            return opened
        opened.close()
        raise self._changed(found)

    def check(self) -> None:
        """Check that the file exists and is unchanged."""
        try:
            found = os.stat(self.path)
        except OSError as reason:
            raise self.unreadable(reason) from None
        if not self._is(found):
            raise self._changed(found)

    def _is(self, found: os.stat_result) -> bool:
        return (found.st_size, found.st_mtime_ns) == (self.nbytes, self.mtime_ns)

    def unreadable(self, reason: OSError) -> DiscoError:
        """Make the error that the system cannot read the file, or a part of it."""
        return DiscoError(f"{self.path} cannot be read: {reason.strerror}")

    def _changed(self, found: os.stat_result) -> DiscoError:
        how = "has the same number" if found.st_size == self.nbytes else f"has {found.st_size}"
        return DiscoError(
            f"{self.path} was changed after it had been checked: it had {self.nbytes} bytes and {how} now; "
            "load it again when nobody writes it any more"
        )

    def hashed(self) -> Iterator[int]:
        """Read the whole file and compare its MD5 sum; yield the size of each block that was read."""
        import hashlib  # takes 3 ms, paid only if there are sums to check

        sum_ = hashlib.md5(usedforsecurity=False)
        block = bytearray(min(BLOCK_NBYTES, self.nbytes))
        with self.open() as opened:
            for nbytes in iter(partial(opened.readinto, block), 0):
                sum_.update(memoryview(block)[:nbytes])
                yield nbytes
        if self.md5 is not None and sum_.hexdigest() != self.md5:
            raise DiscoError(
                f"{self.path} is damaged: its MD5 sum is {sum_.hexdigest()}, expected {self.md5}; "
                "fetch the file again"
            )


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """What a tensor is, and where it lies.

    Attributes:
        name: as in the file.
        shape, dtype: of the whole tensor, as it is loaded.
        file, offset: where its first byte is.
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
        """How many bytes it takes in the file."""
        return stored_nbytes(self.shape, self.dtype, halved=self.halved)

    def part_shape(self, axis: int | None, count: int) -> tuple[int, ...]:
        """Return the shape of one of `count` equal parts along `axis`; None: of the whole."""
        if axis is None:
            return self.shape
        return (*self.shape[:axis], self.shape[axis] // count, *self.shape[axis + 1 :])

    def part_nbytes(self, axis: int | None, count: int) -> int:
        """Return how many bytes such a part takes in memory."""
        return math.prod(self.part_shape(axis, count)) * self.dtype.itemsize

    def elements(self) -> Array:
        """Map everything stored, flat, as unsigned integers; writes to it do not reach the file.

        It has no memory of its own: if the file is truncated while it is in use, the process ends.
        """
        if not self.stored_nbytes:
            return np.empty(0, self._kind)
        return private(self.file, self.offset, self.stored_nbytes).view(self._kind)

    @property
    def _kind(self) -> np.dtype[Any]:
        """The unsigned integer type as large as an element in the file."""
        return np.dtype(f"<u{self.dtype.itemsize // (1 + self.halved)}")

    def copy_to(self, out: Array, axis: int | None, rank: int) -> Iterator[int]:
        """Fill `out` with part `rank` along `axis`, None: the whole, in blocks.

        Args:
            out: contiguous, of shape ``part_shape(axis, count)`` and the tensor's dtype.
            axis: the axis the tensor is split along; None: it is not.
            rank: which part.

        Yields:
            How many bytes were written to `out` since the last time, once per block; a caller that stops
            iterating leaves the rest unwritten.

        Raises:
            DiscoError: the file no longer exists, was changed or truncated meanwhile, or cannot be read.
        """
        if not out.size:
            self.file.check()
            return
        rows, part = (1, 0) if axis is None else (math.prod(self.shape[:axis]), rank)
        target = out.reshape(-1).view(f"<u{self.dtype.itemsize}").reshape(rows, -1)
        width, item_nbytes = target.shape[1], self._kind.itemsize
        stride = self.stored_nbytes // rows
        room = max(1, BLOCK_NBYTES // target.itemsize)
        tall, wide = max(1, room // width), min(room, width)
        blocks = ((top, left) for top in range(0, rows, tall) for left in range(0, width, wide))
        with self.file.open() as opened:
            for top, left in blocks:
                block = target[top : top + tall, left : left + wide]
                begin = self.offset + top * stride + (part * width + left) * item_nbytes
                if self.halved:
                    halves = np.empty(block.shape, self._kind)
                    read_rows(self.file, opened, begin, stride, halves)
                    # With `dtype`: else NumPy 1 shifts within 16 bits, because the number is small.
                    np.left_shift(halves, np.uint32(16), out=block, dtype=block.dtype)
                else:
                    read_rows(self.file, opened, begin, stride, block)
                yield block.nbytes

    def read(self, out: Array | None = None) -> Array:
        """Read the whole tensor into `out`, or into new memory."""
        filled: Array = new_array(self.shape, self.dtype) if out is None else out
        for _ in self.copy_to(filled, None, 0):
            pass
        return filled


def stored_nbytes(shape: tuple[int, ...], dtype: np.dtype[Any], *, halved: bool = False) -> int:
    """Return how many bytes a tensor takes in a file."""
    return math.prod(shape) * (dtype.itemsize // (1 + halved))


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The checked contents of a file, or of several that belong together.

    Attributes:
        path: what was opened.
        tensors: by name, in the order of the files or of their list.
        metadata: what the file records about itself.
    """

    path: str
    tensors: dict[str, StoredTensor]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """The files that hold the tensors, each once."""
        return tuple(dict.fromkeys(tensor.file for tensor in self.tensors.values()))


def sibling(folder: Path, name: str, where: str) -> Path:
    """Return the path of a file in `folder` that another file names."""
    path = Path(name)
    if not name or path.is_absolute() or ".." in path.parts:
        raise UsageMistake(f"{where} names the file {name!r}, expected one in the folder {folder}")
    return folder / path
