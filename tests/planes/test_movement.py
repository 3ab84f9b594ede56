from __future__ import annotations

import functools

import numpy as np
import pytest

from disco_magic.core.seat import Seat
from disco_magic.errors import PlaneError, PlaneMismatch
from disco_magic.planes import blocks, memory, plans, rendezvous, small
from disco_magic.planes.reductions import Reduction
from disco_magic.planes.small import plan_of


@pytest.fixture(params=["one", "alone", "shared"])
def shared(request, monkeypatch):
    """All ways of moving, whatever the size: one result that is copied, the last one alone, tiny pieces."""
    monkeypatch.setattr(small, "SMALL_NBYTES", 2**40 if request.param == "one" else -1)
    if request.param == "shared":
        monkeypatch.setattr(rendezvous, "ALONE_NBYTES", -1)
        monkeypatch.setattr(plans, "PIECE_NBYTES", 64)
        monkeypatch.setattr(blocks, "BLOCK_NBYTES", 32)
    else:
        monkeypatch.setattr(rendezvous, "ALONE_NBYTES", 2**40)
    return request.param


def arrays_of(rng, size, shape, dtype):
    return [(rng.integers(0, 50, shape)).astype(dtype) for _ in range(size)]


@pytest.mark.parametrize("seed", range(12))
def test_random_shapes_agree_with_numpy(seed, shared, make, run):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 5))
    ndim = int(rng.integers(1, 4))
    shape = tuple(int(length) * size for length in rng.integers(0, 5, ndim))
    axis = int(rng.integers(-ndim, ndim))
    root = int(rng.integers(0, size))
    dtype = rng.choice(["i1", "f2", "f4", "f8", "c16"])
    arrays = arrays_of(rng, size, shape, dtype)

    def program(plane, seat):
        x = np.asfortranarray(arrays[seat.worker])
        return [
            plane.allreduce(seat, x, "max", None),
            plane.reduce_scatter(seat, x, "max", axis, None, None),
            plane.allgather(seat, x, axis, None),
            plane.gather(seat, x, root, axis, None),
            plane.broadcast(seat, x, root, None),
            plane.scatter(seat, x if seat.rank == root else None, root, axis, None, None),
            plane.alltoall(seat, x, axis, None, None),
        ]

    largest, whole = functools.reduce(np.maximum, arrays), np.concatenate(arrays, axis)
    for rank, got in enumerate(run(make(size), program, 1)):
        expected = [
            largest,
            np.split(largest, size, axis)[rank],
            whole,
            whole if rank == root else None,
            arrays[root],
            np.split(arrays[root], size, axis)[rank],
            np.concatenate([np.split(array, size, axis)[rank] for array in arrays], axis),
        ]
        for result, wanted in zip(got, expected, strict=True):
            if wanted is None:
                assert result is None
            else:
                np.testing.assert_array_equal(result, wanted, strict=True)


@pytest.mark.parametrize("op", ["sum", "avg"])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4"])
def test_all_ways_of_moving_give_the_same_bits(op, dtype, make, run, monkeypatch):
    rng = np.random.default_rng(3)
    arrays = [(rng.standard_normal(5000) * 100).astype(dtype) for _ in range(4)]
    results = []
    for one, alone in ((2**40, -1), (-1, 2**40), (-1, -1)):
        monkeypatch.setattr(small, "SMALL_NBYTES", one)
        monkeypatch.setattr(rendezvous, "ALONE_NBYTES", alone)
        results += run(make(4), lambda p, s: p.allreduce(s, arrays[s.worker], op, None), 1)
    assert len({got.tobytes() for got in results}) == 1


@pytest.mark.parametrize("op", ["sum", "avg", "max"])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_in_place_and_overlapping_outs_give_the_result_of_separate_ones(  # noqa: PLR0917 - parameters and fixtures
    size, dtype, op, shared, make, run
):
    def program(plane, seat):
        rng = np.random.default_rng(seat.worker)
        x = rng.standard_normal(301).astype(dtype)
        expected = plane.allreduce(seat, x, op, None)
        shifted = np.concatenate([x, x[:1]])
        strided = np.repeat(x, 2)
        return [
            (plane.allreduce(seat, shifted[:-1], op, shifted[1:]), expected),
            (plane.allreduce(seat, strided[::2], op, strided[::2]), expected),
            (plane.allreduce(seat, x, op, x), expected),
        ]

    for pairs in run(make(size), program, 1):
        for got, expected in pairs:
            np.testing.assert_array_equal(got, expected, strict=True)


def test_an_out_may_be_a_peers_input(shared, make, run):
    arrays = [np.arange(100.0) + worker for worker in range(3)]
    total = sum(arrays)

    def program(plane, seat):
        return plane.allreduce(seat, arrays[seat.worker], "sum", arrays[(seat.worker + 1) % 3])

    for got in run(make(3), program, 1):
        np.testing.assert_array_equal(got, total)


def test_an_out_may_overlap_a_peers_input(shared, make, run):
    memory = np.arange(300.0)
    inputs = [memory[0:100].copy(), memory[100:200].copy(), memory[150:250].copy()]

    def program(plane, seat):
        x = [memory[0:100], memory[100:200], memory[150:250]][seat.worker]
        return plane.allreduce(seat, x, "sum", memory[120:220] if seat.worker == 0 else None)

    for got in run(make(3), program, 1):
        np.testing.assert_array_equal(got, sum(inputs))


