"""Checks of how a plane splits arrays: evenly, and with lengths that the members choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import PlaneMismatch, UsageMistake
from disco_magic.testing.plane_values import sample
from disco_magic.testing.stage import errors, expect, same, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.core.interfaces import Counts, Plane
    from disco_magic.core.seat import Seat
    from disco_magic.testing.stage import Run


def uneven_splits_are_refused(plane: Plane, size: int, run: Run) -> None:
    """A length that the members cannot share evenly is a PlaneMismatch naming length and members."""
    if size == 1:
        return
    x = np.ones(size + 1)
    calls: list[Callable[[Plane, Seat], Any]] = [
        lambda p, s: p.reduce_scatter(s, x, "sum", 0, None, None),
        lambda p, s: p.scatter(s, x, 0, 0, None, None),
        lambda p, s: p.alltoall(s, x, 0, None, None),
    ]
    for scope, call in enumerate(calls):
        for error in errors(run(plane, call, scope), PlaneMismatch):
            text = f"length {size + 1}, which {size} members"
            expect(text in str(error), f"{text!r} is not in {error}")


def _counts(worker: int, size: int) -> tuple[int, ...]:
    """How much `worker` sends to each worker; rank 1 gets nothing."""
    return tuple((3 * worker + 5 * to + 1) % 4 if to != 1 else 0 for to in range(size))


def parts_of_any_length_are_exchanged(plane: Plane, size: int, run: Run) -> None:
    """`counts` of an alltoall say how much goes to each member, along any axis; it may be nothing."""
    dtypes = ("f", "?", "D", "U4")

    def make(worker: int, dtype: str, axis: int) -> Any:
        shape = [2, 3]
        shape[axis] = sum(_counts(worker, size))
        return sample(worker, tuple(shape), "i" if dtype == "U4" else dtype).astype(dtype)

    def program(plane: Plane, seat: Seat) -> list[Any]:
        got, counts = [], _counts(seat.worker, size)
        for dtype in dtypes:
            for axis in (0, 1, -1):
                x = make(seat.worker, dtype, axis)
                got.append(plane.alltoall(seat, x, axis, counts, None))
                got.append(plane.alltoall(seat, np.asfortranarray(x), axis, counts, np.empty_like(got[-1])))
        got.append(plane.alltoall(seat, np.empty((0, 2)), 0, (0,) * size, None))
        return got

    for worker, got in enumerate(values(run(plane, program, 1))):
        results = iter(got)
        for dtype in dtypes:
            for axis in (0, 1, -1):
                parts = []
                for sender in range(size):
                    ends = np.cumsum(_counts(sender, size))[:-1]
                    parts.append(np.split(make(sender, dtype, axis), ends, axis)[worker])
                text = f"alltoall in parts of {np.dtype(dtype)} along axis {axis} on worker {worker}"
                same(next(results), np.concatenate(parts, axis), text)
                same(next(results), np.concatenate(parts, axis), f"{text}, into out")
        same(next(results), np.empty((0, 2)), "nothing at all")


def parts_of_any_length_are_scattered(plane: Plane, size: int, run: Run) -> None:
    """The root's `counts` of a scatter say how much each member gets, along any axis; it may be nothing."""
    cases = [
        (dtype, axis, root) for dtype in ("f", "?", "U4") for axis in (0, 1, -1) for root in {0, size - 1}
    ]

    def make(dtype: str, axis: int, root: int) -> Any:
        shape = [2, 3]
        shape[axis] = sum(_counts(root, size))
        return sample(root, tuple(shape), "i" if dtype == "U4" else dtype).astype(dtype)

    def program(plane: Plane, seat: Seat) -> list[Any]:
        got = []
        for dtype, axis, root in cases:
            counts, x = _counts(root, size), make(dtype, axis, root)
            given = (x, counts) if seat.rank == root else (None, None)
            got.append(plane.scatter(seat, given[0], root, axis, given[1], None))
            out = np.empty_like(got[-1])
            got.append(plane.scatter(seat, np.asfortranarray(x), root, axis, counts, out))
        got.append(plane.scatter(seat, np.empty((0, 2)), 0, 0, (0,) * size, None))
        return got

    for rank, got in enumerate(values(run(plane, program, 1))):
        results = iter(got)
        for dtype, axis, root in cases:
            ends = np.cumsum(_counts(root, size))[:-1]
            part = np.split(make(dtype, axis, root), ends, axis)[rank]
            text = f"scatter in parts of {np.dtype(dtype)} along axis {axis} from rank {root} to {rank}"
            same(next(results), part, text)
            same(next(results), part, f"{text}, into out")
        same(next(results), np.empty((0, 2)), "nothing at all")


