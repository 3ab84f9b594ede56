"""What tests run in a process of its own: ``python -m tests.gpu.scenes SCENE DEADLINE_S [ARGUMENT ...]``."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from disco_magic.planes.flights import Flight
from disco_magic.planes.nccl import NcclPlane
from disco_magic.planes.nccl_calls import Part
from disco_magic.testing import PLANE_CHECKS, check_plane
from disco_magic.testing.stage import values
from disco_magic.threads.patience import wait_until
from tests.gpu.apart import say, until_deadline
from tests.gpu.machine import SIMULATED, machine
from tests.planes import conftest as crew
from tests.planes.on_gpus import OnGpus, lacks_in_nccl, places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHECK_S = 30.0
PATIENCE_S = 10.0

# One thread writes to an address that is nobody's.
_FAULT = 'extern "C" __global__ void fault(long long address) { *(int *)address = 1; }'


def hang(cupy: Any, deadline_s: str) -> None:
    """Never ends by itself: to see that its deadline ends it."""
    say(begun=True)
    # Only now: the double of NCCL is compiled before, which takes long on a busy machine.
    until_deadline(float(deadline_s))
    threading.Event().wait()


def fault(cupy: Any) -> None:
    """A kernel that breaks the device, and what a session says then."""
    import disco_magic as disco
    from disco_magic.errors import DiscoError

    def strike() -> None:
        cupy.RawModule(code=_FAULT, options=(), backend="nvrtc").get_function("fault")((1,), (1,), (8,))

    if SIMULATED:  # what it would do to this process is not simulated
        from disco_magic.testing.gpu.errors import ILLEGAL_ADDRESS

        def strike() -> None:
            error = cupy.cuda.runtime.CUDARuntimeError(ILLEGAL_ADDRESS)
            cupy.cuda.get_current_stream().launch_host_func(_raiser(error), None)

    session = disco.ThreadedSession(2, devices=[0, 0], extras=lambda context: {"strike": strike})
    session.run("x = xp.ones(4)")
    for name, cell in [("first", "if worker_id == 1: strike()"), ("second", "y = x + 1\nallreduce(y)")]:
        try:
            session.run(cell, timeout=PATIENCE_S)
        except DiscoError as error:
            say(**{name: f"{type(error).__name__}: {error}"})
        else:
            say(**{name: None})
    try:
        session.shutdown(timeout=PATIENCE_S)
    finally:
        say(closed=session.closed)


def _raiser(error: BaseException) -> Any:
    def work(_: object) -> None:
        raise error

    return work


# --- two ranks of NCCL on one GPU: NCCL_MULTI_RANK_GPU_ENABLE=1 has to be set ------------------------


def contract(cupy: Any, *done: str) -> None:
    """The plane's contract with two workers, but for the checks `done`; a note for each."""
    keep_contract(cupy, [0, 0], done)


def keep_contract(cupy: Any, devices: Sequence[int], done: Sequence[str]) -> None:
    """The same with a worker on each of `devices`."""

    def make(count: int) -> Any:
        there = places(cupy, devices[:count])
        return OnGpus(NcclPlane(there), there, lacks_in_nccl)

    with patch.object(crew, "DEADLINE_S", CHECK_S / 2):
        for check in PLANE_CHECKS:
            if check.__name__ in done:
                continue
            until_deadline(CHECK_S)
            try:
                check_plane(make, crew.run, sizes=[len(devices)], checks=[check])
            except BaseException as error:  # noqa: BLE001 - of pytest too; all of it is the finding
                say(check=check.__name__, wrong=f"{type(error).__name__}: {error}"[:2000])
            else:
                say(check=check.__name__, wrong=None)


class _Pair:
    """A plane of two workers on one GPU, and a good call before and after whatever happens to it."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.plane = NcclPlane(places(cupy, [0, 0]))
        self.scope = 0

    def run(self, program: Any) -> list[Any]:
        """``program(plane, seat)`` on both workers, as one command."""
        self.scope += 1

        def entered(plane: Any, seat: Any) -> Any:
            plane._places[seat.worker].enter()
            return program(plane, seat)

        return crew.run(self.plane, entered, self.scope)

    def good(self) -> list[Any]:
        """What an allreduce gives them."""
        return values(self.run(lambda plane, seat: self.allreduce(seat).get().tolist()))

    def allreduce(self, seat: Any) -> Any:
        """Of a few ones."""
        return self.plane.allreduce(seat, self.cupy.ones(4, "float32"), "sum", None)


def lone_abort(cupy: Any) -> None:
    """One rank's kernel waits for the other one's, which does not come, and its worker for its GPU."""
    pair = _Pair(cupy)
    say(before=pair.good())
    start = Part.start

    def alone(part: Part, communicator: Any, nccl: Any, stream: int) -> None:
        if part.call.worker == 0:
            start(part, communicator, nccl, stream)

    def interrupt() -> None:
        waits = pair.plane.waiting
        wait_until(lambda: any(isinstance(wait, Flight) for wait in list(waits.values())), PATIENCE_S)
        pair.plane.abort(pair.scope, "interrupted")

    def program(plane: Any, seat: Any) -> None:
        pair.allreduce(seat)
        plane._places[seat.worker].finish()

    with patch.object(Part, "start", alone):
        helper = threading.Thread(target=interrupt)
        helper.start()
        outcomes = pair.run(program)
        helper.join()
    say(outcomes=[type(outcome).__name__ for outcome in outcomes])
    say(after=pair.good())
    pair.plane.close()


def peer_fails(cupy: Any) -> None:
    """One rank's kernel waits; the other one could not start its own."""
    pair = _Pair(cupy)
    say(before=pair.good())
    start = Part.start

    def failing(part: Part, communicator: Any, nccl: Any, stream: int) -> None:
        if part.call.worker == 1:
            raise MemoryError("no memory for that")
        start(part, communicator, nccl, stream)

    with patch.object(Part, "start", failing):
        outcomes = pair.run(lambda plane, seat: pair.allreduce(seat))
    say(outcomes=[f"{type(outcome).__name__}: {outcome}" for outcome in outcomes])
    say(after=pair.good())
    pair.plane.close()


def memory_is_freed_while_a_peer_waits(cupy: Any) -> None:
    """One rank waits; the other one gives memory back, which waits for all of the device, and comes."""
    pair = _Pair(cupy)
    say(before=pair.good())

    def program(plane: Any, seat: Any) -> Any:
        if seat.worker == 1:
            crew.until_parked(plane, 1)
            for _ in range(10):
                cupy.empty(1 << 22, "uint8")
                cupy.get_default_memory_pool().free_all_blocks()
        return pair.allreduce(seat).get().tolist()

    say(outcomes=values(pair.run(program)))
    say(after=pair.good())
    pair.plane.close()


SCENES = {
    scene.__name__: scene
    for scene in (hang, fault, contract, lone_abort, peer_fails, memory_is_freed_while_a_peer_waits)
}


def main(scenes: Mapping[str, Any] = SCENES) -> None:
    """Run one of `scenes`; a finding is a note, never an exit status."""
    name, deadline_s, *arguments = sys.argv[1:]
    until_deadline(float(deadline_s))
    with machine() as cupy:
        scenes[name](cupy, *arguments)
        say(ended=name)
        # What is left of a broken device could keep the process from ending.
        os._exit(0)


if __name__ == "__main__":
    main()
