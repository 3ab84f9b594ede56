r"""Bring the members of a collective together, and release them together.

    member arrives --> not the last: park ------------------------------.
                  \-> the last:  check all calls, plan                  |
                        small: move everything, wake all  <-------------+--> result or error
                        large: wake helpers, all move pieces, then wake all

Collectives are matched by (members, tag, scope, number of the worker's earlier collectives with these).
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING

from disco_magic.errors import PlaneMismatch
from disco_magic.functions.affinity import cores
from disco_magic.planes.blocks import Mover
from disco_magic.planes.checks import astray, verdict
from disco_magic.planes.meeting import Meeting
from disco_magic.planes.plans import FoldPlan
from disco_magic.planes.verdicts import Verdict, broken

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.planes.blocks import Fold
    from disco_magic.planes.board import Board
    from disco_magic.planes.calls import Call
    from disco_magic.planes.plans import Plan

    # The members, with the tag if there is one.
    Line = tuple[int, ...] | tuple[tuple[int, ...], int | str]
    Key = tuple[Line, int, int]

# Up to this many bytes read and written, the last member to arrive moves everything alone, so that the other
# members are woken once instead of twice. Measured with 4 threads on 2 cores, allreduce in us, alone
# and shared: 2 MiB 180 and 190, 4 MiB 410 and 400, 8 MiB 640 and 550; from there on sharing is faster.
ALONE_NBYTES = 4 * 1024 * 1024
# A stack that is no deeper than this is not near any usual recursion limit.
_DEEP = 200
# Several times the frames that a call needs, the report of its failure included.
_FRAMES = 60


class Rendezvous:
    """The collectives of one plane.

    Args:
        board: the bookkeeping of the plane.
        num_workers: number of workers.
        plan: makes the plan for calls that fit together.
    """

    def __init__(self, board: Board, num_workers: int, plan: Callable[[list[Call]], Plan]) -> None:
        self._board = board
        self._plan = plan
        self._meetings: dict[Key, Meeting] = {}
        self._workers = num_workers
        # worker -> (scope, collectives made in it, by communicator)
        self._made: list[tuple[int, dict[Line, int]]] = [(-1, {})] * num_workers
        self._movers = 2 * cores()

    @property
    def open(self) -> int:
        """Number of meetings that wait for a member, or keep a verdict for one."""
        return len(self._meetings)

    def join(self, call: Call) -> Meeting:
        """Make `call` together with the other members; return their meeting once everything was moved.

        Raises:
            PlaneMismatch: the calls do not fit together, or members wait for each other.
            PlaneAborted: a member can no longer come.
            PlaneError: moving the data failed on some member.
            RecursionError: the caller's stack is so near to the limit that the call might not get through.
        """
        if len(call.seat.members) == 1:
            return self._alone(call)
        _check_depth()
        meeting, last = self._arrive(call)
        if not last:
            self._board.sleep(call, meeting)
        elif meeting.verdict is None:
            self._settle(meeting, call)
        if meeting.pieces is not None:  # even after a failure: other members may still read our array
            self._help(meeting, call)
        if meeting.verdict is not None:
            # A failed meeting is kept for late members, without the caller's arrays.
            mail = self._board.mail[call.worker]
            unmet = None if meeting.complete else meeting.unmet_by(call.worker, mail)
            call.array = call.out = call.ready = None
            raise meeting.verdict.error(unmet)
        return meeting

    def _alone(self, call: Call) -> Meeting:
        """`join` for a communicator of one member."""
        with self._board.lock:
            self._board.admit(call)
        meeting = Meeting(call.seat.members, call.seat.scope)
        meeting.calls[call.worker] = call
        self._settle(meeting, call)
        if meeting.verdict is not None:
            raise meeting.verdict.error()
        return meeting

    # --- arriving ------------------------------------------------------------------------------------

    def _arrive(self, call: Call) -> tuple[Meeting, bool]:
        """Enter the meeting; return it, and whether the caller goes on at once instead of parking."""
        board, seat = self._board, call.seat
        worker, members, scope = seat[:3]
        with board.lock:
            if scope <= board.ended or board.left[worker] >= scope:  # seldom: `admit` looks again, and raises
                board.admit(call)
            last, made = self._made[worker]
            if last != scope:
                made = {}
                self._made[worker] = scope, made
            line: Line = members if seat.tag == 0 else (members, seat.tag)
            number = made[line] = made.get(line, 0) + 1
            key = line, scope, number
            meeting = self._meetings.get(key)
            if meeting is None:
                meeting = self._open(key, members)
            calls = meeting.calls
            calls[worker] = call
            if len(calls) == meeting.size:
                del self._meetings[key]
                return meeting, True
            if meeting.verdict is not None:
                return meeting, True  # it failed before this member came: raise the same verdict at once
            board.park(worker, meeting)
        return meeting, False

    def _open(self, key: Key, members: tuple[int, ...]) -> Meeting:
        # A worker is parked in every meeting that has not failed, so this many mean that some have failed.
        if len(self._meetings) >= self._workers:
            self.forget()
        meeting = self._meetings[key] = Meeting(members, key[1])
        return meeting

    def forget(self) -> None:
        """Drop the failed meetings that no member can still come to; with the board's lock held."""
        over = [
            key
            for key, meeting in self._meetings.items()
            if meeting.verdict is not None and self._board.over(meeting.scope, meeting.members)
        ]
        for key in over:
            del self._meetings[key]

    # --- moving --------------------------------------------------------------------------------------

    def _settle(self, meeting: Meeting, call: Call) -> None:
        """Check the calls, then move everything or begin to share the work; by the last member only."""
        try:
            calls = meeting.in_rank_order()
            text = verdict(calls)
            if text is not None:
                meeting.verdict = Verdict(PlaneMismatch, text, astray=astray(calls))
            else:
                plan = meeting.plan = self._plan(calls)
                if (
                    isinstance(plan, FoldPlan)
                    and plan.shared
                    and plan.nbytes > ALONE_NBYTES
                    and len(calls) > 1
                ):
                    self._share(meeting, plan)
                    return
                plan.run()
        except BaseException as error:
            meeting.verdict = broken(call, error)
            if not issubclass(type(error), Exception):  # isinstance would read its __class__: user code
                raise
        finally:
            if meeting.pieces is None and meeting.size > 1:
                with self._board.lock:
                    self._board.wake(meeting)

    def _share(self, meeting: Meeting, plan: FoldPlan) -> None:
        """Cut the plan into pieces and wake helpers: at most one per piece, and at most two per core.

        On idle cores, one helper per core is as fast as more (measured: 2 and 4 threads on 2 cores are
        equal); the second one keeps this session's share of a machine that other programs use too. The other
        members sleep on and are woken once.
        """
        pieces = deque(plan.pieces(2 * self._movers))
        with self._board.lock:
            meeting.pieces, waiting = pieces, self._board.waiting
            # Not a worker whose thread was given up meanwhile: its new thread may wait for something else.
            helpers = [*filter(lambda each: waiting.get(each[0]) is meeting, meeting.gates())]
            for worker, gate in helpers[: min(len(pieces), self._movers) - 1]:
                del waiting[worker]
                gate.release()

    def _help(self, meeting: Meeting, call: Call) -> None:
        """Move pieces until none is left; return when every piece was moved.

        1. A helper may wake late, when all is `moved`: then it has nothing to do and does not park.
        2. A member stops when it finds no more pieces; the `busy` members are still moving theirs.
        3. The last busy member finds ``busy == 0``: all pieces were taken and are moved. It wakes the
           `resting` members, and those that were never asked to help and are still in `waiting`.
        So no member returns, and reuses its input, while a peer may still read it.
        """
        plan, pieces = meeting.plan, meeting.pieces
        with self._board.lock:
            if meeting.moved or not isinstance(plan, FoldPlan) or pieces is None:
                return
            meeting.busy += 1
        try:
            _move(plan, pieces)
        except BaseException as error:
            pieces.clear()
            if meeting.verdict is None:
                meeting.verdict = broken(call, error)
            if not issubclass(type(error), Exception):  # isinstance would read its __class__: user code
                raise
        finally:
            self._rest(meeting, call)

    def _rest(self, meeting: Meeting, call: Call) -> None:
        board = self._board
        with board.lock:
            meeting.busy -= 1
            if meeting.busy == 0:
                meeting.moved = True
                board.wake(meeting, [resting.gate for resting in meeting.resting])
                return
            meeting.resting.append(call)
        board.sleep(call, meeting)


def _check_depth() -> None:
    """Raise RecursionError now, before other members rely on the caller, not half-way. Costs 0.5 us."""
    try:
        sys._getframe(_DEEP)  # noqa: SLF001 - the only way to ask whether there are so many frames
    except ValueError:
        return
    _descend(_FRAMES)


def _descend(frames: int) -> None:
    if frames:
        _descend(frames - 1)


def _move(plan: FoldPlan, pieces: deque[Fold]) -> None:
    mover = Mover(plan.reduction)
    while True:
        try:
            piece = pieces.popleft()
        except IndexError:
            return
        mover.move(piece)
