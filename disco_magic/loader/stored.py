"""A tensor as it lies in a file: where, and how a worker gets its part of it.

A part that lies in one run is read, any other one is copied from a map of the file, so that it costs the
pages it touches and nothing else. 256 MiB from the page cache into fresh memory, 4 threads on 2 cores: parts
along axis 1 of rows of 1 KiB take 41 ms, by blocks of whole rows 92. In one run a map is no faster, and of
small tensors slower: 1,000 parts of 1 KiB take 22 ms read and 64 mapped, 200 of 256 KiB 169 and 265, of 8 MiB
12 each and 14. And whoever cuts a file short while it is mapped ends the process with SIGBUS; a read says so.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import DiscoError, UsageMistake, words
from disco_magic.functions.aligned import new_array

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
        found = os.fstat(opened.fileno())
        if (found.st_size, found.st_mtime_ns) == (self.nbytes, self.mtime_ns):
            return opened
        opened.close()
        how = "has the same number" if found.st_size == self.nbytes else f"has {found.st_size}"
        raise DiscoError(
            f"{self.path} was changed after it had been checked: it had {self.nbytes} bytes and {how} now; "
            "load it again when nobody writes it any more"
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

    def elements(self) -> Array:
        """All that is stored, flat, as unsigned integers; what is written there stays out of the file."""
        kind, nbytes = self._kind, self.stored_nbytes
        lead = self.offset % mmap.ALLOCATIONGRANULARITY
        with self.file.open() as opened:
            if not nbytes:
                return np.empty(0, kind)
            begin = self.offset - lead
            try:
                pages = mmap.mmap(opened.fileno(), lead + nbytes, access=mmap.ACCESS_COPY, offset=begin)
            except (OSError, ValueError) as reason:  # it was cut short meanwhile, or there are no maps here
                raise DiscoError(f"{self.file.path} cannot be mapped: {words(reason)}") from None
        return np.frombuffer(pages, kind, self.size, lead)

    @property
    def _kind(self) -> np.dtype[Any]:
        """An element in the file, as an unsigned integer."""
        return np.dtype(f"<u{self.dtype.itemsize // (1 + self.halved)}")

    def copy_to(self, out: Array, axis: int | None, rank: int, count: int) -> Iterator[int]:
        """Fill `out` with part `rank` of `count` along `axis`, None: the whole, in blocks.

        Args:
            out: contiguous, of shape ``part_shape(axis, count)`` and the tensor's dtype.
            axis: along which the tensor is split; None: it is not.
            rank: which part.
            count: of how many equal ones.

        Yields:
            Bytes written to `out` since the last time, once per block; whoever does not go on leaves the rest
            unwritten.

        Raises:
            DiscoError: the file is not there any more, was changed, or cut short meanwhile.
        """
        target = out.reshape(-1).view(f"<u{self.dtype.itemsize}")
        rows = 1 if axis is None or count == 1 else math.prod(self.shape[:axis])
        if rows == 1 or not target.size:
            return self._read_run(target, 0 if axis is None else rank)
        return self._copy_rows(target.reshape(rows, -1), rank)

    def _read_run(self, target: Array, rank: int) -> Iterator[int]:
        """A part that lies in one run."""
        step = max(1, BLOCK_NBYTES // target.itemsize)
        halves = np.empty(min(step, target.size), self._kind) if self.halved else None
        with self.file.open() as opened:
            opened.seek(self.offset + rank * target.size * self._kind.itemsize)
            for start in range(0, target.size, step):
                block = target[start : start + step]
                stored = block if halves is None else halves[: block.size]
                self._fill(opened, stored)
                if halves is not None:
                    np.left_shift(stored, np.uint32(16), out=block)
                yield block.nbytes

    def _fill(self, opened: FileIO, block: Array) -> None:
        room = block.view(np.uint8).data
        while room:
            nbytes = opened.readinto(room)  # 2 GiB at most, or less
            if not nbytes:
                raise DiscoError(
                    f"{self.file.path} was cut short while it was read: tensor {self.name!r} is not all there"
                )
            room = room[nbytes:]

    def _copy_rows(self, target: Array, rank: int) -> Iterator[int]:
        """A part in several runs, one per index of the axes before the one it is split along."""
        rows, width = target.shape
        source = self.elements().reshape(rows, -1)[:, rank * width : (rank + 1) * width]
        step = max(1, BLOCK_NBYTES // max(1, target[:1].nbytes))
        for start in range(0, rows, step):
            block = target[start : start + step]
            if self.halved:
                np.left_shift(source[start : start + step], np.uint32(16), out=block)
            else:
                np.copyto(block, source[start : start + step])
            yield block.nbytes

    def read(self, out: Array | None = None) -> Array:
        """The whole tensor in `out`, or in memory of its own."""
        filled: Array = new_array(self.shape, self.dtype) if out is None else out
        for _ in self.copy_to(filled, None, 0, 1):
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
