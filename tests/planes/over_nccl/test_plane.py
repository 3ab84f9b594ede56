"""The plane of workers with a GPU each: simulated ones, the unmodified `cupy.cuda.nccl`, a double of NCCL."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

from disco_magic.core.seat import Seat, Theirs
from disco_magic.errors import (
    Failure,
    MissingDependency,
    PlaneAborted,
    PlaneError,
    UsageMistake,
    WorkerInterrupt,
)
from disco_magic.planes import flights
from disco_magic.planes.calls import Call
from disco_magic.planes.flight import Flight
from disco_magic.planes.memory import HOST
from disco_magic.planes.nccl import NcclPlane
from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.testing.stage import group, values
from tests.doubles import nccl as doubles
from tests.planes.on_gpus import places
from tests.planes.over_nccl.conftest import good

# --- values that are not NumPy's bit for bit --------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_averages_agree_to_the_last_digits(crew, dtype):
    def program(plane, seat, xp):
        return plane.allreduce(seat, xp.full(5, seat.worker + 0.5, dtype=dtype), "avg", None).get()

    for got in values(crew(program, 3)[1]):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, np.full(5, 1.5, dtype), rtol=1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize(
    ("dtype", "op", "text"),
    [
        ("int16", "sum", r"convert with x\.astype\('int32'\) first"),
        ("uint16", "max", r"convert with x\.astype\('uint32'\) first"),
        ("complex64", "prod", "NCCL has no prod of complex numbers"),
    ],
)
def test_what_nccl_cannot_reduce_is_refused_with_advice_and_can_be_moved(crew, dtype, op, text):
    def program(plane, seat, xp):
        x = xp.full(3, seat.worker, dtype=dtype)
        with pytest.raises(UsageMistake, match=text):
            plane.allreduce(seat, x, op, None)
        return plane.allgather(seat, x, 0, None).get().tolist()

    assert values(crew(program, 2)[1]) == [[0, 0, 0, 1, 1, 1]] * 2


# --- communicators ----------------------------------------------------------------------------------


def test_groups_are_split_off_when_all_connect(crew, double):
    groups = [(0, 1), (2, 3)]

    def program(plane, seat, xp):
        whole = plane.allreduce(seat, xp.ones(1), "sum", None)
        mine = group(seat, groups[seat.worker // 2])
        return [*whole.get(), *plane.allreduce(mine, xp.full(1, seat.worker), "sum", None).get()]

    _, got = crew(program, groups=groups)
    assert values(got) == [[4, 1], [4, 1], [4, 5], [4, 5]]
    assert double.calls("CommSplit") == 4
    assert double.calls("GetUniqueId") == 1


def test_a_group_that_comes_first_connects_by_itself(crew, double):
    def program(plane, seat, xp):
        if seat.worker < 2:
            return plane.allreduce(group(seat, (0, 1)), xp.ones(1), "sum", None).get()[0]
        return None

    assert crew(program, groups=[(0, 1), (2, 3)])[1] == [2, 2, None, None]
    assert double.calls("CommSplit") == 0


ROWS, COLUMNS = ((0, 1), (2, 3)), ((0, 2), (1, 3))


@pytest.mark.parametrize(("groups", "splits"), [((), 0), (ROWS, 0), (COLUMNS, 4)])
def test_all_workers_connect_after_others_have(crew, double, groups, splits):
    def program(plane, seat, xp):
        row, column = group(seat, ROWS[seat.worker // 2]), group(seat, COLUMNS[seat.worker % 2])
        x = xp.full(1, seat.worker)
        return [plane.allreduce(each, x, "sum", None).get()[0] for each in (row, seat, column, row)]

    _, got = crew(program, groups=groups)
    assert got == [[1, 6, 2, 1], [1, 6, 4, 1], [5, 6, 2, 5], [5, 6, 4, 5]]
    assert double.calls("CommSplit") == splits  # who has one keeps it


def test_all_workers_connect_after_one_row_alone(crew, double):
    def program(plane, seat, xp):
        x, row = xp.full(1, seat.worker), group(seat, ROWS[seat.worker // 2])
        alone = plane.allreduce(row, x, "sum", None).get()[0] if seat.worker < 2 else None
        return [alone, *(plane.allreduce(each, x, "sum", None).get()[0] for each in (seat, row))]

    _, got = crew(program, groups=ROWS)
    assert got == [[1, 6, 1], [1, 6, 1], [None, 6, 5], [None, 6, 5]]


def test_one_communicator_serves_all_calls(crew, double):
    def program(plane, seat, xp):
        x = xp.ones(4)
        for _ in range(5):
            x = plane.allreduce(seat, x, "sum", None)
        return x.get()[0]

    assert crew(program)[1] == [4**5] * 4
    assert double.calls("CommInitRankConfig") == 4


def test_closing_leaves_no_communicator(crew, double):
    plane, _ = crew(lambda plane, seat, xp: plane.allreduce(seat, xp.ones(1), "sum", None).get()[0])
    assert double.alive == 4
    plane.close()
    plane.close()
    assert double.alive == 0


def test_without_nccl_the_extra_is_named():
    with SimulatedGpus(count=1) as bare, pytest.raises(MissingDependency, match=r"disco-magic\[cuda13\]"):
        NcclPlane(places(bare.cupy, [0]))


# --- what goes wrong --------------------------------------------------------------------------------


@pytest.fixture
def stalled(crew, double, background):
    """A plane that has worked, and its next call, in scope 2, in which three wait for the given rank."""

    def start(rank):
        plane, _ = crew(good)
        double.stall(rank)
        pending = background(crew, good, scope=2, plane=plane)
        double.until_waiting(3)
        return plane, pending

    return start


@pytest.mark.parametrize(
    ("function", "status"), [("AllReduce", doubles.UNHANDLED_CUDA_ERROR), ("AllReduce", doubles.REMOTE_ERROR)]
)
def test_a_call_that_nccl_refuses_on_one_rank_raises_on_all_and_the_next_one_works(
    crew, double, function, status
):
    plane, before = crew(good)
    double.fail(function, status, rank=1)
    _, outcomes = crew(good, scope=2, plane=plane)
    assert [type(outcome) for outcome in outcomes] == [PlaneError] * 4
    assert all("could not be carried out on worker 1" in str(outcome) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == 4
    _, after = crew(good, scope=3, plane=plane)
    assert before == after == [[4, 4]] * 4


def test_an_asynchronous_error_ends_a_call_that_would_hang(crew, double, stalled):
    plane, pending = stalled(2)
    double.async_error(1, doubles.SYSTEM_ERROR)
    assert [type(outcome) for outcome in pending()[1]] == [PlaneError] * 4
    double.release(2)
    assert crew(good, scope=3, plane=plane)[1] == [[4, 4]] * 4


def test_an_abort_releases_a_rank_that_never_comes(crew, double, stalled):
    plane, pending = stalled(0)
    plane.abort(2, "interrupted")
    assert [type(outcome) for outcome in pending()[1]] == [PlaneAborted] * 4
    double.release(0)
    assert crew(good, scope=3, plane=plane)[1] == [[4, 4]] * 4


def interrupted(worker, scope):
    return Failure(worker, scope, "Cell In[2]", WorkerInterrupt(), "")


def test_what_is_under_way_is_told_of_by_the_name_and_shape_that_its_user_knows():
    seat = Seat(0, (0,), 1, theirs=Theirs("all_gather_into_tensor", (2, 3)))
    flight = Flight(Call("allgather", seat, None, HOST, array=np.zeros(6, "f4"), axis=0), None, None)
    assert flight.call_of(0)[0] == "all_gather_into_tensor(float32 (2, 3))"


def test_a_member_that_is_interrupted_releases_the_others_and_ends_itself(
    crew, double, stalled, until_parked
):
    plane, pending = stalled(3)
    until_parked(plane, 4)  # one that is still in its call is ended by who has made that
    plane.leave(3, 2, interrupted(3, 2))
    *others, own = pending()[1]
    assert [type(outcome) for outcome in others] == [PlaneAborted] * 3
    for outcome in others:
        assert re.match(r"allreduce\(float64 \(2,\) on cuda, op=sum\) at .*conftest\.py", str(outcome))
        assert str(outcome).endswith(
            "was given up while it was being carried out: worker 3 was interrupted"
            " - results and out arrays of all members are incomplete"
        )
    assert all(outcome.failure.worker == 3 for outcome in others)
    assert type(own) is WorkerInterrupt
    double.release(3)
    assert crew(good, scope=3, plane=plane)[1] == [[4, 4]] * 4


def test_a_member_whose_command_ends_or_fails_leaves_what_is_on_its_way_alone(double, stalled, until_parked):
    plane, pending = stalled(3)
    until_parked(plane, 4)
    plane.leave(1, 2)
    plane.leave(2, 2, Failure(2, 2, "Cell In[2]", ZeroDivisionError(), ""))
    double.release(3)
    assert pending()[1] == [[4, 4]] * 4


def test_a_call_returns_before_its_work_is_done_and_what_fails_then_is_told_by_the_next_one(crew, double):
    plane, _ = crew(good)
    double.stall(2)

    def queued(plane, seat, xp):
        return plane.allreduce(seat, xp.ones(2), "sum", None)

    _, results = crew(queued, scope=2, plane=plane)
    assert all(result.shape == (2,) for result in results)
    plane.abort(2, "the limit is over")
    _, outcomes = crew(good, scope=3, plane=plane)
    assert [type(outcome) for outcome in outcomes] == [PlaneAborted] * 4
    assert "while it was being carried out: the limit is over" in str(outcomes[0])
    double.release(2)
    assert crew(good, scope=4, plane=plane)[1] == [[4, 4]] * 4


def test_what_is_queued_behind_one_that_fails_fails_with_it_and_is_told_once(crew, double):
    plane, _ = crew(good)
    double.stall(0)

    def queued(plane, seat, xp):
        for _ in range(3):
            plane.allreduce(seat, xp.ones(2), "sum", None)
        plane._places[seat.worker].finish()

    def settled(plane, seat, xp):
        plane._places[seat.worker].finish()

    _, before = crew(lambda plane, seat, xp: plane.barrier(seat), scope=2, plane=plane)
    assert before == [None] * 4
    background = threading.Thread(target=lambda: outcomes.extend(crew(queued, scope=3, plane=plane)[1]))
    outcomes = []
    background.start()
    double.until_waiting(3)
    double.async_error(3, doubles.REMOTE_ERROR)
    background.join()
    assert [type(outcome) for outcome in outcomes] == [PlaneError] * 4
    assert all("could not be carried out on worker 3: NcclError" in str(outcome) for outcome in outcomes)
    double.release(0)
    assert crew(settled, scope=4, plane=plane)[1] == [None] * 4
    assert crew(good, scope=5, plane=plane)[1] == [[4, 4]] * 4


def test_a_call_that_cannot_be_started_takes_those_before_it_with_it(crew, double):
    plane, _ = crew(good)
    double.stall(0)

    def queued(plane, seat, xp):
        return plane.allreduce(seat, xp.ones(2), "sum", None)

    crew(queued, scope=2, plane=plane)
    double.until_waiting(3)
    double.fail("AllReduce", doubles.SYSTEM_ERROR, rank=2)
    _, outcomes = crew(good, scope=3, plane=plane)
    assert {str(outcome).partition(" at ")[0] for outcome in outcomes} == {
        "allreduce(float64 (2,) on cuda, op=sum)"
    }
    assert all("could not be carried out on worker 2: NcclError" in str(outcome) for outcome in outcomes)

    def finished(plane, seat, xp):
        plane._places[seat.worker].finish()

    _, outcomes = crew(finished, scope=4, plane=plane)
    assert [type(outcome) for outcome in outcomes] == [PlaneAborted] * 4
    assert all("was given up with another call" in str(outcome) for outcome in outcomes)
    double.release(0)
    assert crew(good, scope=5, plane=plane)[1] == [[4, 4]] * 4


def test_more_than_a_gpu_s_queue_takes_waits_for_the_oldest(crew, double, monkeypatch):
    monkeypatch.setattr(flights, "MOST", 4)
    longest = []

    def program(plane, seat, xp):
        x = xp.ones(2)
        for _ in range(20):
            plane.allreduce(seat, x, "sum", None)
            longest.append(len(plane._flights._of[seat.worker]))
        return plane._places[seat.worker].take(plane.allreduce(seat, x, "sum", None)).tolist()

    double.delay(200, 1)
    assert crew(program)[1] == [[4, 4]] * 4
    assert max(longest) <= 4


def test_memory_that_is_given_back_is_used_by_nobody_before_nccl_has_read_it(crew):
    """Its block goes to the next array of the same stream at once, which is written after NCCL's part."""

    def program(plane, seat, xp):
        totals = []
        for step in range(20):
            x = xp.full(64, seat.worker + step)
            total = plane.allreduce(seat, x, "sum", None)
            del x
            xp.full(64, -1000)
            totals.append(total)
        return [int(plane._places[seat.worker].take(total)[63]) for total in totals]

    assert crew(program)[1] == [[6 + 4 * step for step in range(20)]] * 4


