"""Device memory and pinned memory, from pools that behave like CuPy's, which is where real bugs come from.

A block comes from the *arena* of the stream that was current when it was allocated. It returns there at once
when its array is gone, even if queued work still uses it. The next request on that stream that fits into it
gets it, with its old content: the smallest block that is large enough, and of these what was freed last.
Another stream that still reads it sees what the next owner writes. CuPy splits such a block, and lends the
rest to others; here the rest is nobody's meanwhile.

No memory is unmapped before the simulation ends, so that a test shows wrong numbers instead of crashing.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.testing.gpu.errors import OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

UNIT: Final = 512  # bytes; size and address of every block are multiples of it
POISON: Final = 0xA5  # the content of unwritten memory


def rounded(nbytes: int) -> int:
    """`nbytes` rounded up to whole units."""
    return -(-nbytes // UNIT) * UNIT


class Block:
    """A piece of memory.

    Attributes:
        bytes: its content, an array of uint8; work reads and writes views of it.
        ptr: its address.
        home: the free blocks of its arena and size.
        lent: reference to the loan; dead when the block is free.
    """

    __slots__ = ("bytes", "home", "lent", "ptr")

    def __init__(self, nbytes: int) -> None:
        everything = np.full(nbytes + UNIT, POISON, np.uint8)
        start = -everything.ctypes.data % UNIT
        self.bytes = everything[start : start + nbytes]
        self.ptr = self.bytes.ctypes.data
        self.home: list[_Return] = []
        self.lent: _Return | None = None

    @property
    def nbytes(self) -> int:
        """The size of the block."""
        return self.bytes.nbytes

    @property
    def in_use(self) -> bool:
        """Whether the block is lent."""
        return self.lent is not None and self.lent() is not None

    def lend(self, loan: Any) -> None:
        """Lend the block to `loan`: it is free again when `loan` is gone."""
        back = _Return(loan, self.home.append)
        back.block = self
        self.lent = back


class _Return(weakref.ref[Any]):
    """Weak reference that joins the free blocks when the loan dies.

    The callback is a C function: it takes no lock and runs no Python code, so that a block cannot get lost,
    whichever thread drops an array and whatever is injected into that thread.
    """

    __slots__ = ("block",)
    block: Block


class Memory:
    """A loan of device memory, as in `ndarray.data.mem`."""

    __slots__ = ("__weakref__", "bytes", "device_id", "ptr", "size")

    def __init__(self, block: Block, device_id: int, size: int) -> None:
        self.bytes = block.bytes[:size]
        self.ptr = block.ptr
        self.size = size
        self.device_id = device_id


class UnownedMemory:
    """Memory by address that another object owns, such as an array of another library on the same device."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = 0) -> None:
        self.bytes = at_address(ptr, size)
        self.ptr = ptr
        self.size = size
        self.owner = owner
        self.device_id = device_id


