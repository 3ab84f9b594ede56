"""Measures what a collective on GPUs costs on the host in our own Python code, without a GPU.

``python -m benchmarks.hollow [--workers 1 2 4] [--rounds 9]``

Below the planes everything is hollow: streams, events and NCCL do nothing and take next to no time, arrays
are an address and a shape. What remains is what we add to every call: reading arguments, checks, the meeting,
bookkeeping of calls in flight. This shows what a change to it costs or saves; the cost of CUDA and NCCL comes
on top, and only a GPU shows that (`benchmarks.gpu`). The worker's verb, which records the call and shields it
from interrupts, is not included: each member calls the plane in a plain thread.

Nothing is computed, so results cannot be checked here; the tests of the planes do that.

Runs in one process, several rounds of every row in turn; prints medians and the fastest round.
"""

from __future__ import annotations

import argparse
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import count, product
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.seat import Seat
from disco_magic.devices.gpu import GpuPlace
from disco_magic.planes.device import DevicePlane
from disco_magic.planes.nccl import NcclPlane
from disco_magic.planes.threads import ThreadPlane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CALLS: Final = 3000
SPOT: Final = ((lambda: None).__code__, 0)
_addresses = count(1 << 20, 1 << 12)
_streams = count(1)


def _nothing(*_: object, **__: object) -> int:
    return 0


class Array:
    """Has, as attributes, what the planes read of an array of cupy; cupy's own are no slower."""

    __slots__ = (
        "__weakref__",
        "data",
        "device",
        "dtype",
        "flags",
        "itemsize",
        "nbytes",
        "ndim",
        "shape",
        "size",
        "strides",
    )

    def __init__(self, shape: Any, dtype: Any) -> None:
        like = np.empty(shape, dtype)
        for name in ("dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides"):
            setattr(self, name, getattr(like, name))
        self.data = SimpleNamespace(ptr=next(_addresses))
        self.device = SimpleNamespace(id=0)
        self.flags = SimpleNamespace(c_contiguous=True)


class Device:
    """The only GPU."""

    attributes: Final = {"MultiProcessorCount": 132}

    def __init__(self, index: int = 0) -> None:
        self.id = index

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    use = _nothing


class Stream:
    """A stream that takes no work."""

    current = threading.local()
    done = True

    def __init__(self, **_: bool) -> None:
        self.ptr = next(_streams) << 8

    def use(self) -> None:
        """Become the thread's current stream."""
        Stream.current.stream = self

    def __enter__(self) -> None:
        self.use()

    is_capturing = wait_event = __exit__ = _nothing


class Event:
    """An event that has always passed."""

    ptr = 1

    def __init__(self, **_: bool) -> None: ...

    record = _nothing


class Communicator:
    """A communicator of NCCL that has nothing to do."""

    def __init__(self, *_: object) -> None: ...

    allReduce = broadcast = abort = check_async_error = _nothing  # noqa: N815 - cupy's name


class Module(SimpleNamespace):
    """A module with these names."""

    __hash__ = object.__hash__


def hollow() -> Any:
    """Make a module `cupy` that does nothing."""
    nccl = SimpleNamespace(
        available=True,
        NcclError=OSError,
        NcclCommunicator=Communicator,
        get_unique_id=_nothing,
        groupStart=_nothing,
        groupEnd=_nothing,
    )
    runtime = SimpleNamespace(is_hip=False, CUDARuntimeError=OSError, eventQuery=_nothing, getDevice=_nothing)
    cuda = SimpleNamespace(Device=Device, Event=Event, Stream=Stream, nccl=nccl, runtime=runtime)
    cuda.get_current_stream = lambda: Stream.current.stream
    kernel = SimpleNamespace(get_function=lambda _: _nothing)
    return Module(__version__="14.0.0", ndarray=Array, empty=Array, cuda=cuda, RawModule=lambda **_: kernel)


def seconds(plane: Any, places: Sequence[GpuPlace], array: Callable[[Any, Any], Any]) -> float:
    """Time one allreduce of 8 bytes on the clock of worker 0: the median of runs of ten."""
    members = tuple(range(len(places)))
    spans: list[float] = []

    def work(worker: int) -> None:
        places[worker].enter()
        x, out = array(2, "f4"), array(2, "f4")
        seat = Seat(worker, members, 1, members, SPOT)
        for _ in range(CALLS // 10):
            start = perf_counter()
            for _ in range(10):
                plane.allreduce(seat, x, "sum", out)
            if worker == 0:
                spans.append((perf_counter() - start) / 10)

    with ThreadPoolExecutor(len(members)) as pool:
        for done in as_completed([pool.submit(work, worker) for worker in members]):
            if done.exception() is not None:
                plane.close()  # the other members would wait for this one for ever
            done.result()
    return median(spans)


def main() -> None:
    """Measure, and print a row per plane and number of workers."""
    parser = argparse.ArgumentParser(
        description="What a collective on GPUs costs on the host in our own Python."
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    cupy = hollow()
    rows: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.rounds):
        for workers, kind in product(options.workers, (NcclPlane, DevicePlane, ThreadPlane)):
            places = [GpuPlace(cupy, 0) for _ in range(workers)]
            if kind is ThreadPlane:
                plane, array = ThreadPlane(workers), np.ones
            else:
                plane, array = kind(places), Array
            rows.setdefault((plane.name, workers), []).append(seconds(plane, places, array))
            plane.close()
    for (name, workers), found in rows.items():
        who = f"{workers} worker{'s' * (workers > 1)}"
        print(f"allreduce 8 B, {name:7}, {who:9}: {1e6 * median(found):6.1f} us ({1e6 * min(found):.1f})")


if __name__ == "__main__":
    main()