def test_while_nccl_works_the_plane_says_what_a_worker_is_in(double, stalled, until_parked):
    plane, pending = stalled(1)
    until_parked(plane, 4)
    waits = dict(plane.waiting)
    assert {worker: wait.call_of(worker)[0] for worker, wait in waits.items()} == dict.fromkeys(
        range(4), "allreduce(float64 (2,) on cuda, op=sum)"
    )
    assert all(wait.missing() == [] for wait in waits.values())
    double.release(1)
    assert pending()[1] == [[4, 4]] * 4
    assert not plane.waiting


@pytest.mark.parametrize("seed", range(3))
def test_delays_change_nothing(crew, double, seed):
    double.delay(300, seed + 1)

    def program(plane, seat, xp):
        x = xp.arange(8) + seat.worker
        for _ in range(6):
            x = plane.alltoall(seat, plane.allreduce(seat, x, "max", None), 0, None, None)
        return x.get().tolist()

    first, *others = values(crew(program)[1])
    assert others == [first] * 3


def test_failed_connecting_raises_on_all_and_is_tried_again(crew, double):
    double.fail("CommInitRankConfig", doubles.SYSTEM_ERROR, rank=1)
    over = threading.Event()

    def fail_who_waits():
        while not over.wait(0.1):
            double.fail_forming(doubles.SYSTEM_ERROR)

    stop = threading.Thread(target=fail_who_waits)
    stop.start()
    plane, outcomes = crew(good)
    over.set()
    stop.join()
    assert [type(outcome) for outcome in outcomes] == [PlaneError] * 4
    assert crew(good, scope=2, plane=plane)[1] == [[4, 4]] * 4


def test_who_cannot_split_ends_the_waits_of_the_others_in_theirs(crew, double):
    """All are told of its error, not of what NCCL says to those it has left."""
    groups = [(0, 1), (2, 3)]
    double.fail("CommSplit", doubles.SYSTEM_ERROR, rank=1)
    plane, outcomes = crew(good, groups=groups)
    assert [type(outcome) for outcome in outcomes] == [PlaneError] * 4
    assert all(
        "by NCCL failed on worker 1: NcclError: NCCL_ERROR_SYS" in str(outcome) for outcome in outcomes
    )
    assert crew(good, scope=2, plane=plane)[1] == [[4, 4]] * 4
    assert double.calls("CommSplit") == 8


def test_seats_of_nobody_are_refused(crew):
    plane, _ = crew(good, 2)
    with pytest.raises(UsageMistake, match="not one of the members"):
        plane.allreduce(Seat(0, (1,), 9), 1.0, "sum", None)
