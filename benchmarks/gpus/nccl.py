"""Our plane on NCCL next to the same calls of cupy's bare communicator: one rank, and two ranks.

Calls of both sides return when their work is queued: many are queued and waited for together.
"""

from __future__ import annotations

import threading
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.clock import spans, widths
from benchmarks.gpus import data
from benchmarks.gpus.crew import Crew
from benchmarks.gpus.stand import MIB, Skipped, size_text
from disco_magic.planes.nccl import NcclPlane
from disco_magic.testing.stage import values
from tests.gpu.machine import SIMULATED
from tests.gpu.nccl import FIRST_TO_SHARE, absent
from tests.planes.conftest import run
from tests.planes.on_gpus import places

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpus.stand import Stand

FLOAT32, BYTES, SUM = 7, 1, 0
SMALL = 8
WARM = 1000
MOST_OVER_S = 10e-6
LEAST_SHARE = 1 / 1.05
VERBS = ("allreduce", "broadcast", "allgather", "reduce_scatter")


def measure(stand: Stand) -> None:
    """Compare 8 bytes by the extra time, large arrays by the ratio."""
    from disco_magic import ThreadedSession

    reason = absent()
    if reason is not None:
        raise Skipped(reason)
    with ThreadedSession(1, ccl="nccl", devices=[0]) as session:
        session.sync_all()
        Crew(stand, session).all(_measure, stand)


def _measure(me: Any, stand: Stand) -> None:
    """Measure on the worker's own thread and stream, so that both sides have the same."""
    nccl = me.xp.cuda.nccl
    communicator = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0)
    try:
        for nbytes in stand.effort.pick([SMALL, MIB, 16 * MIB, 256 * MIB], [SMALL, 16 * MIB], [SMALL, 4096]):
            x, y = (me.xp.empty(nbytes, "uint8") for _ in range(2))
            data.fill(me.xp, x, np.dtype("f4"), 0)
            for verb in VERBS:
                _compare(stand, (me, verb, x.view("float32"), y.view("float32")), communicator)
    finally:
        communicator.abort()


def _compare(stand: Stand, call: tuple[Any, str, Any, Any], communicator: Any) -> None:
    """Compare one verb from one array to another: queued one after the other, and each waited for."""
    me, verb, x, y = call
    small = x.nbytes == SMALL
    target = {"most_over_s": MOST_OVER_S} if small else {"least_share": LEAST_SHARE}
    bare, ours = _bare(me.place, verb, x, y, communicator), partial(getattr(me, verb), x, out=y)
    for how, waited in (("queued", False), ("waited for", True)):
        name = f"{verb}.{x.nbytes}" + ".waited" * waited
        for side, what, one, compared in (
            ("bare", "cupy's communicator", bare, {}),
            ("plane", "our plane", ours, ({} if waited else target) | {"against": f"{name}.bare"}),
        ):
            y[...] = -1
            for _ in range(WARM if small else 1):  # the first hundreds after connecting are slow
                one()
            seconds = stand.sampled(partial(_batch, one, me.place.finish, waited=waited))
            if not bool((x == y).all()):
                raise RuntimeError(f"{verb} by {what} gave something else")
            stand.tell(
                f"{name}.{side}",
                f"{verb}, {size_text(x.nbytes)}, {how}: {what}",
                seconds,
                0 if small else 2 * x.nbytes,
                **compared,
            )


def _batch(call: Callable[[], object], finish: Callable[[], object], count: int, *, waited: bool) -> float:
    """Return the seconds of `count` calls up to the end of their work; `waited`: wait for each."""
    start = perf_counter()
    for _ in range(count):
        call()
        if waited:
            finish()
    finish()
    return perf_counter() - start


def _bare(place: Any, verb: str, x: Any, y: Any, communicator: Any) -> Callable[[], object]:
    stream, source, target = place.stream, x.data.ptr, y.data.ptr
    calls: dict[str, Callable[[], None]] = {
        "allreduce": lambda: communicator.allReduce(source, target, x.size, FLOAT32, SUM, stream.ptr),
        "broadcast": lambda: communicator.broadcast(source, target, x.nbytes, BYTES, 0, stream.ptr),
        "allgather": lambda: communicator.allGather(source, target, x.nbytes, BYTES, stream.ptr),
        "reduce_scatter": lambda: communicator.reduceScatter(
            source, target, x.size, FLOAT32, SUM, stream.ptr
        ),
    }
    return calls[verb]


