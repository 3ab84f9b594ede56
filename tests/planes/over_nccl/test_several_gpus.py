"""What differs where members are on several GPUs, and what NCCL does there that its double does not."""

from __future__ import annotations

import threading

import pytest

from disco_magic.errors import Failure, PlaneError, WorkerInterrupt
from disco_magic.planes import communicators, nccl_calls
from tests.conftest import DEADLINE_S, until
from tests.planes.over_nccl.conftest import good


@pytest.fixture
def ending(monkeypatch):
    """``ending(function)``: what the end of a group does, once, with its own end as argument."""

    def put(function):
        own, left = nccl_calls.Together.__exit__, [function]

        def leave(together, *error):
            if not left:
                return own(together, *error)
            return left.pop()(lambda: own(together, *error))

        monkeypatch.setattr(nccl_calls.Together, "__exit__", leave)

    return put


def test_behind_a_group_that_failed_every_thread_is_on_its_own_gpu(crew, gpus, ending):
    # ncclGroupEnd goes from GPU to GPU, and comes back to the caller's only where nothing fails.
    plane, _ = crew(good)

    def fail(end):
        end()
        runtime = gpus.cupy.cuda.runtime
        runtime.setDevice((runtime.getDevice() + 1) % 4)
        raise gpus.cupy.cuda.nccl.NcclError(1)

    ending(fail)

    def program(plane, seat, xp):
        with pytest.raises(PlaneError):
            good(plane, seat, xp)
        return xp.ones(1).device.id, good(plane, seat, xp)

    assert crew(program, scope=2, plane=plane)[1] == [(worker, [4, 4]) for worker in range(4)]


def test_each_communicator_is_on_the_gpu_of_its_worker(crew):
    def program(plane, seat, xp):
        good(plane, seat, xp)
        return plane._communicators.of(seat.members)[seat.worker].device_id()

    assert crew(program)[1] == [0, 1, 2, 3]


def test_a_collective_on_the_null_stream_comes_after_what_was_queued_there_before(crew, gpus, double):
    def program(plane, seat, xp):
        with xp.cuda.Stream.null as null:
            null.launch_host_func(lambda _: go_on.wait(DEADLINE_S), None)
            total = plane.allreduce(seat, xp.full(2, seat.worker), "sum", None)
            queued.append(seat.worker)
            if len(queued) == len(seat.members):
                go_on.set()
            null.synchronize()
            return total.get().tolist()

    go_on, queued = threading.Event(), []
    assert crew(program)[1] == [[6, 6]] * 4


def interrupted(worker, scope):
    return Failure(worker, scope, "Cell In[2]", WorkerInterrupt(), "")


@pytest.fixture
def endless(crew, ending, monkeypatch, background):
    """A plane whose next call, in scope 2, comes back from NCCL when its communicators are aborted."""
    monkeypatch.setattr(communicators, "_LAUNCH_PATIENCE_S", 0.01)
    plane, _ = crew(good)
    there, aborted = threading.Event(), threading.Event()
    abort = communicators.Communicators._abort

    def noted(self, communicator):
        abort(self, communicator)
        aborted.set()

    monkeypatch.setattr(communicators.Communicators, "_abort", noted)

    def wait(end):
        there.set()
        assert aborted.wait(DEADLINE_S)
        end()
        raise RuntimeError("NCCL_ERROR_INTERNAL")

    ending(wait)
    pending = background(crew, good, scope=2, plane=plane)
    assert there.wait(DEADLINE_S)
    yield plane, pending
    aborted.set()


def test_a_start_that_does_not_come_back_ends_when_a_member_is_interrupted(crew, endless):
    plane, pending = endless
    plane.leave(2, 2, interrupted(2, 2))
    outcomes = pending()[1]
    assert all(isinstance(outcome, PlaneError | list) for outcome in outcomes), outcomes
    assert sum(isinstance(outcome, PlaneError) for outcome in outcomes) >= 3
    assert crew(good, scope=3, plane=plane)[1] == [[4, 4]] * 4


def test_a_start_that_does_not_come_back_ends_with_the_command(crew, endless):
    plane, pending = endless
    plane.abort(2, "the limit is over")
    assert all(isinstance(outcome, PlaneError) for outcome in pending()[1])
    assert crew(good, scope=3, plane=plane)[1] == [[4, 4]] * 4


def test_who_is_interrupted_elsewhere_leaves_a_start_alone(crew, ending, background):
    plane, _ = crew(good)
    there, go_on = threading.Event(), threading.Event()

    def wait(end):
        there.set()
        assert go_on.wait(DEADLINE_S)
        end()

    ending(wait)
    pending = background(crew, good, scope=3, plane=plane)
    assert there.wait(DEADLINE_S)
    plane.leave(2, 2, interrupted(2, 2))
    go_on.set()
    assert pending()[1] == [[4, 4]] * 4


class Slow:
    """A communicator whose abort waits for what its GPU does."""

    def __init__(self, communicator, gate):
        self._communicator, self._gate = communicator, gate
        self.aborted_by = None

    def abort(self):
        self.aborted_by = threading.get_ident()
        self._gate.wait(DEADLINE_S)
        self._communicator.abort()


def test_closing_waits_for_no_gpu(crew, double, monkeypatch):
    monkeypatch.setattr(communicators, "_PATIENCE_S", 0.01)
    plane, _ = crew(good)
    gate, slow = threading.Event(), []
    for held in plane._communicators._held:
        for members, each in held.items():
            slow.append(Slow(each.communicator, gate))
            held[members] = each._replace(communicator=slow[-1])
    plane.close()
    assert double.alive == 4
    gate.set()
    until(lambda: double.alive == 0)
    assert threading.get_ident() not in {each.aborted_by for each in slow}


def test_memory_sent_from_a_null_stream_is_not_used_again_before_it_was_copied(crew, gpus):
    gate, received = threading.Event(), threading.Event()

    def sender(plane, seat, xp):
        with xp.cuda.Stream.null:
            plane.send(seat, xp.full(1000, 7.0), 1)
            assert received.wait(DEADLINE_S)
            return xp.full(1000, -1.0)  # the block that was sent, if it is free

    def receiver(plane, seat, xp):
        xp.cuda.get_current_stream().launch_host_func(lambda _: gate.wait(DEADLINE_S), None)
        got = plane.recv(seat, 0, None)
        received.set()
        pause = threading.Event()
        pause.wait(0.1)  # so long the other one's GPU has to write too early
        gate.set()
        return set(plane._places[1].take(got).tolist())

    def program(plane, seat, xp):
        return (receiver if seat.worker else sender)(plane, seat, xp)

    assert crew(program, count=2)[1][1] == {7.0}
