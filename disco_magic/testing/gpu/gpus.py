"""The public class `SimulatedGpus`, and the module-like objects: `cupy`, `cupy.cuda` and their attributes."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from disco_magic.devices import streams
from disco_magic.testing.gpu import cuda, errors, kernels, operations
from disco_magic.testing.gpu.arrays import DeviceArray
from disco_magic.testing.gpu.functions import functions
from disco_magic.testing.gpu.memory import Memory, UnownedMemory
from disco_magic.testing.gpu.runtime import Runtime
from disco_magic.testing.gpu.world import World

if TYPE_CHECKING:
    from disco_magic.testing.gpu.cuda import Device, Stream
    from disco_magic.testing.gpu.pieces import Hold
    from disco_magic.testing.gpu.streams import Lag, WorkQueue


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


VERSION = "14.2.0"


class Module(types.ModuleType):
    """A module whose missing attributes raise `NotSimulated`."""

    def __init__(self, name: str, **content: Any) -> None:
        super().__init__(name)
        self.__dict__.update(content)

    def __getattr__(self, name: str) -> Any:
        raise errors.NotSimulated(f"{self.__name__}.{name}")


def _bound(world: World, name: str, base: type, module: str = "cupy.cuda") -> Any:
    """Make a subclass with CuPy's name and module, bound to one simulation."""
    return type(name, (base,), {"world": world, "__module__": module, "__qualname__": name, "__slots__": ()})


def simulated_cupy(world: World) -> Any:
    """Make the whole of `cupy`."""
    cupy: Any = Module("cupy", **functions(world))
    cupy.ndarray = _bound(world, "ndarray", DeviceArray, "cupy")
    cupy.RawModule = _bound(world, "RawModule", kernels.RawModule, "cupy")
    cupy.RawKernel = _bound(world, "RawKernel", kernels.RawKernel, "cupy")
    cupy.cuda = _cuda(world)
    cupy.random = Module("cupy.random", default_rng=lambda seed=None: Generator(world, seed))
    pool = DeviceMemoryPool(world)
    cupy.get_default_memory_pool = lambda: pool
    cupy.get_default_pinned_memory_pool = lambda: world.pinned
    cupy.__version__ = VERSION
    return cupy


def _cuda(world: World) -> Module:
    stream = _bound(world, "Stream", cuda.Stream)
    stream.null = stream(null=True)
    pointer = _bound(world, "MemoryPointer", MemoryPointer)
    return Module(
        "cupy.cuda",
        Device=_bound(world, "Device", cuda.Device),
        Event=_bound(world, "Event", cuda.Event),
        Stream=stream,
        MemoryPointer=pointer,
        UnownedMemory=UnownedMemory,
        Memory=Memory,
        get_current_stream=lambda device_id=-1: world.stream(None if device_id < 0 else device_id),
        get_elapsed_time=cuda.elapsed_time,
        alloc=lambda size: pointer(world.malloc(size), 0),
        alloc_pinned_memory=world.pinned.malloc,
        is_available=lambda: bool(world.devices),
        runtime=Runtime(world),
        memory=Module("cupy.cuda.memory", OutOfMemoryError=errors.OutOfMemoryError),
        compiler=Module("cupy.cuda.compiler", CompileException=errors.CompileException),
        driver=Module("cupy.cuda.driver", CUDADriverError=errors.CUDADriverError),
    )


class Generator:
    """`cupy.random.default_rng(seed)`: standard normal numbers, the same as NumPy's."""

    def __init__(self, world: World, seed: Any) -> None:
        self._world = world
        self._numbers = np.random.default_rng(seed)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64) -> Any:
        """Draw numbers on the host and copy them on the current stream."""
        return operations.from_host(self._world, self._numbers.standard_normal(size, dtype), None, "C")

    def __getattr__(self, name: str) -> Any:
        raise errors.NotSimulated(f"cupy.random.Generator.{name}")


class SimulatedGpus:
    """Simulated GPUs in host memory, whose streams are threads; a context manager that ends them.

    Args:
        count: number of devices.
        memory_nbytes: bytes of memory per device.
        lag: delays every piece of a stream's work a little, so that unordered work runs in varying order: a
            seed, or a function that returns seconds. None: no delay.

    Attributes:
        cupy: replaces the module `cupy`.
    """

    def __init__(self, count: int = 2, memory_nbytes: int = 1 << 28, lag: Lag = None) -> None:
        self._world = World(count, memory_nbytes, lag)
        self.cupy: Any = simulated_cupy(self._world)
        self._world.cupy = self.cupy
        self._is_closed = False

    def hold(self, stream: Any) -> Hold:
        """Stop a stream (or the one at an address) at this point of its work until the hold is released.

        ``with gpus.hold(stream): ...`` releases it at its end; `Hold.arrived` waits for the stream.
        """
        return self._world.queue_at(stream).hold() if isinstance(stream, int) else stream.queue.hold()

    def queues(self, device: int = 0) -> list[WorkQueue]:
        """The queues of all streams of a device, the null stream's first."""
        return list(self._world.devices[device].queues)

    def allow_peer_access(self) -> None:
        """Let every device access the memory of all devices."""
        self._world.peers = True

    def fail(self, device: int, error: BaseException) -> None:
        """Break a device, as if its work had raised `error`."""
        self._world.devices[device].fail(error)

    def close(self) -> None:
        """End all threads once their work is done. Idempotent.

        Raises:
            RuntimeError: a stream was held or hangs, or a device broke and no call has raised that.
        """
        if not self._is_closed:
            self._is_closed = True
            streams.forget(self.cupy)
            complaints = self._world.close()
            if complaints:
                raise RuntimeError(f"the simulated GPUs ended with: {'; '.join(complaints)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except RuntimeError:
            if kind is None:  # otherwise the block's own error says more
                raise