# --- two ranks ---------------------------------------------------------------------------------------


def measure_pair(stand: Stand) -> None:
    """Measure two ranks, threads of this process, with a GPU each; a machine's only GPU is shared."""
    reason = absent()
    version = None if reason else stand.cupy.cuda.nccl.get_version()
    several = stand.cupy.cuda.runtime.getDeviceCount() > 1
    if version is None or (version < FIRST_TO_SHARE and not SIMULATED and not several):
        raise Skipped(reason or f"NCCL {version} takes no two ranks on one GPU, {FIRST_TO_SHARE} does")
    gpus = "two GPUs" if several else "one GPU"
    pair = _Pair(stand, places(stand.cupy, [0, 1] if several else [0, 0]))
    repeat = stand.effort.pick(25, 9, 2)
    for nbytes in stand.effort.pick([SMALL, 64 * 1024, MIB, 16 * MIB, 256 * MIB], [SMALL, 16 * MIB], [SMALL]):
        small = nbytes == SMALL
        count = stand.effort.pick(20 if nbytes <= MIB else 3, 5, 1)
        target = (
            {"most_over_s": MOST_OVER_S} if small else {"least_share": LEAST_SHARE} if nbytes >= MIB else {}
        )
        for name, what, ours, compared in (
            ("bare", "cupy's communicators", False, {}),
            ("plane", "our plane", True, target | {"against": f"{nbytes}.bare"}),
        ):
            stand.tell(
                f"{nbytes}.{name}",
                f"allreduce of two ranks on {gpus}, {size_text(nbytes)}: {what}",
                pair.measured(nbytes, count, repeat, ours=ours),
                0 if small else 2 * 2 * nbytes,
                **compared,
            )
    pair.plane.close()


class _Pair:
    """Two ranks: our plane, and each rank's bare communicator."""

    def __init__(self, stand: Stand, there: list[Any]) -> None:
        self.cupy, self.places = stand.cupy, there
        self.plane = NcclPlane(there)
        self.unique_id = stand.cupy.cuda.nccl.get_unique_id()
        self.communicators: list[Any] = [None, None]
        self.barrier = threading.Barrier(2)
        self.scope = 0
        self.each(self._connect)

    def each(self, work: Callable[[Any], Any]) -> list[Any]:
        """Run ``work(seat)`` in two threads, each at its place."""
        self.scope += 1

        def program(_: object, seat: Any) -> Any:
            self.places[seat.worker].enter()
            return work(seat)

        return list(values(run(self.plane, program, self.scope)))

    def _connect(self, seat: Any) -> None:
        nccl = self.cupy.cuda.nccl
        self.communicators[seat.worker] = nccl.NcclCommunicator(2, self.unique_id, seat.worker)

    def measured(self, nbytes: int, count: int, repeat: int, *, ours: bool) -> list[float]:
        """Return the seconds of an allreduce, from the first rank's start to the last one's end."""

        def work(seat: Any) -> Any:
            x = self.cupy.full(max(nbytes // 4, 1), seat.worker + 1, "float32")
            y = self.cupy.zeros_like(x)
            place, communicator = self.places[seat.worker], self.communicators[seat.worker]
            call = (
                partial(self.plane.allreduce, seat, x, "sum", y)
                if ours
                else _bare(place, "allreduce", x, y, communicator)
            )
            self.barrier.wait()  # loading a kernel during the other rank's collective would wait for it
            call()
            place.finish()
            self.barrier.wait()
            if not bool((y == 3).all()):
                raise RuntimeError("the ranks' sum is wrong")
            taken = spans(self.barrier.wait, lambda: _batch(call, place.finish, count, waited=False), repeat)
            self.barrier.wait()  # memory is freed after this: no collective may still be running
            return taken

        return widths(self.each(work), count)
