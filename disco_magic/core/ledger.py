"""The controller's state machine: sequence numbers, register ids, missing replies, and what failed.

Pure: the session calls it under its lock and afterwards does what the answer says (wake a waiter).
An id is handed out again, last freed first, only after its kill was issued on the same FIFO channels.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disco_magic.core.blame import in_order, is_consequence, kind_of, likeness_of
from disco_magic.core.known_names import KnownNames
from disco_magic.core.messages import Answer, CellDone, Failed, Lost, NotBound, Reached

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.core.messages import Event
    from disco_magic.errors import Failure

Reply = Reached | Answer | CellDone
_PLAIN = (Reached, Answer)
# So many kinds of failures of other commands than the raised ones are kept: the first of each.
OTHERS = 8
# So many raised errors are remembered, to recognise late failures.
RAISED = 8


@dataclass(slots=True)
class Expectation:
    """Replies to one command that a caller waits for."""

    seq: int
    missing: set[int]
    replies: dict[int, Reply] = field(default_factory=dict)


class Ledger:
    """Everything the controller knows without asking a worker.

    Attributes:
        seq: the last sequence number that was issued.
        names: which worker has registers of which names.
        lost: the first worker that was lost; None if none was.
        kept: how many failures were kept so far, raised or not.
    """

    def __init__(self, num_workers: int) -> None:
        self.seq = 0
        self.names = KnownNames(num_workers, lambda: [*self._expected, *self._forgotten])
        self.lost: Lost | None = None
        self.kept = 0
        self._highest = 0
        self._free: list[int] = []
        self._expected: dict[int, Expectation] = {}
        self._forgotten: dict[int, set[int]] = {}  # not awaited any more, nor answered by these
        self._excused: set[tuple[int, int]] = set()  # (worker, seq) of replies that are known already
        # (worker, sequence number, `likeness_of`) of the failures that were raised last
        self._raised: deque[tuple[int, int, str]] = deque(maxlen=RAISED * num_workers)
        self._failures: dict[int, Failure] = {}  # the first per worker: bounded, however many follow
        self._others: dict[tuple[str, str], Failure] = {}  # the first of each kind of later ones

    @property
    def live_registers(self) -> int:
        """How many ids are in use."""
        return self._highest - len(self._free)

    def issue(self) -> int:
        """Return the next sequence number."""
        self.seq += 1
        return self.seq

    def new_register(self) -> int:
        """Return a register id that no live reference has."""
        if self._free:
            return self._free.pop()
        self._highest += 1
        return self._highest

    def retire(self, registers: Sequence[int]) -> None:
        """Make ids reusable; their kill travels with the command being issued."""
        self._free.extend(registers)

    def expect(self, seq: int, workers: Iterable[int]) -> Expectation:
        """Collect the replies of `workers` to command `seq`."""
        expectation = self._expected[seq] = Expectation(seq, set(workers))
        return expectation

    def forget(self, seq: int) -> tuple[int, ...]:
        """Stop waiting for `seq`; what failed in its cell is kept for the next wait.

        Returns workers that had not replied.
        """
        expectation = self._expected.pop(seq, None)
        if expectation is None:
            return ()
        self._forgotten.setdefault(seq, set()).update(expectation.missing)
        self.keep_failures(expectation)
        return tuple(sorted(expectation.missing))

    def excuse(self, replies: Iterable[CellDone]) -> Expectation | None:
        """Take the replies of workers that will answer late; return the expectation they complete, if any."""
        done = None
        for reply in replies:
            worker, seq = reply.worker, reply.seq
            expectation = self._expected.get(seq)
            if expectation is None or worker not in expectation.missing:
                continue
            expectation.missing.discard(worker)
            expectation.replies[worker] = reply
            self._excused.add((worker, seq))
            self._forgotten.setdefault(seq, set()).add(worker)
            if not expectation.missing:
                done = self._expected.pop(seq)
        return done

    def keep_failures(self, ended: Expectation) -> None:
        """Keep what failed in a cell without a handle, for the next wait to raise."""
        for reply in ended.replies.values():
            self._keep(reply)

    def _keep(self, event: Failed | Reply) -> None:
        # The failure in an Answer is not new: its register's command reported it, or it is asked again.
        failure = event.failure if isinstance(event, Failed | CellDone) else None
        if failure is None or self._is_old(failure):
            return
        self.kept += 1
        first = self._failures.setdefault(event.worker, failure)
        if first.seq != failure.seq and len(self._others) < OTHERS and not is_consequence(failure):
            self._others.setdefault(kind_of(failure), failure)

    def _is_old(self, failure: Failure) -> bool:
        """Whether the failure's command has already raised one like it, or one that it follows from.

        `get` waits for one worker only: the others may reach the same command later and report the same
        failure with other numbers, for example about their own elements. What says something else is new.
        """
        likeness = likeness_of(failure)
        if any((failure.seq, likeness) == (seq, raised) for _, seq, raised in self._raised):
            return True
        origin = failure.first
        if origin is failure:
            return False
        return any((origin.worker, origin.seq) == (worker, seq) for worker, seq, _ in self._raised)

    def feed(self, event: Event) -> Expectation | None:
        """Take an event from a worker; return the expectation it completed, if any."""
        if not isinstance(event, _PLAIN):
            if not isinstance(event, CellDone):
                self._note(event)
                return None
            self.names.cell_ended(event)
        worker, seq = event[:2]
        if self._excused and (worker, seq) in self._excused:
            self._excused.discard((worker, seq))
            self._has_come_to(event)
            return None
        expectation = self._expected.get(seq)
        if expectation is None:
            self._keep(event)  # the cell has no handle any more: the next wait raises it
            self._has_come_to(event)
            return None
        expectation.replies[worker] = event
        missing = expectation.missing
        missing.discard(worker)
        if missing:
            return None
        del self._expected[seq]
        self._has_come_to(event)
        self.names.settle()
        return expectation

    def _note(self, event: Failed | NotBound | Lost) -> None:
        """Take an event that is no reply."""
        if isinstance(event, Failed):
            self._keep(event)
        elif isinstance(event, NotBound):
            self.names.not_bound(event)
        else:
            self.lost = self.lost or event

    def failed_in(self, seq: int) -> list[Failure]:
        """What has failed so far in command `seq`, which is waited for; safe from any thread."""
        waiting = self._expected.get(seq)
        replies = [] if waiting is None else list(waiting.replies.values())
        failures = [reply.failure for reply in replies if isinstance(reply, CellDone)]
        return [failure for failure in failures if failure is not None and not is_consequence(failure)]

    def is_awaited(self, seq: int, workers: Iterable[int]) -> bool:
        """Whether a caller waits, or will wait, for the answer of one of `workers` to command `seq`."""
        expectation = self._expected.get(seq)
        return expectation is not None and not expectation.missing.isdisjoint(workers)

    def is_nearly_answered(self, seq: int) -> bool:
        """Whether two replies to command `seq` are missing, or one of two in all."""
        waiting = self._expected.get(seq)
        if waiting is None:
            return False
        missing = len(waiting.missing)
        return missing == 2 or missing == len(waiting.replies) == 1

    def _has_come_to(self, reply: Reply) -> None:
        """Settle forgotten commands before `reply`, sent or not: a worker answers in order, so they ended."""
        if not self._forgotten:
            return
        for seq, missing in list(self._forgotten.items()):
            if seq <= reply.seq:
                missing.discard(reply.worker)
                if not missing:
                    del self._forgotten[seq]
                    self.names.settle()

    @property
    def has_failures(self) -> bool:
        """Whether something failed that was not raised yet; safe from any thread."""
        return bool(self._failures)

    @property
    def unraised(self) -> list[Failure]:
        """What failed and was not raised yet, as far as it is kept."""
        return [*self._failures.values(), *self._others.values()]

    @property
    def expecting(self) -> bool:
        """Whether replies are still to come."""
        return bool(self._expected)

    def take_failures(self, further: Iterable[Failure] = ()) -> tuple[dict[int, Failure], list[Failure]]:
        """Return and forget the failures not raised yet, with `further`: one per worker, the origin first.

        A worker that was only released because another one failed comes last, however early its event came.

        Returns:
            These, and what else has failed: the first of each kind, of other commands.
        """
        waiting = [*further, *self._failures.values()]
        if not waiting and not self._others:
            return {}, []
        waiting = in_order(waiting)
        self._failures.clear()
        first: dict[int, Failure] = {}
        for failure in waiting:
            first.setdefault(failure.worker, failure)
        self._raised.extend((each.worker, each.seq, likeness_of(each)) for each in first.values())
        others = {
            kind_of(each): each for each in reversed(waiting) if not is_consequence(each)
        } | self._others
        for failure in first.values():
            others.pop(kind_of(failure), None)
        self._others.clear()
        return first, list(others.values())

    def give_back(self, failures: Iterable[Failure]) -> None:
        """Keep failures from `take_failures` that were not raised after all."""
        for failure in failures:
            self._failures.setdefault(failure.worker, failure)
