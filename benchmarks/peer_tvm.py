"""Measures TVM Disco's ThreadedSession in the way `control`, `data` and `growth` measure ours.

``python -m benchmarks.peer_tvm EFFORT control|data|growth``
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.clock import Effort, batches
from benchmarks.data import expect
from benchmarks.floor import array, noop
from benchmarks.side import serve

if TYPE_CHECKING:
    from collections.abc import Callable


@cache
def disco() -> Any:
    """Import the module ``tvm.runtime.disco`` and register a no-op as ``bench.noop``.

    The wheel apache-tvm 0.27 sets it to None unless the libraries that hold Disco were loaded with global
    symbols between ``import tvm_ffi`` and ``import tvm``.
    """
    import tvm_ffi

    spec = importlib.util.find_spec("tvm")
    if spec is None or spec.origin is None:
        raise ImportError("no tvm; pip install apache-tvm")
    for name in ("libtvm_runtime.so", "libtvm_runtime_extra.so"):
        ctypes.CDLL(str(Path(spec.origin).parent / "lib" / name), ctypes.RTLD_GLOBAL)
    import tvm.runtime

    if tvm.runtime.disco is None:
        raise ImportError("this wheel of apache-tvm has no Disco")
    tvm_ffi.register_global_func("bench.noop", noop, override=True)
    tvm_ffi.register_global_func("bench.seven", lambda: 7, override=True)
    return tvm.runtime.disco


class Session:
    """A ThreadedSession that stays open as long as the process, because shutting one down can abort it."""

    def __init__(self, workers: int) -> None:
        self.session = disco().ThreadedSession(workers)
        self.workers = range(workers)
        self.noop = self.session.get_global_func("bench.noop")
        self.native = self.session.get_global_func("runtime.disco.worker_id")

    def sync(self) -> None:
        """Wait for every worker in turn; this is all TVM offers."""
        for worker in self.workers:
            self.session._sync_worker(worker)  # noqa: SLF001 - TVM's only way to wait for a worker other than 0

    def call_and_sync(self) -> None:
        """Make one call and wait for all workers."""
        self.noop()
        self.sync()


session = cache(Session)


def first_import(effort: Effort) -> list[float]:
    """Time the import, in this fresh process; one sample per round."""
    del effort
    start = perf_counter()
    disco()
    return [perf_counter() - start]


def call(effort: Effort, workers: int, function: str = "noop") -> list[float]:
    """Time `count` calls with results dropped, then one sync: seconds per call."""
    here = session(workers)
    return batches(getattr(here, function), effort.count(8000 // workers), effort.repeat, inside=here.sync)


def enqueue_dropped(effort: Effort) -> list[float]:
    """Time the calls alone, results dropped at once."""
    here = session(effort.workers)
    return batches(here.noop, 1000, effort.repeat, after=here.sync)


def enqueue_kept(effort: Effort) -> list[float]:
    """Time the calls alone, results kept until the clock has stopped."""
    here, kept = session(effort.workers), []

    def drop() -> None:
        here.sync()
        kept.clear()
        here.sync()

    return batches(lambda: kept.append(here.noop()), 1000, effort.repeat, after=drop)


def round_trip(effort: Effort, workers: int) -> list[float]:
    """Time one call and one sync of all workers."""
    return batches(session(workers).call_and_sync, effort.count(1000 // workers), effort.repeat)


def debug_get(effort: Effort) -> list[float]:
    """Time reading the int in worker 1's register, all workers idle."""
    here = session(effort.workers)
    register = here.session.get_global_func("bench.seven")()
    here.sync()
    if register.debug_get_from_remote(1) != 7:
        raise RuntimeError("worker 1 does not hold 7")
    return batches(lambda: register.debug_get_from_remote(1), effort.count(300), effort.repeat)


def call_and_get(effort: Effort) -> list[float]:
    """Time one call and reading its value on worker 1."""
    seven = session(effort.workers).session.get_global_func("bench.seven")
    return batches(lambda: seven().debug_get_from_remote(1), effort.count(300), effort.repeat)


def start(effort: Effort) -> list[float]:
    """Time starting a session and its first sync."""
    disco()
    made = []

    def once() -> None:
        made.append(Session(effort.workers))
        made[-1].sync()

    return batches(once, 1, effort.repeat)


def copy(effort: Effort, direction: str) -> list[float]:
    """Time copying 64 MiB between controller and worker 0, into an existing array, until it is done."""
    here = session(effort.workers).session
    import tvm.runtime

    host, back = tvm.runtime.tensor(array()), tvm.runtime.tensor(array() * 0)
    remote = here.empty(host.shape, "float32")
    here.copy_to_worker_0(host, remote)
    here.copy_from_worker_0(back, remote)
    here.sync_worker_0()
    expect(back.numpy(), 1)
    verb = here.copy_to_worker_0 if direction == "to" else here.copy_from_worker_0
    return batches(partial(verb, host, remote), 1, effort.repeat, inside=here.sync_worker_0)


def registers(effort: Effort, live: int) -> list[float]:
    """Time calling and dropping with `live` other registers held; dropping 100,000 is too slow if quick."""
    if effort.quick and live > 1000:
        return []
    here = session(effort.workers)
    held = [here.noop() for _ in range(live)]
    here.sync()
    samples = batches(here.noop, effort.count(1000), effort.repeat, inside=here.sync)
    held.clear()
    here.sync()
    return samples


PARTS: dict[str, dict[str, Callable[[Effort], list[float]]]] = {
    "control": {
        "import": first_import,
        "call": lambda effort: call(effort, effort.workers),
        "call.native": lambda effort: call(effort, effort.workers, "native"),
        "call.wide": lambda effort: call(effort, 16),
        "enqueue.dropped": enqueue_dropped,
        "enqueue.kept": enqueue_kept,
        "round": lambda effort: round_trip(effort, effort.workers),
        "round.wide": lambda effort: round_trip(effort, 16),
        "get": debug_get,
        "get.called": call_and_get,
        "start": start,
    },
    "data": {"copy.to": partial(copy, direction="to"), "copy.from": partial(copy, direction="from")},
    "growth": {
        **{f"workers.{n}": partial(call, workers=n) for n in (1, 2, 4, 8, 16, 32)},
        **{f"registers.{live}": partial(registers, live=live) for live in (10, 1000, 100_000)},
    },
}

if __name__ == "__main__":
    serve(PARTS[sys.argv[2]])
    # Leave without finalizers: TVM's destructors of live sessions can abort a finished process.
    os._exit(0)