def test_the_root_of_a_broadcast_may_receive_in_place(shared, make, run):
    def program(plane, seat):
        x = np.arange(100) if seat.rank == 1 else np.zeros(100, int)
        return plane.broadcast(seat, x, 1, x) is x, x

    for returned, x in run(make(3), program, 1):
        assert returned
        np.testing.assert_array_equal(x, np.arange(100))


def test_who_goes_on_finds_the_outs_of_all_members_written(shared, make, run):
    outs = [np.zeros(500) for _ in range(3)]

    def program(plane, seat):
        stale = 0
        for step in range(1, 101):
            plane.allreduce(seat, np.full(500, float(step)), "sum", outs[seat.worker])
            stale += sum((out != 3 * step).any() for out in outs)
            plane.barrier(seat)
        return stale

    assert run(make(3), program, 1) == [0, 0, 0]


def test_nobody_uses_its_input_again_while_a_peer_still_reads_it(shared, make, run):
    def program(plane, seat):
        x = np.zeros(2000)
        wrong = 0
        for step in range(30):
            x[...] = step
            got = plane.allreduce(seat, x, "sum", None)
            wrong += int((got != 3 * step).sum())
        return wrong

    assert run(make(3), program, 1) == [0, 0, 0]


@pytest.mark.parametrize("ends", ["abort", "leave"])
def test_a_call_that_all_have_come_to_is_not_given_up_while_it_moves(ends, shared, make, run, monkeypatch):
    plane, real = make(3), Reduction.combine

    def ended(self, *arrays):
        if ends == "abort":
            plane.abort(1, "the command was interrupted")
        else:  # a thread that was given up while it waits for the others
            for worker in range(3):
                plane.leave(worker, 1)
        return real(self, *arrays)

    monkeypatch.setattr(Reduction, "combine", ended)
    got = run(plane, lambda plane, seat: plane.allreduce(seat, np.ones(1000), "sum", None)[0], 1)
    assert got == [3, 3, 3]


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_an_error_while_moving_reaches_every_member_and_the_next_call_works(
    nth, shared, make, run, monkeypatch
):
    moved = []
    real = Reduction.combine

    def failing(self, *arrays):
        moved.append(arrays)
        if len(moved) == (nth if shared == "shared" else 1):
            raise MemoryError("no memory for a scratch block")
        return real(self, *arrays)

    monkeypatch.setattr(Reduction, "combine", failing)
    plane = make(4)

    def program(plane, seat):
        x = np.ones(1000)
        with pytest.raises(PlaneError, match=r"could not be carried out on worker \d: MemoryError") as raised:
            plane.allreduce(seat, x, "sum", None)
        return type(raised.value.__cause__), plane.allreduce(seat, x, "sum", None)[0]

    assert run(plane, program, 1) == [(MemoryError, 4)] * 4
    assert plane.statistics()["waiting"] == 0


@pytest.mark.parametrize("plan", [plan_of, plans.FoldPlan])
def test_an_error_in_the_plan_reaches_every_member(plan, make, run, monkeypatch):
    def empty(shape, dtype):
        raise MemoryError("too large")

    monkeypatch.setattr(memory.np, "empty", empty)
    outcomes = run(make(3, plan=plan), lambda p, s: p.allreduce(s, 1.0, "sum", None), 1)
    assert [type(outcome) for outcome in outcomes] == [PlaneError] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3


def test_a_lone_worker_gets_the_same_refusals(make):
    plane = make(1)
    with pytest.raises(PlaneMismatch, match="out of worker 0 is float64"):
        plane.allreduce(Seat(0, (0,), 1), np.zeros(3), "sum", np.zeros(4))


def test_more_members_than_helpers_all_return(make, run, monkeypatch):
    monkeypatch.setattr(rendezvous, "cores", lambda: 1)
    monkeypatch.setattr(rendezvous, "ALONE_NBYTES", -1)
    plane = make(8, plan=plans.FoldPlan)
    for got in run(plane, lambda p, s: p.allreduce(s, np.ones(10), "sum", None), 1):
        assert got.tolist() == [8] * 10


class Odd(np.ndarray):
    """Writes something else than it is given."""

    def __setitem__(self, index, value):
        super().__setitem__(index, 7)


@pytest.mark.parametrize("length", [2, 200_000])
def test_an_out_is_written_without_code_of_its_class(length, make, run):
    def program(plane, seat):
        out = np.zeros(length).view(Odd)
        plane.allreduce(seat, np.ones(length), "sum", out)
        return float(out.max())

    assert run(make(2), program, 1) == [2.0, 2.0]


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("verb", ["allreduce", "broadcast", "reduce_scatter", "allgather"])
def test_out_may_be_of_another_byte_order(make, run, verb):
    swapped, plane, length = np.dtype("f8").newbyteorder(), make(3), 600
    shapes = {"reduce_scatter": length // 3, "allgather": 3 * length}
    scattered = ("sum", 0, None)
    rest = {"allreduce": ("sum",), "broadcast": (1,), "reduce_scatter": scattered, "allgather": (0,)}[verb]

    def program(p, seat):
        x = (np.arange(length) + seat.worker).astype(swapped)
        out = x if verb in {"allreduce", "broadcast"} else np.empty(shapes[verb], swapped)
        assert getattr(p, verb)(seat, x, *rest, out) is out
        return out

    given = [np.arange(length, dtype="f8") + worker for worker in range(3)]
    whole = {"broadcast": given[1], "allgather": np.concatenate(given)}.get(verb, sum(given))
    for worker, got in enumerate(run(plane, program, 1)):
        assert got.dtype == swapped
        part = np.split(whole, 3)[worker] if verb == "reduce_scatter" else whole
        np.testing.assert_array_equal(got, part)
