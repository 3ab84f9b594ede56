"""Checks of a plane's messages: their order, their tags, and what happens to unread ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import PlaneAborted, PlaneError, PlaneMismatch
from disco_magic.testing.stage import errors, expect, same, values

if TYPE_CHECKING:
    from disco_magic.core.interfaces import Plane
    from disco_magic.core.seat import Seat
    from disco_magic.testing.stage import Run


def messages_arrive_in_order(plane: Plane, size: int, run: Run) -> None:
    """Messages arrive as copies and in the order sent, also from a worker to itself."""

    def program(plane: Plane, seat: Seat) -> Any:
        right, left = (seat.worker + 1) % size, (seat.worker - 1) % size
        x = np.arange(3) + 10 * seat.worker
        plane.send(seat, x, right)
        x += 1
        plane.send(seat, x, right)
        x[...] = -1
        plane.send(seat, 2.5, right)
        out = np.empty(3, int)
        first, returned = plane.recv(seat, left, None), plane.recv(seat, left, out)
        return first, returned is out, out, plane.recv(seat, left, None)

    for worker, (first, returned, second, number) in enumerate(values(run(plane, program, 1))):
        sent = np.arange(3) + 10 * ((worker - 1) % size)
        same(first, sent)
        same(second, sent + 1)
        expect(returned, "recv does not return its out")
        expect(type(number) is np.float64 and number == 2.5, f"a number arrived as {number!r}")


def messages_bear_tags(plane: Plane, size: int, run: Run) -> None:
    """A receiver gets only the messages with the tag that it asks for, in the order sent."""

    def program(plane: Plane, seat: Seat) -> Any:
        right, left = (seat.worker + 1) % size, (seat.worker - 1) % size
        loss, late = seat._replace(tag="loss"), seat._replace(tag=7)
        for number, sent in enumerate((seat, loss, late, loss)):
            plane.send(sent, np.full(2, number), right)
        return [plane.recv(wanted, left, None)[0] for wanted in (late, loss, loss, seat)]

    for got in values(run(plane, program, 1)):
        expect(got == [2, 1, 3, 0], f"messages with other tags than asked for: {got}")


def tags_keep_collectives_apart(plane: Plane, size: int, run: Run) -> None:
    """Collectives with different tags never meet."""

    def in_order(plane: Plane, seat: Seat) -> Any:
        return [plane.allreduce(seat._replace(tag=tag), np.ones(2), "sum", None) for tag in ("a", 0, "b")]

    for got in values(run(plane, in_order, 1)):
        same(np.array(got), np.full((3, 2), float(size)))
    if size > 1:

        def crossed(plane: Plane, seat: Seat) -> Any:
            for tag in ("a", "b") if seat.worker else ("b", "a"):
                plane.allreduce(seat._replace(tag=tag), np.ones(2), "sum", None)

        errors(run(plane, crossed, 2), PlaneError)


def unread_messages_are_told_and_dropped(plane: Plane, size: int, run: Run) -> None:
    """`unread` names messages that were not received; later scopes do not see them."""

    def program(plane: Plane, seat: Seat) -> Any:
        if seat.worker == 0:
            plane.send(seat, np.zeros(3, "i2"), size - 1)
        plane.barrier(seat)
        return plane.unread(seat.worker, seat.scope)

    outcomes = values(run(plane, program, 1))
    expect(len(outcomes[-1]) == 1, f"unread: {outcomes[-1]}")
    expect("int16 (3,) from worker 0" in outcomes[-1][0], f"unread: {outcomes[-1]}")

    def later(plane: Plane, seat: Seat) -> Any:
        expect(plane.unread(seat.worker, 1) == [], "a message outlived its scope")
        if seat.worker == 0:
            plane.send(seat, np.ones(1, "i2"), size - 1)
        return plane.recv(seat, 0, None) if seat.worker == size - 1 else None

    same(values(run(plane, later, 2))[-1], np.ones(1, "i2"))


def a_missing_message_is_an_error(plane: Plane, size: int, run: Run) -> None:
    """A recv whose sender finishes raises PlaneAborted; one whose `out` does not fit raises PlaneMismatch."""
    if size == 1:
        return

    def program(plane: Plane, seat: Seat) -> Any:
        if seat.worker == 0:
            plane.send(seat, np.zeros(3), 1)
        elif seat.worker == 1:
            try:
                plane.recv(seat, 0, np.empty(4))
            except PlaneMismatch:
                plane.recv(seat, 0, None)

    errors(run(plane, program, 1)[1:2], PlaneAborted)


def sends_can_wait_until_they_are_asked_for(plane: Plane, size: int, run: Run) -> None:
    """With ``rendezvous``, a send returns once its message is asked for; announcing it counts as that."""

    def announced(plane: Plane, seat: Seat) -> Any:
        right, left = (seat.worker + 1) % size, (seat.worker - 1) % size
        plane.announce(seat, left)
        plane.send(seat._replace(rendezvous=True), np.full(3, seat.worker), right)
        return plane.recv(seat, left, None)

    for worker, got in enumerate(values(run(plane, announced, 1))):
        same(got, np.full(3, (worker - 1) % size))

    def around(plane: Plane, seat: Seat) -> Any:
        right, left = (seat.worker + 1) % size, (seat.worker - 1) % size
        plane.send(seat._replace(rendezvous=True), np.full(3, seat.worker), right)
        return plane.recv(seat, left, None)

    errors(run(plane, around, 2), PlaneMismatch)

    def one_first(plane: Plane, seat: Seat) -> Any:
        right, left = (seat.worker + 1) % size, (seat.worker - 1) % size
        got = None if seat.worker else plane.recv(seat, left, None)
        sent = plane.send(seat, np.full(3, seat.worker), right)
        plane.deliver(seat, sent)
        return plane.recv(seat, left, None) if seat.worker else got

    if size > 1:
        for worker, got in enumerate(values(run(plane, one_first, 3))):
            same(got, np.full(3, (worker - 1) % size))


def the_oldest_message_is_found(plane: Plane, size: int, run: Run) -> None:
    """`probe` returns the sender of the oldest message with a tag, and waits if there is none."""

    def to_the_first(plane: Plane, seat: Seat) -> Any:
        urgent = seat._replace(tag="urgent")
        for turn in range(size):  # one after the other
            if turn == seat.worker:
                plane.send(urgent, np.full(2, seat.worker), 0)
            plane.barrier(seat)
        if seat.worker:
            plane.recv(seat, 0, None)
            return plane.send(seat, seat.worker, 0)
        found = [plane.recv(urgent, plane.probe(urgent, None), None)[0] for _ in range(size)]
        for other in range(1, size):
            plane.send(seat, 1, other)
        came = [plane.recv(seat, plane.probe(seat, range(1, size)), None) for _ in range(1, size)]
        return found, sorted(came)

    found, came = values(run(plane, to_the_first, 1))[0]
    expect(found == [*range(size)], f"the oldest messages came from {found}")
    expect(came == [*range(1, size)], f"messages that a probe waited for: {came}")


def a_probe_ends_when_nobody_can_send(plane: Plane, size: int, run: Run) -> None:
    """It raises PlaneAborted once all sources have left, PlaneMismatch if those that have not are waiting."""

    def in_vain(plane: Plane, seat: Seat) -> Any:
        return None if seat.worker else plane.probe(seat, None)

    errors(run(plane, in_vain, 1)[:1], PlaneAborted if size > 1 else PlaneMismatch)

    def everybody(plane: Plane, seat: Seat) -> Any:
        plane.probe(seat, None)

    errors(run(plane, everybody, 2), PlaneMismatch)

    def all_but_one(plane: Plane, seat: Seat) -> Any:
        if seat.worker != size - 1:  # the last one leaves
            plane.recv(seat, 0, None) if seat.worker else plane.probe(seat, None)

    if size > 1:
        errors(run(plane, all_but_one, 3)[: size - 1], PlaneError)


MESSAGE_CHECKS = (
    messages_arrive_in_order,
    messages_bear_tags,
    tags_keep_collectives_apart,
    unread_messages_are_told_and_dropped,
    a_missing_message_is_an_error,
    sends_can_wait_until_they_are_asked_for,
    the_oldest_message_is_found,
    a_probe_ends_when_nobody_can_send,
)
