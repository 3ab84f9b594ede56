"""What the controller has to know: numbers, ids, who has answered, what failed, which names there are."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from disco_magic.core.ledger import RAISED
from tests.simulation.worker_reference import Order, key_of, require

CONSEQUENCES = ("PlaneAborted", "WorkerInterrupt")


@dataclass
class Awaited:
    """Replies to one command: who has not answered, and what came, in order of arrival.

    `causes`: what the failures in them follow from.
    """

    seq: int
    missing: set[int]
    replies: dict[int, tuple] = field(default_factory=dict)
    causes: dict[int, tuple | None] = field(default_factory=dict)


class ControllerReference:
    """One life of a session.

    Attributes:
        seq: the last number.
        occupied: ids that a live reference has, or whose kill was not issued yet.
        dropped: ids of dropped references, in that order, before their kill is issued.
        awaited: seq -> what nobody has forgotten and not everybody has answered.
        answered: seq -> the same, when everybody has.
        kept: worker -> the first failure that was told since the last wait raised.
        orphans: cells whose handle was dropped, in that order.
        lost: the first loss that was told.
    """

    def __init__(self, num_workers):
        self.num_workers = num_workers
        self.everybody = tuple(range(num_workers))
        self.seq = 0
        self._highest = 0
        self._free = []
        self.occupied = set()
        self.dropped = deque()
        self.awaited, self.answered = {}, {}
        self.kept = {}
        self._raised = deque(maxlen=RAISED * num_workers)  # keys of the failures that were raised last
        self.orphans = []
        self.lost = None
        self.names = dict.fromkeys(self.everybody, ())
        self._bindings = {}  # (worker, name) -> the last command that binds it there
        self._changes = []  # ((seq, name, bound), workers)
        self._excused = set()  # (worker, seq) of cells whose answer is known before it comes
        self._cells = {}  # (seq, worker) of cells that have not been heard of

    # --- numbers and ids ---------------------------------------------------------------------------------

    def issue(self, *orders):
        """Number the orders that one method of the session sends; a kill of its own may come before each."""
        sent = []
        for order in orders:
            kills = tuple(self.dropped)
            self.dropped.clear()
            for register in kills:
                require(register in self.occupied, f"register {register} is killed twice")
                self.occupied.discard(register)
            self._free.extend(kills)
            if kills and len(order.workers) < self.num_workers:
                self.seq += 1
                sent.append(Order("kill", self.seq, self.everybody, kills))
                kills = ()
            self.seq += 1
            order.seq, order.kills = self.seq, kills
            if order.dest == "new":
                order.dest = self._new()
            sent.append(order)
        return sent

    def _new(self):
        if self._free:
            register = self._free.pop()  # last freed first
        else:
            self._highest += 1
            register = self._highest
        require(register not in self.occupied, f"register {register} lives twice")
        self.occupied.add(register)
        return register

    # --- replies -----------------------------------------------------------------------------------------

    def expect(self, order):
        self.awaited[order.seq] = Awaited(order.seq, set(order.workers))
        if order.kind == "cell":
            self._cells.update(dict.fromkeys((order.seq, worker) for worker in order.workers))

    def hear(self, worker, facts, cause):
        """An event that `facts_of` has put into words; `cause` is what its failure follows from."""
        kind, seq, _, failure, names = facts
        if kind == "CellDone":
            self._hear_names(worker, seq, names)
            if (worker, seq) in self._excused:
                self._excused.discard((worker, seq))
                return
        if kind == "NotBound":
            if self._bindings[worker, *names] == seq:  # no later command binds it there
                self.names[worker] = _renamed(self.names[worker], (seq, *names, False))
            return
        awaited = None if kind == "Failed" else self.awaited.get(seq)
        if awaited is None:
            self._keep(worker, kind, failure, cause)
            return
        awaited.replies[worker], awaited.causes[worker] = facts, cause
        awaited.missing.discard(worker)
        if not awaited.missing:
            self.answered[seq] = self.awaited.pop(seq)

    def excuse(self, seq, workers):
        """These have not begun the cell, and will not: what they will say is known."""
        awaited = self.awaited[seq]
        for worker in awaited.missing & set(workers):
            failure = (worker, seq, "WorkerInterrupt")
            awaited.replies[worker] = ("CellDone", seq, None, failure, ())
            awaited.causes[worker] = None
            awaited.missing.discard(worker)
            self._excused.add((worker, seq))
        if not awaited.missing:
            self.answered[seq] = self.awaited.pop(seq)

    def _keep(self, worker, kind, failure, cause):
        """The first failure of a worker is kept, but for one like, or that follows from, what was raised."""
        if failure is None or kind not in {"Failed", "CellDone"}:
            return
        if any(failure[1:] == raised[1:] for raised in self._raised):
            return
        if cause is None or cause[:2] not in [raised[:2] for raised in self._raised]:
            self.kept.setdefault(worker, failure)

    def forget(self, seq):
        """Nobody waits for it any more."""
        awaited = self.awaited.pop(seq, None) or self.answered.pop(seq, None)
        if awaited is not None:
            for worker, (kind, _, _, failure, _) in awaited.replies.items():
                self._keep(worker, kind, failure, awaited.causes[worker])

    # --- failures ----------------------------------------------------------------------------------------

    def raised(self, further):
        """What the next wait raises, as keys: the origin first, what only follows from others last."""
        for seq in self.orphans:
            self.forget(seq)
        self.orphans.clear()
        news = [*further, *self.kept.values()]
        self.kept.clear()
        if not news:
            return []
        causes = [key for key in news if key[2] not in CONSEQUENCES]
        followers = [key for key in news if key[2] in CONSEQUENCES]
        origin = (causes or followers)[0]
        alike = sorted(key for key in causes or followers if key[1:] == origin[1:])
        order = dict.fromkeys([*alike, *causes, *followers])
        raised = _first_per_worker(order)
        self._raised.extend(raised)
        return raised

    # --- names -------------------------------------------------------------------------------------------

    def rename(self, seq, name, *, bound, workers=None):
        """The controller binds or drops a name on these workers, None: on all."""
        change = (seq, name, bound)
        self._changes.append((change, workers or self.everybody))
        for worker in workers or self.everybody:
            self.names[worker] = _renamed(self.names[worker], change)
            if bound:
                self._bindings[worker, name] = seq

    def _hear_names(self, worker, seq, names):
        """A cell's own names, and what was sent after it."""
        for change, workers in self._changes:
            if change[0] > seq and worker in workers:
                names = _renamed(names, change)
        self.names[worker] = names
        self._cells.pop((seq, worker), None)
        if not self._cells:
            self._changes.clear()

    # --- comparing ---------------------------------------------------------------------------------------

    def check(self, ledger):
        require(ledger.seq == self.seq, f"sequence number is {ledger.seq}, should be {self.seq}")
        living = ledger.live_registers
        require(living == len(self.occupied), f"{living} registers live, should be {len(self.occupied)}")
        missing = {seq: e.missing for seq, e in ledger._expected.items()}
        should = {seq: awaited.missing for seq, awaited in self.awaited.items()}
        require(missing == should, "expectations (are, should be)", missing, should)
        require(ledger.expecting == bool(should), "`expecting` is wrong", should)
        require(
            ledger.names.by_worker == self.names, "names (are, should be)", ledger.names.by_worker, self.names
        )
        kept = {worker: key_of(failure) for worker, failure in ledger._failures.items()}
        require(
            kept == self.kept and list(kept) == list(self.kept), "failures (are, should be)", kept, self.kept
        )
        require(ledger.has_failures == bool(kept), "`has_failures` is wrong", kept)
        require((ledger.lost and ledger.lost.worker) == self.lost, "the first loss", ledger.lost, self.lost)


def _first_per_worker(keys):
    first = {}
    for key in keys:
        first.setdefault(key[0], key)
    return list(first.values())


def _renamed(names, change):
    _, name, bound = change
    if not bound:
        return tuple(each for each in names if each != name)
    return names if name in names else (*names, name)
