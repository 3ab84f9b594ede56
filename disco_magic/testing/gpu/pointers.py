"""Device memory as CuPy shows it: pointers, and the pool's statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from disco_magic.testing.gpu.cuda import Device, Stream
    from disco_magic.testing.gpu.world import World


class MemoryPointer:
    """`cupy.cuda.MemoryPointer`: an offset into an allocation of device memory."""

    world: ClassVar[World]

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem = mem
        self.offset = offset

    @property
    def ptr(self) -> int:
        """The address."""
        return cast("int", self.mem.ptr) + self.offset

    @property
    def device_id(self) -> int:
        """The ordinal of the memory's device."""
        return cast("int", self.mem.device_id)

    @property
    def device(self) -> Device:
        """The memory's device."""
        return cast("Device", self.world.cupy.cuda.Device(self.device_id))

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, nbytes: int) -> MemoryPointer:
        return type(self)(self.mem, self.offset + nbytes)


class DeviceMemoryPool:
    """`cupy.get_default_memory_pool()`: the current device's pool."""

    def __init__(self, world: World) -> None:
        self._world = world

    def used_bytes(self) -> int:
        """Bytes in use by arrays."""
        return self._world.device.pool.used_bytes()

    def free_bytes(self) -> int:
        """Bytes of free blocks."""
        return self.total_bytes() - self.used_bytes()

    def total_bytes(self) -> int:
        """Bytes that the pool has from the device."""
        return self._world.device.pool.total_bytes()

    def n_free_blocks(self) -> int:
        """The number of free blocks."""
        return self._world.device.pool.n_free_blocks()

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        """Return free blocks of `stream`, None: of all streams, to the device; wait for all of its work."""
        self._world.device.pool.free_all_blocks(None if stream is None else stream.ptr)

    def malloc(self, nbytes: int) -> MemoryPointer:
        """Allocate memory of the current device and stream."""
        return cast("MemoryPointer", self._world.cupy.cuda.alloc(nbytes))
