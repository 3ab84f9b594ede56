"""Checks of a plane's conduct: refused calls, released workers, what is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from disco_magic.errors import PlaneAborted, PlaneError, PlaneMismatch, UsageMistake
from disco_magic.testing.stage import errors, expect, group, same, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.core.interfaces import Plane
    from disco_magic.core.seat import Seat
    from disco_magic.testing.stage import Run


def _odd_one_out(size: int) -> list[tuple[str, Callable[[Plane, Seat, bool, Any], Any]]]:
    """Calls in which one worker, for which the flag is true, does something else than the others."""
    x = np.ones((2 * size, 3), "f4")
    return [
        ("kind", lambda p, s, odd, out: p.barrier(s) if odd else p.allreduce(s, x, "sum", out)),
        ("op", lambda p, s, odd, out: p.allreduce(s, x, "max" if odd else "sum", out)),
        ("dtype", lambda p, s, odd, out: p.allreduce(s, x.astype("f8") if odd else x, "sum", out)),
        ("shape", lambda p, s, odd, out: p.allreduce(s, x[1:] if odd else x, "sum", out)),
        ("dimensions", lambda p, s, odd, out: p.allreduce(s, x.ravel() if odd else x, "sum", out)),
        ("root", lambda p, s, odd, out: p.broadcast(s, x, 1 if odd else 0, out)),
        ("axis", lambda p, s, odd, _: p.alltoall(s, np.ones((2 * size, size), "f4"), int(odd), None, None)),
        ("gathered", lambda p, s, odd, _: p.allgather(s, x[:, 1:] if odd else x, 0, None)),
        ("out shape", lambda p, s, odd, out: p.allreduce(s, x, "sum", out[1:] if odd else out)),
        ("out dtype", lambda p, s, odd, out: p.allreduce(s, x, "sum", out.view("i4") if odd else out)),
    ]


def disagreement_raises_on_every_member(plane: Plane, size: int, run: Run) -> None:
    """Calls that do not fit together raise PlaneMismatch on all members before anything is written."""
    if size == 1:
        return

    def program(plane: Plane, seat: Seat) -> Any:
        out = np.full((2 * size, 3), 7, "f4")
        caught: list[PlaneMismatch | None] = []
        for _, call in _odd_one_out(size):
            try:
                call(plane, seat, seat.worker == size - 1, out)
            except PlaneMismatch as error:
                caught.append(error)
            else:
                caught.append(None)
        return caught, bool((out == 7).all())

    outcomes = values(run(plane, program, 1))
    for index, (what, _) in enumerate(_odd_one_out(size)):
        caught = errors([caught[index] for caught, _ in outcomes], PlaneMismatch)
        expect(len({str(error) for error in caught}) == 1, f"{what}: members got different texts")
        expect("\n  [" in str(caught[0]), f"{what}: no table of who called what in {caught[0]}")
    expect(all(untouched for _, untouched in outcomes), "out was written before the calls were checked")


def one_callers_mistake_is_refused_at_once(plane: Plane, size: int, run: Run) -> None:
    """Arguments that are wrong whatever the others do raise UsageMistake; the caller may call again."""
    x = np.ones(2 * size)
    wrong: list[Callable[[Plane, Seat], Any]] = [
        lambda p, s: p.allreduce(s, x, "total", None),
        lambda p, s: p.allreduce(s, np.array([object()]), "sum", None),
        lambda p, s: p.allreduce(s, None, "sum", None),
        lambda p, s: p.allreduce(s, np.array(["a"]), "sum", None),
        lambda p, s: p.allreduce(s, np.array(0, "M8[s]"), "sum", None),
        lambda p, s: p.allreduce(s, x, "sum", [0.0]),
        lambda p, s: p.broadcast(s, x, size, None),
        lambda p, s: p.broadcast(s, x, cast("int", "first"), None),
        lambda p, s: p.allgather(s, x, 1, None),
        lambda p, s: p.alltoall(s, 1.0, 0, None, None),
        lambda p, s: p.send(s, x, size),
        lambda p, s: p.recv(s, -1, None),
        lambda p, s: p.barrier(s._replace(members=(s.worker + 1,))),
    ]

    def program(plane: Plane, seat: Seat) -> Any:
        for number, call in enumerate(wrong):
            try:
                call(plane, seat)
            except UsageMistake:
                continue
            raise AssertionError(f"mistake {number} was accepted")
        return plane.allreduce(seat, x, "sum", None)

    for got in values(run(plane, program, 1)):
        same(got, x * size)


def a_subset_is_told_at_once(plane: Plane, size: int, run: Run) -> None:
    """A collective is refused at once if some of its members did not get the command."""
    if size == 1:
        return

    def program(plane: Plane, seat: Seat) -> Any:
        present = tuple(range(size - 1))
        if seat.worker in present:
            plane.barrier(group(seat._replace(present=present), present))
            plane.barrier(seat._replace(present=present))

    for error in errors(run(plane, program, 1)[:-1], UsageMistake):
        expect("can never join" in str(error), f"no word of why in {error}")


def a_failure_releases_everybody(plane: Plane, size: int, run: Run) -> None:
    """When a worker fails, the workers that need it raise PlaneAborted with its `Failure`."""

    def program(plane: Plane, seat: Seat) -> Any:
        if seat.worker == size - 1:
            raise ZeroDivisionError("nothing to share")
        plane.allreduce(seat, np.ones(3), "sum", None)

    outcomes = run(plane, program, 1)
    expect(isinstance(outcomes[-1], ZeroDivisionError), f"the origin became {outcomes[-1]!r}")
    for error in errors(outcomes[:-1], PlaneAborted):
        failure = error.failure
        expect(failure is not None, f"no failure on {error}")
        # For a late member the failure may be that of a peer that was released before.
        expect(failure.worker == size - 1 or isinstance(failure.exception, PlaneAborted), f"{failure}")


def an_early_leaver_releases_everybody(plane: Plane, size: int, run: Run) -> None:
    """When a worker finishes without joining, the workers that wait for it raise PlaneAborted."""

    def program(plane: Plane, seat: Seat) -> Any:
        if seat.worker != size - 1:
            plane.barrier(seat)

    outcomes = run(plane, program, 1)
    expect(outcomes[-1] is None, f"the leaver got {outcomes[-1]!r}")
    errors(outcomes[:-1], PlaneAborted)
    values(run(plane, lambda p, s: p.barrier(s), 2))


def a_circle_is_an_error(plane: Plane, size: int, run: Run) -> None:
    """Workers that wait for each other in different calls raise instead of waiting for ever."""
    if size == 1:
        for error in errors(run(plane, lambda p, s: p.recv(s, 0, None), 1), PlaneMismatch):
            expect("waits for itself" in str(error), f"{error}")
        return

    def barriers(plane: Plane, seat: Seat) -> Any:
        pair = group(seat, (0, size - 1))
        plane.barrier(pair if seat.worker == 0 else seat)
        plane.barrier(seat if seat.worker == 0 else pair)

    def receive(plane: Plane, seat: Seat) -> Any:
        plane.recv(seat, (seat.worker + 1) % size, None)

    def mixed(plane: Plane, seat: Seat) -> Any:
        if seat.worker == 0:
            plane.recv(seat, size - 1, None)
        plane.allreduce(seat, 1, "sum", None)

    if size > 2:
        errors(run(plane, barriers, 1), PlaneError)
    errors(run(plane, receive, 2), PlaneMismatch)
    outcomes = errors(run(plane, mixed, 3), PlaneError)
    expect("circle" in str(outcomes[0]), f"{outcomes[0]}")


def groups_do_not_disturb_each_other(plane: Plane, size: int, run: Run) -> None:
    """Disjoint and overlapping communicators work at the same time; ranks count within the communicator."""

    def program(plane: Plane, seat: Seat) -> Any:
        mine = tuple(w for w in range(size) if w % 2 == seat.worker % 2)
        inner = plane.allreduce(group(seat, mine), seat.worker, "sum", None)
        root = plane.broadcast(group(seat, mine), seat.worker, len(mine) - 1, None)
        return inner, root, plane.allreduce(seat, inner, "max", None)

    sums = [sum(range(parity, size, 2)) for parity in range(2)]
    for worker, (inner, root, outer) in enumerate(values(run(plane, program, 1))):
        expect(inner == sums[worker % 2], f"worker {worker}: {inner}")
        expect(root == range(worker % 2, size, 2)[-1], f"worker {worker}: {root}")
        expect(outer == max(sums), f"worker {worker}: {outer}")


def abort_reaches_present_and_future_calls(plane: Plane, size: int, run: Run) -> None:
    """After `abort`, calls of that scope raise PlaneAborted with the reason; the next scope works."""

    def program(plane: Plane, seat: Seat) -> Any:
        if seat.worker == size - 1:
            plane.abort(seat.scope, "told to stop")
        plane.barrier(seat)

    for error in errors(run(plane, program, 1), PlaneAborted):
        expect("told to stop" in str(error), f"the reason is not in {error}")
    values(run(plane, lambda p, s: p.barrier(s), 2))


def close_ends_everything_twice(plane: Plane, size: int, run: Run) -> None:
    """`close` releases waiting calls and refuses later ones; a second `close` does nothing."""

    def program(plane: Plane, seat: Seat) -> Any:
        if seat.worker == size - 1:
            plane.close()
            plane.close()
        plane.allreduce(seat, 1, "sum", None)

    errors(run(plane, program, 1), PlaneAborted)
    errors(run(plane, lambda p, s: p.send(s, 1, 0), 2), PlaneAborted)


CONDUCT_CHECKS = (
    disagreement_raises_on_every_member,
    one_callers_mistake_is_refused_at_once,
    a_subset_is_told_at_once,
    a_failure_releases_everybody,
    an_early_leaver_releases_everybody,
    a_circle_is_an_error,
    groups_do_not_disturb_each_other,
    abort_reaches_present_and_future_calls,
    close_ends_everything_twice,
)
