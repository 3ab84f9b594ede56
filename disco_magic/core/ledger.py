"""The controller machine: sequence numbers, register ids, who has answered what, and what failed.

Pure: the session calls it under its lock and afterwards does what the answer says (wake a waiter).
An id is handed out again, last freed first, only after its kill was issued on the same FIFO channels.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from disco_magic.core.blame import is_consequence, kind_of, rank
from disco_magic.core.known_names import KnownNames
from disco_magic.core.messages import Answer, CellDone, Failed, Lost, Reached
from disco_magic.phrases import class_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.core.messages import Event
    from disco_magic.errors import Failure

Reply = Reached | Answer | CellDone
_PLAIN = (Reached, Answer)
# Kinds of failures of other commands than those that are raised; of more the first.
OTHERS = 8
# Of so many raised errors late failures are known for what they are.
RAISED = 8


@dataclass(slots=True)
class Expectation:
    """Replies to one command that somebody waits for."""

    seq: int
    missing: set[int]
    replies: dict[int, Reply] = field(default_factory=dict)


class Ledger:
    """Everything the controller knows without asking a worker.

    Attributes:
        num_workers: how many workers.
        seq: the last sequence number that was issued.
        names: which worker has registers of which names.
        lost: the first worker that was lost; None: none was.
    """

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self.seq = 0
        self.names = KnownNames(num_workers, lambda: [*self._expected, *self._forgotten])
        self.lost: Lost | None = None
        self._highest = 0
        self._free: list[int] = []
        self._expected: dict[int, Expectation] = {}
        self._forgotten: dict[int, set[int]] = {}  # nobody waits any more, but these have not replied yet
        self._excused: set[tuple[int, int]] = set()  # of those, by worker, whose reply is known
        # (worker, sequence number, name of the exception's class) of those that were raised last
        self._raised: deque[tuple[int, int, str]] = deque(maxlen=RAISED * num_workers)
        self._failures: dict[int, Failure] = {}  # the first per worker: bounded, however many follow
        self._others: dict[tuple[str, str], Failure] = {}  # of those that follow: the first of each kind

    @property
    def live_registers(self) -> int:
        """How many ids are handed out."""
        return self._highest - len(self._free)

    def issue(self) -> int:
        """The next sequence number."""
        self.seq += 1
        return self.seq

    def new_register(self) -> int:
        """A register id that no live reference has."""
        if self._free:
            return self._free.pop()
        self._highest += 1
        return self._highest

    def retire(self, registers: Sequence[int]) -> None:
        """Ids whose kill travels with the command being issued: the next one may reuse them."""
        self._free.extend(registers)

    def expect(self, seq: int, workers: Iterable[int]) -> Expectation:
        """Collect the replies of `workers` to command `seq`."""
        expectation = self._expected[seq] = Expectation(seq, set(workers))
        return expectation

    def forget(self, seq: int) -> tuple[int, ...]:
        """Nobody waits for `seq` any more; what failed in its cell is kept for the next wait.

        Returns who had not replied.
        """
        expectation = self._expected.pop(seq, None)
        if expectation is None:
            return ()
        self._forgotten.setdefault(seq, set()).update(expectation.missing)
        self.keep_failures(expectation)
        return tuple(sorted(expectation.missing))

    def excuse(self, replies: Iterable[CellDone]) -> Expectation | None:
        """Workers that will reply late to a cell, with these; the expectation that this completed, if any."""
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
        """Let the next wait raise what failed in a cell that nobody has a handle of."""
        for reply in ended.replies.values():
            self._keep(reply)

    def _keep(self, event: Failed | Reply) -> None:
        # The failure in an Answer is not news: its register's command told it, or will be asked again.
        failure = event.failure if isinstance(event, Failed | CellDone) else None
        if failure is None or self._is_old(failure):
            return
        first = self._failures.setdefault(event.worker, failure)
        if first.seq != failure.seq and len(self._others) < OTHERS and not is_consequence(failure):
            self._others.setdefault(kind_of(failure), failure)

    def _is_old(self, failure: Failure) -> bool:
        """Whether its command has raised one like it already, or one that it follows from.

        `get` waits for its own worker alone: the others may come to the same command later, and say the same
        in other words, of their own elements for one.
        """
        name = class_name(failure.exception)
        if any((failure.seq, name) == (seq, raised) for _, seq, raised in self._raised):
            return True
        origin = failure.first
        if origin is failure:
            return False
        return any((origin.worker, origin.seq) == (worker, seq) for worker, seq, _ in self._raised)

    def feed(self, event: Event) -> Expectation | None:
        """Take an event from a worker; the expectation it completed, if any."""
        if not isinstance(event, _PLAIN):
            if isinstance(event, Lost):
                self.lost = self.lost or event
                return None
            if isinstance(event, Failed):
                self._keep(event)
                return None
            self.names.cell_ended(event)
        worker, seq = event[:2]
        if self._excused and (worker, seq) in self._excused:
            self._excused.discard((worker, seq))
            self._has_come_to(event)
            return None
        expectation = self._expected.get(seq)
        if expectation is None:
            self._keep(event)  # nobody has a handle of the cell any more: the next wait raises it
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

    def failed_in(self, seq: int) -> list[Failure]:
        """What has failed so far in command `seq`, which is waited for; may be read from any thread."""
        waiting = self._expected.get(seq)
        replies = [] if waiting is None else list(waiting.replies.values())
        failures = [reply.failure for reply in replies if isinstance(reply, CellDone)]
        return [failure for failure in failures if failure is not None and not is_consequence(failure)]

    def is_awaited(self, seq: int, workers: Iterable[int]) -> bool:
        """Whether somebody waits for the answer of one of `workers` to command `seq`, or will."""
        expectation = self._expected.get(seq)
        return expectation is not None and not expectation.missing.isdisjoint(workers)

    def is_nearly_answered(self, seq: int) -> bool:
        """Whether the reply to command `seq` that came last left two to come, or of two the other one."""
        waiting = self._expected.get(seq)
        if waiting is None:
            return False
        missing = len(waiting.missing)
        return missing == 2 or missing == len(waiting.replies) == 1

    def _has_come_to(self, reply: Reply) -> None:
        """A worker answers in order: it has ended everything before, also what was forgotten unsent."""
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
        """Whether something failed that was not raised yet; may be read from any thread."""
        return bool(self._failures)

    @property
    def expecting(self) -> bool:
        """Whether replies are still to come."""
        return bool(self._expected)

    def take_failures(self, further: Iterable[Failure] = ()) -> tuple[dict[int, Failure], list[Failure]]:
        """Failures not raised yet, together with `further`: one per worker, the origin first; then forgotten.

        A worker that was only released because another one failed comes last, however early its event came.

        Returns:
            These, and what else has failed: the first of each kind, of other commands.
        """
        waiting = [*further, *self._failures.values()]
        self._failures.clear()
        waiting.sort(key=is_consequence)
        if waiting:
            waiting.sort(key=partial(rank, waiting[0]))
        first: dict[int, Failure] = {}
        for failure in waiting:
            first.setdefault(failure.worker, failure)
        self._raised.extend((each.worker, each.seq, class_name(each.exception)) for each in first.values())
        others = {
            kind_of(each): each for each in reversed(waiting) if not is_consequence(each)
        } | self._others
        for failure in first.values():
            others.pop(kind_of(failure), None)
        self._others.clear()
        return first, list(others.values())

    def give_back(self, failures: Iterable[Failure]) -> None:
        """What `take_failures` gave and was not raised after all."""
        for failure in failures:
            self._failures.setdefault(failure.worker, failure)
