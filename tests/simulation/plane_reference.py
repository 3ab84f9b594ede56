"""Who meets whom in plane calls, and who can still come: the rules of `Plane`, without gates and locks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import prod

from tests.simulation.worker_reference import require

COMBINE = {"sum": sum, "max": max, "prod": prod}


@dataclass(eq=False)
class Gathering:
    """One collective call: who has come with what. `outcomes`: worker -> "value" or the type of its error."""

    members: tuple[int, ...]
    scope: int
    arrived: dict[int, tuple[str, int]] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)
    hopeless: bool = False
    circled: bool = False

    @property
    def complete(self):
        return len(self.arrived) == len(self.members)

    @property
    def alike(self):
        return len({op for op, _ in self.arrived.values()}) == 1

    def missing(self):
        return [member for member in self.members if member not in self.arrived]


@dataclass(eq=False)
class Letter:
    """A message, and when it was posted; `taken`: its receiver has asked for it."""

    value: int
    number: int
    taken: bool = False


@dataclass(eq=False)
class Receiving:
    """A worker that waits for a message."""

    worker: int
    source: int
    scope: int
    box: deque
    hopeless: bool = False
    circled: bool = False

    @property
    def complete(self):
        return bool(self.box)

    def awaits(self, box):
        return self.box is box and not (self.complete or self.hopeless or self.circled)

    def missing(self):
        return [] if self.complete else [self.source]


@dataclass(eq=False)
class Probing:
    """A worker that waits for a message from any of several; `found`: who has sent it."""

    worker: int
    sources: tuple[int, ...]
    scope: int
    boxes: dict[int, deque]
    found: int | None = None
    hopeless: bool = False
    circled: bool = False

    @property
    def complete(self):
        return self.found is not None

    def look(self):
        """Note who has sent the oldest message, unless it is too late."""
        there = [(box[0].number, source) for source, box in self.boxes.items() if box]
        if there and not (self.complete or self.hopeless or self.circled):
            self.found = min(there)[1]

    def missing(self):
        others = [source for source in self.sources if source != self.worker] or [self.worker]
        return [] if self.complete else others


@dataclass(eq=False)
class Delivering:
    """A worker that waits until its message is asked for."""

    worker: int
    receiver: int
    scope: int
    letter: Letter
    hopeless: bool = False
    circled: bool = False

    @property
    def complete(self):
        return self.letter.taken

    def missing(self):
        return [] if self.complete else [self.receiver]


class PlaneReference:
    """The plane of one life.

    Attributes:
        written: worker -> the last command it has said to be over.
        finished: the same, from when everybody who waits must have been told.
        waits: worker -> what it is in, from its call until it comes back.
        resting: worker -> its real call and wait, while it sleeps.
    """

    def __init__(self, num_workers):
        self.written = [0] * num_workers
        self.finished = [0] * num_workers
        self.closed = False
        self.gatherings = {}
        self.made = [(0, {})] * num_workers
        self.boxes = {}
        self.posted = 0
        self.waits = {}
        self.resting = {}

    # --- calls -----------------------------------------------------------------------------------------

    def arrive(self, worker, scope, members, op, value):
        """`worker` calls a collective."""
        if self.made[worker][0] != scope:
            self.made[worker] = (scope, {})
        counts = self.made[worker][1]
        number = counts[members] = counts.get(members, 0) + 1
        gathering = self.gatherings.setdefault((scope, members, number), Gathering(members, scope))
        gathering.arrived[worker] = (op, value)
        gathering.hopeless |= self.closed
        self._wait(worker, gathering)

    def receive(self, worker, scope, source):
        box = self.boxes.setdefault((source, worker, scope), deque())
        if box:
            box[0].taken = True
        self._wait(worker, Receiving(worker, source, scope, box))

    def probe(self, worker, scope, sources):
        boxes = {source: self.boxes.setdefault((source, worker, scope), deque()) for source in sources}
        wait = Probing(worker, sources, scope, boxes)
        wait.look()
        self._wait(worker, wait)

    def post(self, worker, scope, to, value, error):
        """`worker` has sent, or failed to."""
        gone = self.closed or self.written[to] >= scope or self.written[worker] >= scope
        where = f"send {worker} -> {to} in ({scope})"
        if error is None:
            require(not gone, f"{where} was taken, though nobody will receive it")
            box = self.boxes.setdefault((worker, to, scope), deque())
            awaited = self.waits.get(to)
            self.posted += 1
            taken = isinstance(awaited, Receiving) and awaited.awaits(box)
            box.append(Letter(value, self.posted, taken))
            if isinstance(awaited, Probing):
                awaited.look()
        else:
            require(gone and error == "PlaneAborted", f"{where} failed for nothing: {error}")

    def deliver(self, worker, scope, to):
        """`worker` waits until what it has just sent is asked for."""
        self._wait(worker, Delivering(worker, to, scope, self.boxes[worker, to, scope][-1]))

    def unread(self, worker, scope):
        return sum(
            len(box) for (_, to, sent_in), box in self.boxes.items() if (to, sent_in) == (worker, scope)
        )

    def _wait(self, worker, wait):
        self.waits[worker] = wait
        self._mark(worker)

    def _mark(self, worker):
        for member in self._circle(worker, self.written):
            self.waits[member].circled = True

    def _circle(self, start, left):
        """Everybody who waits for `start` and is waited for by it, however indirectly.

        If there is none, and `start` can only go on if some other does that cannot either: all of these.
        `left` says who has left what.
        """
        ways = {
            w: {m for m in wait.missing() if left[m] < wait.scope}
            for w, wait in self.waits.items()
            if not (wait.hopeless or wait.complete or self._is_lost(wait, left))
        }
        for_all = {w: to for w, to in ways.items() if not isinstance(self.waits[w], Probing)}
        ahead = self._ahead(for_all, start)
        if start in ahead:
            return {w for w in ahead if start in self._ahead(for_all, w)}
        free, before = set(range(len(left))) - set(ways), None
        while before != free:
            before = set(free)
            free |= {w for w, to in ways.items() if (to <= free if w in for_all else to & free)}
        return set() if start in free else {start} | self._ahead(ways, start) - free

    def _ahead(self, ways, start):
        """Whom `start` waits for, and those for whom these wait, and so on."""
        seen, todo = set(), [start]
        while todo:
            for further in ways.get(todo.pop(), ()):
                if further not in seen:
                    seen.add(further)
                    todo.append(further)
        return seen

    def came_back(self, worker, value, error):
        """The call of `worker` returned or raised."""
        wait = self.waits.pop(worker)
        self.resting.pop(worker, None)
        if isinstance(wait, Receiving):
            self._received(wait, value, error)
        elif isinstance(wait, Delivering):
            self._delivered(wait, error)
        elif isinstance(wait, Probing):
            self._found(wait, value, error)
        else:
            self._met(wait, worker, value, error)

    def _received(self, wait, value, error):
        where = f"recv of worker {wait.worker} from {wait.source} in ({wait.scope})"
        if error is None:
            require(wait.complete and wait.box[0].value == value, f"{where} gave {value}", list(wait.box))
            wait.box.popleft()
        else:
            told = wait.hopeless or self.closed
            require(told or not wait.complete, f"{where}: {error}, though there is a message")
            self._justified(wait, [wait.source, wait.worker], error, where)

    def _found(self, wait, value, error):
        where = f"probe of worker {wait.worker} for {wait.sources} in ({wait.scope})"
        if error is None:
            require(wait.complete and wait.found == value, f"{where} gave {value}", wait.found)
        else:
            told = wait.hopeless or self.closed
            require(told or not wait.complete, f"{where}: {error}, though there is a message")
            gone = all(self.written[m] >= wait.scope for m in wait.missing())
            self._justified(wait, [wait.worker, *(wait.missing() if gone else ())], error, where)

    def _delivered(self, wait, error):
        where = f"send of worker {wait.worker} to {wait.receiver} in ({wait.scope})"
        if error is None:
            require(wait.complete, f"{where} returned, though nobody has asked for the message")
        else:
            told = wait.hopeless or self.closed
            require(told or not wait.complete, f"{where}: {error}, though the message was asked for")
            self._justified(wait, [wait.receiver, wait.worker], error, where)

    def _met(self, wait, worker, value, error):
        where = f"collective of {wait.members} in ({wait.scope}), on worker {worker}"
        wait.outcomes[worker] = error or "value"
        require(
            len({outcome == "value" for outcome in wait.outcomes.values()}) == 1,
            f"{where}: some returned and some raised",
            wait.outcomes,
        )
        if error is None:
            require(
                wait.complete and wait.alike,
                f"{where} returned, but {wait.missing()} did not come",
                wait.arrived,
            )
            ((op, _), *_) = wait.arrived.values()
            if op != "barrier":
                should = COMBINE[op]([number for _, number in wait.arrived.values()])
                require(value == should, f"{where} gave {value}, should be {should}")
        elif wait.complete and not wait.alike and not wait.hopeless:
            require(error == "PlaneMismatch", f"{where} raised {error}")
        else:
            require(
                not (wait.complete and not wait.hopeless), f"{where} raised {error} though all came", wait
            )
            self._justified(wait, wait.members, error, where)
            wait.hopeless = True

    def _justified(self, wait, needed, error, where):
        """An error has to have a reason: somebody cannot come, or a circle."""
        if error == "PlaneMismatch":
            require(wait.circled, f"{where}: {error} without a circle")
        elif error == "PlaneAborted":
            gone = wait.hopeless or self.closed or any(self.written[m] >= wait.scope for m in needed)
            # In a circle, because of one that has failed, and could have sent what some other looks for.
            gone |= wait.circled and any(left >= wait.scope for left in self.written)
            require(gone, f"{where}: {error} though everybody can come", self.written)
        else:
            require(False, f"{where}: raised {error}")

    # --- departures ------------------------------------------------------------------------------------

    def write(self, worker, scope):
        self.written[worker] = max(self.written[worker], scope)
        for waiting in [w for w, wait in self.waits.items() if isinstance(wait, Probing)]:
            self._mark(waiting)

    def leave(self, worker, scope):
        """From now on nobody may wait for `worker` in `scope`, nor it for anybody."""
        self.write(worker, scope)
        self.finished[worker] = self.written[worker]
        for wait in self.waits.values():
            parties = wait.arrived if isinstance(wait, Gathering) else [wait.worker]
            if wait.scope <= scope and not wait.complete and (worker in parties or self._is_lost(wait)):
                wait.hopeless = True
        self._empty(worker, scope)
        self._forget()

    def _is_lost(self, wait, left=None):
        """Whether who is missing has left."""
        gone = [(left or self.written)[m] >= wait.scope for m in wait.missing()]
        return bool(gone) and (all(gone) if isinstance(wait, Probing) else any(gone))

    def _empty(self, worker, scope):
        """What was sent to `worker` vanishes, but for a message that is in its hands already."""
        in_hands = getattr(self.waits.get(worker), "box", None)
        for (_, to, sent_in), box in self.boxes.items():
            if to == worker and sent_in <= scope:
                while len(box) > (box is in_hands):
                    box.pop()

    def close(self):
        """The plane was closed: who waits now, waits in vain."""
        self.closed = True
        for wait in self.waits.values():
            wait.hopeless |= not wait.complete

    def _forget(self):
        over = min(self.finished)
        if len(self.gatherings) > 50:
            self.gatherings = {k: g for k, g in self.gatherings.items() if g.scope > over}
            self.boxes = {k: b for k, b in self.boxes.items() if k[2] > over}

    # --- the invariant worth most ------------------------------------------------------------------------

    def sleep(self, worker, parked):
        require(parked.wait is not None, f"worker {worker} sleeps without having said what it waits for")
        self.resting[worker] = parked

    def _asleep(self):
        return {w: self.waits[w] for w, parked in self.resting.items() if not parked.is_called}

    def _note_releases(self):
        for worker, wait in self.waits.items():
            parked = self.resting.get(worker)
            if parked is not None and parked.is_called and not wait.complete:
                wait.hopeless = True

    def check(self, waiting):
        """Nobody sleeps for somebody who cannot come, and the plane knows exactly who sleeps."""
        if not self.resting and not waiting:
            return
        self._note_releases()
        asleep = self._asleep()
        require(set(waiting) == set(asleep), "asleep (on the board, really)", sorted(waiting), sorted(asleep))
        for worker, wait in asleep.items():
            where = f"worker {worker} sleeps for {wait.missing()} in ({wait.scope})"
            require(not self.closed, f"{where}, though the plane is closed")
            require(not wait.complete, f"{where}, though nobody is missing", wait)
            require(not wait.hopeless, f"{where}, though that is hopeless", wait)
            require(not self._is_lost(wait, self.finished), f"{where}, but they left it", self.finished)
            require(worker not in self._circle(worker, self.finished), f"{where}, in a circle")

    def abandon(self, worker):
        """The thread of `worker` was given up: whatever it was in is nobody's business any more."""
        self.waits.pop(worker, None)
        self.resting.pop(worker, None)
