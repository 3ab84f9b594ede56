"""`cupy.cuda.runtime`: CUDA's runtime calls, which take numbers and addresses."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NamedTuple

from disco_magic.testing.gpu.cuda import MULTIPROCESSORS
from disco_magic.testing.gpu.errors import NO_DEVICE, CUDARuntimeError, NotSimulated

if TYPE_CHECKING:
    from disco_magic.testing.gpu.world import World

VERSION = 13000


class PointerAttributes(NamedTuple):
    """The result of `pointerGetAttributes`."""

    device: int
    devicePointer: int
    hostPointer: int
    type: int


class Runtime(types.ModuleType):
    """The module, with CuPy's names."""

    CUDARuntimeError = CUDARuntimeError
    is_hip = False
    memcpyHostToHost = 0
    memcpyHostToDevice = 1
    memcpyDeviceToHost = 2
    memcpyDeviceToDevice = 3
    memcpyDefault = 4
    memoryTypeUnregistered = 0
    memoryTypeHost = 1
    memoryTypeDevice = 2

    def __init__(self, world: World) -> None:
        super().__init__("cupy.cuda.runtime")
        self._world = world

    def __getattr__(self, name: str) -> Any:
        raise NotSimulated(f"cupy.cuda.runtime.{name}")

    def getDeviceCount(self) -> int:
        """The number of devices; as in CUDA, an error if there are none."""
        if not self._world.devices:
            raise CUDARuntimeError(NO_DEVICE)
        return len(self._world.devices)

    def getDevice(self) -> int:
        """The ordinal of the calling thread's current device."""
        return self._world.device.id

    def setDevice(self, device: int) -> None:
        """Make a device the calling thread's current one."""
        self._world.set_device(device)

    def getDeviceProperties(self, device: int) -> dict[str, Any]:
        """Some properties."""
        found = self._world.device_at(device)
        return {
            "name": b"Simulated GPU",
            "totalGlobalMem": found.pool.limit,
            "multiProcessorCount": MULTIPROCESSORS,
            "major": 9,
            "minor": 0,
            "warpSize": 32,
            "pciDomainID": 0,
            "pciBusID": device + 1,
            "pciDeviceID": 0,
            "uuid": bytes([device]) * 16,
        }

    def deviceGetPCIBusId(self, device: int) -> str:
        """The id that distinguishes devices of one machine."""
        bus_id: str = self._world.cupy.cuda.Device(device).pci_bus_id
        return bus_id

    def deviceCanAccessPeer(self, device: int, peer: int) -> int:
        """Whether one device may access another one's memory."""
        self._world.device_at(device), self._world.device_at(peer)
        return int(self._world.peers and device != peer)

    def deviceSynchronize(self) -> None:
        """Wait for all work of the current device."""
        self._world.device.synchronize()

    def streamSynchronize(self, stream: int) -> None:
        """Wait for all work of a stream."""
        self._world.queue_at(stream).synchronize()

    def eventQuery(self, event: int) -> int:
        """0 if the stream has reached the event, 600 if not, or the number of the device's error."""
        status: int = self._world.events[event].query()
        return status

    def pointerGetAttributes(self, ptr: int) -> PointerAttributes:
        """Device and kind of the memory at an address."""
        for device in self._world.devices:
            if device.pool.holds(ptr, 1):
                return PointerAttributes(device.id, ptr, 0, self.memoryTypeDevice)
        if self._world.pinned.holds(ptr, 1):
            return PointerAttributes(self.getDevice(), ptr, ptr, self.memoryTypeHost)
        return PointerAttributes(-2, 0, ptr, self.memoryTypeUnregistered)

    def memGetInfo(self) -> tuple[int, int]:
        """``(free, total)`` bytes of the current device."""
        info: tuple[int, int] = self._world.cupy.cuda.Device().mem_info
        return info

    def memcpy(self, dst: int, src: int, size: int, kind: int) -> None:
        """Copy on the null stream; wait unless the copy is from device to device."""
        queue = self._world.device.null
        self._world.memcpy(dst, src, size, kind, queue)
        if kind != self.memcpyDeviceToDevice:
            queue.synchronize()

    def memcpyAsync(self, dst: int, src: int, size: int, kind: int, stream: int) -> None:
        """Copy on a stream."""
        self._world.memcpy(dst, src, size, kind, self._world.queue_at(stream))

    def memset(self, ptr: int, value: int, size: int) -> None:
        """Fill bytes on the null stream."""
        self._world.memset(ptr, value, size, self._world.device.null)

    def memsetAsync(self, ptr: int, value: int, size: int, stream: int) -> None:
        """Fill bytes on a stream."""
        self._world.memset(ptr, value, size, self._world.queue_at(stream))

    def driverGetVersion(self) -> int:
        """The version of CUDA."""
        return VERSION

    def runtimeGetVersion(self) -> int:
        """The version of CUDA."""
        return VERSION
