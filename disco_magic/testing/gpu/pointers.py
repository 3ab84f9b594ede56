"""Device memory as CuPy shows it: pointers, and the numbers of the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from disco_magic.testing.gpu.cuda import Device, Stream
    from disco_magic.testing.gpu.world import World


class MemoryPointer:
    """`cupy.cuda.MemoryPointer`: a place in a loan of device memory."""

    world: ClassVar[World]

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem = mem
        self.offset = offset

    @property
    def ptr(self) -> int:
        """Its address."""
        return cast("int", self.mem.ptr) + self.offset

    @property
    def device_id(self) -> int:
        """The device it is on."""
        return cast("int", self.mem.device_id)

    @property
    def device(self) -> Device:
        """The device it is on."""
        return cast("Device", self.world.cupy.cuda.Device(self.device_id))

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, nbytes: int) -> MemoryPointer:
        return type(self)(self.mem, self.offset + nbytes)


class DeviceMemoryPool:
    """`cupy.get_default_memory_pool()`: the numbers of the current device's pool."""

    def __init__(self, world: World) -> None:
        self._world = world

    def used_bytes(self) -> int:
        """What arrays have."""
        return self._world.device.pool.used_bytes()

    def free_bytes(self) -> int:
        """What waits for the next array."""
        return self.total_bytes() - self.used_bytes()

    def total_bytes(self) -> int:
        """What the pool has from the device."""
        return self._world.device.pool.total_bytes()

    def n_free_blocks(self) -> int:
        """How many blocks wait for the next array."""
        return self._world.device.pool.n_free_blocks()

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        """Give what is free back to the device, None: of all streams; waits for all of the device's work."""
        self._world.device.pool.free_all_blocks(None if stream is None else stream.ptr)

    def malloc(self, nbytes: int) -> MemoryPointer:
        """Memory of the current device and stream."""
        return cast("MemoryPointer", self._world.cupy.cuda.alloc(nbytes))