def at_address(ptr: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes at an address of this process, as an array that does not own them."""
    if not nbytes:
        return np.empty(0, np.uint8)
    there: Any = (ctypes.c_uint8 * nbytes).from_address(ptr)
    return np.ndarray(nbytes, np.uint8, there)


def unowned(array: Any) -> Any:
    """A view of the same elements by address, which does not keep their memory alive."""
    return np.ndarray(array.shape, array.dtype, at_address(array.ctypes.data, array.nbytes), 0, array.strides)


class Pool:
    """The memory of one device.

    Args:
        device_id: its ordinal.
        limit: its size in bytes.
        settle: called before blocks are returned to the device; waits for all of the device's work, as
            cudaFree does.
    """

    def __init__(self, device_id: int, limit: int, settle: Callable[[], None]) -> None:
        self.device_id = device_id
        self.limit = limit
        self._settle = settle
        self._arenas: dict[int, dict[int, list[_Return]]] = {}
        self._blocks: list[Block] = []
        self._attic: list[Block] = []
        self._lock = threading.Lock()
        self._freeing = threading.Lock()  # a thread that needs memory waits for what another one returns

    def malloc(self, nbytes: int, stream: int) -> Memory:
        """Allocate a block of the arena of the stream at `stream`."""
        size = rounded(nbytes)
        arena = self._arenas.setdefault(stream, {})
        block = _smallest(arena, size)
        if block is None:
            block = self._map(size)
            block.home = arena.setdefault(size, [])
        loan = Memory(block, self.device_id, size)
        block.lend(loan)
        return loan

    def _map(self, size: int) -> Block:
        if self.total_bytes() + size > self.limit:
            self.free_all_blocks()
        with self._lock:
            total = self.total_bytes()
            if total + size > self.limit:
                raise OutOfMemoryError(size, total, self.limit)
            block = self._from_attic(size) or Block(size)
            self._blocks.append(block)
            return block

    def _from_attic(self, size: int) -> Block | None:
        for index, block in enumerate(self._attic):
            if block.nbytes == size:
                del self._attic[index]
                block.bytes.fill(POISON)
                return block
        return None

    def free_all_blocks(self, stream: int | None = None) -> None:
        """Return free blocks of `stream`, None: of all streams, to the device; wait for the device's work."""
        with self._freeing:
            arenas = list(self._arenas.values()) if stream is None else [self._arenas.get(stream, {})]
            idle = [block for arena in arenas for free in list(arena.values()) for block in _emptied(free)]
            if idle:
                self._settle()
            gone = {block.ptr for block in idle}
            with self._lock:
                self._blocks = [*filter(lambda block: block.ptr not in gone, self._blocks)]
                self._attic += idle

    def total_bytes(self) -> int:
        """Bytes that the pool has from the device."""
        return sum(block.nbytes for block in list(self._blocks))

    def used_bytes(self) -> int:
        """Bytes in use by arrays."""
        loans = [block.lent() for block in list(self._blocks) if block.lent is not None]
        return sum(loan.size for loan in loans if loan is not None)

    def n_free_blocks(self) -> int:
        """The number of free blocks."""
        return sum(not block.in_use for block in list(self._blocks))

    def holds(self, ptr: int, nbytes: int) -> bool:
        """Whether `nbytes` bytes at `ptr` belong to one block, free or not."""
        return _holds(self._blocks, ptr, nbytes)


def _smallest(arena: dict[int, list[_Return]], size: int) -> Block | None:
    """Take the smallest free block of at least `size` bytes."""
    for there in sorted(each for each in list(arena) if each >= size):
        with suppress(IndexError):  # there is none, or another thread took the last one
            return arena[there].pop().block
    return None


def _emptied(free: list[_Return]) -> list[Block]:
    blocks = []
    while free:
        try:
            blocks.append(free.pop().block)
        except IndexError:  # another thread took the last one
            break
    return blocks


def _holds(blocks: Iterable[Block], ptr: int, nbytes: int) -> bool:
    return any(b.ptr <= ptr and ptr + nbytes <= b.ptr + b.nbytes for b in list(blocks))


class PinnedPool:
    """Pinned host memory, by the same rules: a freed block is reused at once, even if work still uses it."""

    def __init__(self) -> None:
        self._free: dict[int, list[_Return]] = {}
        self._blocks: list[Block] = []
        self._attic: list[Block] = []

    def malloc(self, nbytes: int) -> Any:
        """Allocate memory with `ptr`, `size()`, `mem` and the buffer protocol (``np.frombuffer``)."""
        free = self._free.setdefault(rounded(nbytes), [])
        try:
            block = free.pop().block
        except IndexError:
            block = Block(rounded(nbytes))
            block.home = free
            self._blocks.append(block)
        kind = type("PinnedMemoryPointer", (_Pinned, ctypes.c_uint8 * nbytes), {})
        pinned = kind.from_address(block.ptr)  # type: ignore[attr-defined]
        block.lend(pinned)
        return pinned

    def holds(self, ptr: int, nbytes: int) -> bool:
        """Whether `nbytes` bytes at `ptr` are pinned."""
        return _holds(self._blocks, ptr, nbytes)

    def n_free_blocks(self) -> int:
        """The number of free blocks."""
        return sum(not block.in_use for block in list(self._blocks))

    def free_all_blocks(self) -> None:
        """Drop free blocks: their memory stays mapped, but is no longer pinned."""
        gone = {block.ptr for free in list(self._free.values()) for block in _emptied(free)}
        self._attic += [block for block in self._blocks if block.ptr in gone]
        self._blocks = [block for block in self._blocks if block.ptr not in gone]


class _Pinned:
    @property
    def ptr(self) -> int:
        """The address."""
        return ctypes.addressof(self)  # type: ignore[arg-type]

    @property
    def mem(self) -> Any:
        """The memory: here the same object."""
        return self

    def size(self) -> int:
        """The size in bytes."""
        return ctypes.sizeof(self)  # type: ignore[arg-type]
