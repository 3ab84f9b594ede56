"""Scenes on all GPUs of a machine, a worker on each: ``python -m tests.gpu.several SCENE DEADLINE_S``."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

import disco_magic as disco
from disco_magic.errors import DiscoError
from disco_magic.planes.nccl_calls import Part
from tests.gpu.apart import say
from tests.gpu.machine import QUICK
from tests.gpu.scenes import keep_contract, main
from tests.gpu.spin import Spin

if TYPE_CHECKING:
    from disco_magic.session.session import Session

MOST = 8
LONG_S = 2.0 if QUICK else 20.0
PATIENCE_S = 30.0


def devices(cupy: Any) -> list[int]:
    """All of them, an even number."""
    count = min(cupy.cuda.runtime.getDeviceCount(), MOST)
    return list(range(count - count % 2))


def start(cupy: Any, **names: Any) -> Session:
    """A worker on each, in two groups, and in a mesh; its cells have `names`."""
    there = devices(cupy)
    mesh = {"dp": 2, "tp": len(there) // 2}
    return disco.ThreadedSession(num_groups=2, mesh=mesh, devices=there, extras=lambda context: names)


def works(session: Session) -> list[Any]:
    """What every worker gets of the whole session and of its group."""
    cell = "[int(allreduce(xp.ones(5), in_group=each)[4]) for each in (False, True)]"
    return list(session.run(cell, timeout=PATIENCE_S).values)


def contract(cupy: Any, *done: str) -> None:
    """The plane's, but for the checks `done`."""
    keep_contract(cupy, devices(cupy), done)


def numbers(cupy: Any) -> None:
    """Sums of whole numbers, of arrays that take NCCL several chunks, and a ring of messages."""
    with start(cupy) as session:
        n, length = session.num_workers, 1_000_003
        given = [np.random.default_rng(worker).integers(-1000, 1000, length) for worker in range(n)]
        session["x"] = session.scatter(np.stack(given), in_group=False)
        session.run(
            "total, everything = allreduce(x, in_group=False), allgather(x, in_group=False)\n"
            "send(x, (worker_id + 1) % num_workers); former = recv((worker_id - 1) % num_workers)"
        )
        say(
            total=all((session["total"].get(w) == sum(given)).all() for w in range(n)),
            everything=all((session["everything"].get(w) == np.concatenate(given)).all() for w in range(n)),
            former=all((session["former"].get(w) == given[w - 1]).all() for w in range(n)),
            after=works(session),
        )


def axes(cupy: Any) -> None:
    """Sums over both axes of the mesh by turns, and between the first worker and the last."""
    with start(cupy) as session:
        n = session.num_workers
        got = session.run(
            "x = xp.full(1 << 20, worker_id + 1)\n"
            "for _ in range(10): rows, columns = allreduce(x, over='tp'), allreduce(x, over='dp')\n"
            f"ends = allreduce(x, over=[0, {n - 1}]) if worker_id in (0, {n - 1}) else x\n"
            "[int(each[-1]) for each in (rows, columns, ends)]",
            timeout=PATIENCE_S,
        )
        say(sums=list(got.values), after=works(session))


def null_stream(cupy: Any) -> None:
    """Memory that is sent from a null stream is written again at once: not before it was copied."""
    both = threading.Barrier(2)
    with start(cupy, spin=Spin(cupy), both=both) as session:
        session.run(
            "if worker_id == 0:\n"
            "    with xp.cuda.Stream.null:\n"
            "        send(xp.full(1 << 20, 7.0), 1); both.wait(30); again = xp.full(1 << 20, -1.0)\n"
            "elif worker_id == 1:\n"
            "    spin(0.5); got = recv(0); both.wait(30)"
        )
        say(got=sorted(set(session["got"].get(1).tolist())), after=works(session))


def interrupted(cupy: Any) -> None:
    """Collectives of the session and of groups wait behind one GPU's long work when the cell is stopped."""
    spin = Spin(cupy)
    spin(0.0)
    began = threading.Semaphore(0)
    with start(cupy, spin=spin, began=began.release) as session:
        before = works(session)
        pending = session.run_nowait(
            f"if worker_id == 0: spin({LONG_S})\n"
            "a = allreduce(xp.ones(1 << 20), in_group=False)\nb = allreduce(xp.ones(1 << 20))\nbegan()"
        )
        for _ in range(session.num_workers):
            began.acquire(timeout=PATIENCE_S)
        begin = monotonic()
        pending.cancel()
        try:
            pending.wait(PATIENCE_S)
        except DiscoError as error:
            say(error=type(error).__name__, seconds=monotonic() - begin)
        left = session.run("'a' in globals()", timeout=PATIENCE_S)
        say(before=before, left=list(left.values), after=works(session))


def failed(cupy: Any) -> None:
    """A collective of which one part could not be started; the same cell goes on."""
    begin, armed = Part.start, [True]

    def failing(part: Part, *given: Any) -> None:
        if part.call.worker == 1 and armed:
            armed.clear()
            raise MemoryError("no memory for that")
        begin(part, *given)

    with ExitStack() as stack:
        session = stack.enter_context(start(cupy))
        before = works(session)
        stack.enter_context(patch.object(Part, "start", failing))
        got = session.run(
            "try: allreduce(xp.ones(4), in_group=False)\n"
            "except Exception as reason: what = type(reason).__name__\n"
            "[what, xp.cuda.runtime.getDevice(), int(allreduce(xp.ones(4), in_group=False)[0])]",
            timeout=PATIENCE_S,
        )
        say(before=before, outcomes=list(got.values), after=works(session))


def restarted(cupy: Any) -> None:
    """A restart beside a GPU that computes for long."""
    spin = Spin(cupy)
    spin(0.0)
    began = threading.Event()
    with start(cupy, spin=spin, began=began.set) as session:
        session.run_nowait(
            f"if worker_id == 0: spin({LONG_S}); began()\nallreduce(xp.ones(9), in_group=False)"
        )
        began.wait(PATIENCE_S)
        begin = monotonic()
        session.restart()
        say(seconds=monotonic() - begin, after=works(session))


_SCENES = (contract, numbers, axes, null_stream, interrupted, failed, restarted)
SCENES = {scene.__name__: scene for scene in _SCENES}


if __name__ == "__main__":
    main(SCENES)