def parts_of_any_length_are_reduced(plane: Plane, size: int, run: Run) -> None:
    """`counts` of a reduce_scatter say how much each member gets, along any axis; it may be nothing."""
    cases = [("f", "sum"), ("i", "avg"), ("d", "max"), ("?", "sum")]
    counts = _counts(size, size)

    def make(worker: int, dtype: str, axis: int) -> Any:
        shape = [2, 3]
        shape[axis] = sum(counts)
        return sample(worker, tuple(shape), dtype)

    def program(plane: Plane, seat: Seat) -> list[Any]:
        got = []
        for dtype, op in cases:
            for axis in (0, 1, -1):
                x = make(seat.worker, dtype, axis)
                got.append(plane.reduce_scatter(seat, x, op, axis, counts, None))
                out = np.empty_like(got[-1])
                got.append(plane.reduce_scatter(seat, np.asfortranarray(x), op, axis, counts, out))
                whole = plane.allreduce(seat, x, op, None)
                got.append(np.split(whole, np.cumsum(counts)[:-1], axis)[seat.rank])
        got.append(plane.reduce_scatter(seat, np.empty((0, 2)), "sum", 0, (0,) * size, None))
        return got

    for worker, got in enumerate(values(run(plane, program, 1))):
        results = iter(got)
        for dtype, op in cases:
            for axis in (0, 1, -1):
                one, another, expected = next(results), next(results), next(results)
                text = f"part {worker} of the {op} of {dtype} along axis {axis}"
                same(one, expected, text)
                same(another, expected, f"{text}, in out")
        same(next(results), np.empty((0, 2)), "nothing at all")


def counts_of_a_reduction_are_the_same_on_all(plane: Plane, size: int, run: Run) -> None:
    """Counts of a reduce_scatter that differ, or that only some members pass, are a PlaneMismatch on all."""
    x = np.ones(2 * size)

    def call(plane: Plane, seat: Seat, counts: Counts, out: Any) -> Any:
        return plane.reduce_scatter(seat, x, "sum", 0, counts, out)

    _counts_have_to_agree("reduce_scatter", call, plane, size, run)


def _counts_have_to_agree(
    kind: str, call: Callable[[Plane, Seat, Counts, Any], Any], plane: Plane, size: int, run: Run
) -> None:
    """Counts on the last member that differ, and counts on all but worker 0, are a PlaneMismatch on all."""
    even, outs = (2,) * size, [np.full(2, 7.0) for _ in range(size)]

    def differing(plane: Plane, seat: Seat) -> Any:
        counts = (*even[2:], 1, 3) if seat.worker == size - 1 else even
        return call(plane, seat, counts, outs[seat.worker])

    def only_elsewhere(plane: Plane, seat: Seat) -> Any:
        return call(plane, seat, even if seat.worker else None, outs[seat.worker])

    if size == 1:
        return
    for scope, program in enumerate((differing, only_elsewhere), 1):
        for error in errors(run(plane, program, scope), PlaneMismatch):
            expect(f"{kind}: the members disagree on counts" in str(error), f"unexpected: {error}")
    expect(all((out == 7).all() for out in outs), "out was written before the calls were checked")


