"""Our plane on NCCL with one rank, beside the same calls of cupy's bare communicator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.gpus import data
from benchmarks.gpus.crew import Crew
from benchmarks.gpus.stand import MIB, Skipped, size_text
from disco_magic.patience import wait_until
from tests.gpu.nccl import absent

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpus.stand import Stand

FLOAT32, BYTES, SUM = 7, 1, 0
SMALL = 8
MOST_OVER_S = 10e-6
LEAST_SHARE = 1 / 1.05
VERBS = ("allreduce", "broadcast", "allgather", "reduce_scatter")


def measure(stand: Stand) -> None:
    """8 bytes by the time it takes more, large arrays by the ratio; both sides wait for every call's end."""
    from disco_magic import ThreadedSession

    reason = absent()
    if reason is not None:
        raise Skipped(reason)
    with ThreadedSession(1, ccl="nccl", devices=[0]) as session:
        session.sync_all()
        Crew(stand, session).all(_measure, stand)


def _measure(me: Any, stand: Stand) -> None:
    """On the worker's own thread and stream, so that both sides have the same."""
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
    """One verb of a worker, from one array to another."""
    _, verb, x, y = call
    small = x.nbytes == SMALL
    target = {"most_over_s": MOST_OVER_S} if small else {"least_share": LEAST_SHARE}
    for name, what, one, compared in (
        ("bare", "cupy's communicator, waited for as ours", _bare(*call, communicator), {}),
        ("plane", "our plane", _ours(*call), target | {"against": f"{verb}.{x.nbytes}.bare"}),
    ):
        y[...] = -1
        seconds = stand.by_clock(one)
        if not bool((x == y).all()):
            raise RuntimeError(f"{verb} by {what} gave something else")
        stand.tell(
            f"{verb}.{x.nbytes}.{name}",
            f"{verb}, {size_text(x.nbytes)}: {what}",
            seconds,
            0 if small else 2 * x.nbytes,
            **compared,
        )


def _bare(me: Any, verb: str, x: Any, y: Any, communicator: Any) -> Callable[[int], object]:
    stream, done = me.place.stream, me.xp.cuda.Event(disable_timing=True)
    source, target = x.data.ptr, y.data.ptr
    calls: dict[str, Callable[[], None]] = {
        "allreduce": lambda: communicator.allReduce(source, target, x.size, FLOAT32, SUM, stream.ptr),
        "broadcast": lambda: communicator.broadcast(source, target, x.nbytes, BYTES, 0, stream.ptr),
        "allgather": lambda: communicator.allGather(source, target, x.nbytes, BYTES, stream.ptr),
        "reduce_scatter": lambda: communicator.reduceScatter(
            source, target, x.size, FLOAT32, SUM, stream.ptr
        ),
    }
    call = calls[verb]

    def one(_: int) -> None:
        call()
        done.record(stream)
        wait_until(lambda: bool(done.done))

    return one


def _ours(me: Any, verb: str, x: Any, y: Any) -> Callable[[int], object]:
    method = getattr(me, verb)
    return lambda _: method(x, out=y)
