"""What the controller waits for and gives up, and its urgent lane to the workers.

A wait is two events here, so that anything may happen in between: `_ask` mirrors the first half of
`Dispatch.ask` (numbers, expectation, sending), `_end_ask` its second half, and `forget` what it does when
time runs out. All else is called as it is.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from queue import SimpleQueue
from types import SimpleNamespace

from disco_magic.core.messages import Fetch, Lost, Sync
from disco_magic.errors import CellError, WorkerError, WorkerLost
from disco_magic.session.pump import SOON
from tests.simulation.controller_reference import CONSEQUENCES
from tests.simulation.controlling import Controlling
from tests.simulation.user_code import CELLS, script
from tests.simulation.worker_reference import Order, facts_of, key_of, require

MOST_WAITS = 4


# Which of the calls that do not fit together differs from most is not in the keys (tests/core/test_blame.py).
_SHARED = (*CONSEQUENCES, "PlaneMismatch")


def _settled(keys):
    """Keys of failures; those of one command that follow from others, or from each other, by worker."""
    runs = [list(run) for _, run in groupby(keys, key=itemgetter(1, 2))]
    return [key for run in runs for key in (sorted(run) if run[0][2] in _SHARED else run)]


class Waiting(Controlling):
    """Mixed into `World`; as `Controlling`."""

    # --- waiting -------------------------------------------------------------------------------------------

    def _ask(self, command, order):
        session = self.session

        def begin():
            seq, kills = session._ordinal(order.workers)
            session._pump.expect(seq, order.workers, inbox)
            session._send(command(seq, kills), order.workers)

        inbox = SimpleQueue()
        self._send(lambda: session._locked(begin), order)
        self.life.book.expect(order)
        self.life.waits.append(SimpleNamespace(order=order, inbox=inbox, pending=None, early=False))

    def sync(self):
        if len(self.life.waits) >= MOST_WAITS:
            return False
        _, chosen = self._chosen(0.5)
        order = Order("sync", workers=chosen)
        self._ask(lambda seq, kills: Sync(seq, kills, chosen), order)
        return None

    def fetch(self):
        if len(self.life.waits) >= MOST_WAITS or not self.life.refs:
            return False
        _, chosen = self._chosen(0.5)
        register = self.rng.choice(self.life.refs).register
        order = Order("fetch", workers=chosen, register=register)
        self._ask(lambda seq, kills: Fetch(seq, register, kills, chosen), order)
        return None

    def cell(self):
        if len(self.life.waits) >= MOST_WAITS:
            return False
        text = self.rng.choice(CELLS)
        workers, chosen = self._chosen()
        plans = script(self.rng, chosen) if self.rng.random() < self.talk else None
        order = Order("cell", workers=chosen, dest="new", text=text, plans=plans)
        pending = self._send(lambda: self.session.run_nowait(text.cell, workers=workers), order)
        self.life.book.expect(order)
        self.life.waits.append(
            SimpleNamespace(order=order, inbox=pending._verdict.inbox, pending=pending, early=False)
        )
        return None

    def wake_early(self):
        """Who is told that answers come soon finds none yet, and sleeps on: once per wait, see `pump.py`."""
        for wait in self.life.waits:
            items = [wait.inbox.get_nowait() for _ in range(wait.inbox.qsize())]
            for item in items:
                if item is not SOON:
                    wait.inbox.put(item)
                    continue
                require(not wait.early, f"{wait.order} is woken early twice", wait.early, False)
                require(wait.pending is None, "who waits for a cell is woken early", wait.order, None)
                wait.early = True
                self.note("wakes early", wait.order)

    def collect(self):
        """A wait ends, because everybody has answered or a worker is gone."""
        told = [wait for wait in self.life.waits if not wait.inbox.empty()]
        if not told:
            return False
        self._collect(self.rng.choice(told))
        return None

    def _collect(self, wait):
        life = self.life
        life.waits.remove(wait)
        items = [wait.inbox.get_nowait() for _ in range(wait.inbox.qsize())]
        for item in items:
            wait.inbox.put(item)
        item = items[0]  # a loss may be told before, and again after, the last answer
        awaited = life.book.answered.pop(wait.order.seq, None)
        if isinstance(item, Lost):
            require(life.book.lost is not None, "told of a loss that was none", item)
        else:
            require(awaited is not None, "told before everybody has answered", wait.order)
            replies = {w: facts_of(reply) for w, reply in item.replies.items()}
            require(replies == awaited.replies, "replies (are, should be)", replies, awaited.replies)
        self.note("collect a loss" if isinstance(item, Lost) else "collect", "controller", wait.order)
        if wait.pending is None:
            self._end_ask(wait, item)
        else:
            self._end_cell(wait, item)

    def _end_ask(self, wait, item):
        session, book = self.session, self.life.book
        if isinstance(item, Lost):
            session._locked(lambda: session._pump.forget(wait.order.seq))
            book.forget(wait.order.seq)
            return
        failures = [r.failure for r in item.replies.values() if getattr(r, "failure", None) is not None]
        should = book.raised([key_of(failure) for failure in failures])
        raised = []
        try:
            session.raise_failures(failures)
        except WorkerError as error:
            raised = [key_of(failure) for failure in error.failures.values()]
        self._compare_raised(raised, should)

    def _end_cell(self, wait, item):
        pending, book = wait.pending, self.life.book
        lost = isinstance(item, Lost)
        mine = [] if lost else [reply.failure for _, reply in sorted(item.replies.items()) if reply.failure]
        should = [] if lost else book.raised([key_of(failure) for failure in mine])
        self.life.refs.append(pending._verdict._values)
        raised, kind = [], None
        try:
            pending.wait()
        except WorkerError as error:
            raised, kind = [key_of(failure) for failure in error.failures.values()], type(error)
            error.__traceback__ = None  # this frame holds the handle, which holds the error
        except WorkerLost as error:
            kind = WorkerLost
            error.__traceback__ = None
        expected = WorkerLost if lost else (CellError if mine else WorkerError) if should else None
        require(kind is expected, "a cell's wait raises (is, should be)", kind, expected)
        self._compare_raised(raised, should)

    def _compare_raised(self, raised, should):
        # Of those that only follow from others of their command, which waited for which is not in the keys.
        require(_settled(raised) == _settled(should), "a wait raises (is, should be)", raised, should)
        if raised:
            self.note("raise", "controller", *raised)

    def forget(self):
        """A wait runs out of time."""
        late = [wait for wait in self.life.waits if wait.pending is None and wait.inbox.empty()]
        if not late:
            return False
        wait = self.rng.choice(late)
        self.note("forget", "controller", wait.order)
        self.life.waits.remove(wait)
        self.session._locked(lambda: self.session._pump.forget(wait.order.seq))
        self.life.book.forget(wait.order.seq)
        return None

    def orphan(self):
        """The handle of a cell is dropped, whether it has ended or not."""
        cells = [wait for wait in self.life.waits if wait.pending is not None]
        if not cells:
            return False
        wait = self.rng.choice(cells)
        self.note("orphan", "controller", wait.order)
        self.life.waits.remove(wait)
        self.life.book.orphans.append(wait.order.seq)
        wait.pending = None
        self.life.book.dropped.append(wait.order.dest)
        return None

    # --- the urgent lane -----------------------------------------------------------------------------------

    def _present(self):
        chosen = self._chosen(0.6)[1]
        return tuple(w for w in chosen if not self.life.crew[w].lost)

    def interrupt(self):
        workers, seq = self._present(), self.life.book.seq
        if not workers or not seq:
            return False
        through = seq if self.rng.random() < 0.4 else self.rng.randint(max(1, seq - 8), seq)
        self.clock.now += self.rng.choice((0.01, 0.35))
        self.note("interrupt", "controller", through, workers)
        self.session.interrupt_through(through, workers)
        return None

    def withdraw(self):
        """A cell is stopped alone; it may not have begun everywhere."""
        life = self.life
        waits = [wait for wait in life.waits if wait.pending is not None and wait.inbox.empty()]
        if not waits:
            return False
        wait = self.rng.choice(waits)
        workers = tuple(w for w in wait.order.workers if not life.crew[w].lost)
        self.clock.now += self.rng.choice((0.01, 0.35))
        life.book.excuse(wait.order.seq, self.unbegun(wait.order.seq, workers))
        self.session.withdraw(wait.order.seq, workers, wait.pending.label, self.session.life)
        return None

    def unbegun(self, seq, workers):
        return [w for w in workers if self.life.crew[w].begun < seq]

    def replace(self):
        workers = [w for w in self._present() if self.life.crew[w].marked]
        if not workers:
            return False
        self.session.replace_stuck(workers)
        return None

    def run_out_of_threads(self):
        """Stop what is executed and give it up, when no thread can be started."""
        self.life.launcher.no_threads = True
        try:
            return self.interrupt() is not False and self.replace()
        finally:
            self.life.launcher.no_threads = False

    def lose_somebody(self):
        crew = self.life.crew
        there = [
            w
            for w, thread in self.life.launcher.steppers.items()
            # An answer that it has not given yet would go with it.
            if thread.parked is None and thread.worker._answer is None and not crew[w].lost
        ]
        if not there:
            return False
        self.lose(self.rng.choice(there))
        return None