def counts_that_do_not_fit_are_refused(plane: Plane, size: int, run: Run) -> None:
    """Wrong counts raise UsageMistake for the caller; counts on only some members, PlaneMismatch on all."""
    x, even = np.ones(2 * size), (2,) * size

    def program(plane: Plane, seat: Seat) -> Any:
        for counts in ((2,) * (size + 1), (3,) * size, (*even[1:], -2)):
            try:
                plane.alltoall(seat, x, 0, counts, None)
            except UsageMistake:
                continue
            raise AssertionError(f"{counts} was accepted")
        return plane.alltoall(seat, x, 0, even, None)

    for got in values(run(plane, program, 1)):
        same(got, x)
    if size == 1:
        return
    last = size - 1
    outs = [np.full(2 * size, 7.0) for _ in range(size)]

    def differing(plane: Plane, seat: Seat) -> Any:
        return plane.alltoall(seat, x, 0, None if seat.worker == last else even, outs[seat.worker])

    def short(plane: Plane, seat: Seat) -> Any:
        return plane.alltoall(seat, x, 0, even, outs[0][1:] if seat.worker == 0 else outs[seat.worker])

    for scope, (call, text) in enumerate(((differing, "disagree on counts"), (short, "out of worker 0")), 2):
        for error in errors(run(plane, call, scope), PlaneMismatch):
            expect(text in str(error), f"{text!r} is not in {error}")
    expect(all((out == 7).all() for out in outs), "out was written before the calls were checked")


def counts_of_a_scatter_are_the_root_s(plane: Plane, size: int, run: Run) -> None:
    """Counts of other members than the root are a PlaneMismatch on all if they differ from the root's."""
    x = np.ones(2 * size)

    def call(plane: Plane, seat: Seat, counts: Counts, out: Any) -> Any:
        return plane.scatter(seat, x, 0, 0, counts, out)

    _counts_have_to_agree("scatter", call, plane, size, run)


def what_can_be_reduced_is_told_without_the_others(plane: Plane, size: int, run: Run) -> None:
    """`reducible` returns what allreduce carries, and refuses what is wrong whatever the others do."""
    x = np.arange(12.0).reshape(3, 4)
    wrong: list[tuple[Any, str, Any]] = [
        (x, "total", None),
        (np.array(["a"]), "sum", None),
        (np.array([object()]), "sum", None),
        (x, "sum", np.empty((4, 3))),
        (x, "sum", np.empty((3, 4), "f4")),
        (np.ones(2, int), "avg", np.empty(2, int)),
        (x, "sum", np.broadcast_to(np.zeros(1), (3, 4))),
    ]

    def program(plane: Plane, seat: Seat) -> Any:
        refused = 0
        for array, op, out in wrong if seat.worker == size - 1 else ():  # the others make no call
            try:
                plane.reducible(seat.worker, array, op, out)
            except UsageMistake:
                refused += 1
        is_same = plane.reducible(seat.worker, x, "sum", np.empty((3, 4))) is x
        turned = plane.reducible(seat.worker, x.astype(">f8").T, "max", None)
        return refused, is_same, turned.flags.c_contiguous, turned.dtype.str, turned.tolist()

    for worker, got in enumerate(values(run(plane, program, 1))):
        refused = len(wrong) if worker == size - 1 else 0
        expect(got == (refused, True, True, "<f8", x.T.tolist()), f"worker {worker} was told {got}")


PART_CHECKS = (
    what_can_be_reduced_is_told_without_the_others,
    uneven_splits_are_refused,
    parts_of_any_length_are_exchanged,
    parts_of_any_length_are_scattered,
    parts_of_any_length_are_reduced,
    counts_that_do_not_fit_are_refused,
    counts_of_a_scatter_are_the_root_s,
    counts_of_a_reduction_are_the_same_on_all,
)
