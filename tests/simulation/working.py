"""What happens on workers: a step of one of their threads, an event that arrives at the controller."""

from __future__ import annotations

from disco_magic.errors import WorkerInterrupt
from tests.simulation.stepped import CLAIM, IDLE, LOOK, OVER
from tests.simulation.talking import Talking
from tests.simulation.user_code import SCENE, Boom
from tests.simulation.worker_reference import cause_of, facts_of, require

FOREVER = 2**63


class Working(Talking):
    """Mixed into `World`."""

    # --- who can do something ----------------------------------------------------------------------------

    def threads(self, *, stuck=True):
        """Threads that can do a step now; without `stuck`, those in C code cannot."""
        launcher = self.life.launcher
        return [t for t in [*launcher.steppers.values(), *launcher.ghosts] if self._can_step(t, stuck)]

    def _can_step(self, thread, stuck):
        if thread.phase is OVER:
            return False
        if thread.phase is IDLE:
            return self.life.launcher.queued(thread.worker.id) > 0
        if thread.parked is not None:
            return not thread.parked.call.gate.locked()
        return stuck or not thread.stuck

    def step_thread(self, thread):
        """Let a thread do its next step."""
        w = thread.worker.id
        with self.clock.acting(thread.ident):
            self._steps[thread.phase](thread)
        launcher = self.life.launcher
        if thread.given_up:
            if thread.phase is OVER:
                launcher.ghosts.remove(thread)
            return
        left, crew = launcher.plane.left[w], self.life.crew[w]
        over = crew.order is None or crew.marked
        require(
            left <= crew.last - (not over), f"worker {w} has left ({left}) though it executes {crew.order}"
        )
        self.life.stage.write(w, left)

    # --- the phases of a thread ----------------------------------------------------------------------------

    def _take(self, thread):
        w = thread.worker.id
        thread.take()
        order = self.life.crew[w].take(thread.seq)
        self.note(f"take {order.kind}", w, order)
        if thread.work is None or thread.work.rare:
            self._resolved(thread, order)

    def _claim(self, thread):
        thread.claim()
        self.life.crew[thread.worker.id].claimed = True

    def _resolve(self, thread):
        order = None if thread.given_up else self.life.crew[thread.worker.id].order
        thread.resolve()
        if order is not None:
            self._resolved(thread, order)

    def _resolved(self, thread, order):
        """An order was understood: it is executed or not, as it should."""
        w, crew = thread.worker.id, self.life.crew[thread.worker.id]
        executes = crew.resolve()
        require(executes == (thread.phase in {CLAIM, LOOK}), f"worker {w}: {order}, {executes}", thread.phase)
        if executes:
            thread.plan = list((order.plans or {}).get(w, ()))
        if crew.inherited:
            self.note("inherit", w, order)

    def _look(self, thread):
        w = thread.worker.id
        skipped = self.life.crew[w].looks(thread.seq, rare=thread.work.rare)
        thread.look()
        require((thread.error is not None) == skipped, f"worker {w} skips ({thread.seq}): {thread.error}")
        if skipped:
            self.note("skip", w, thread.seq)

    def _body(self, thread):
        w, ident, fate = thread.worker.id, thread.ident, self.rng.random()
        if thread.parked is not None:
            self._resume(thread)
        elif thread.stuck:
            thread.stuck = False
            self.note("C code returns", w)
        elif ident in self.clock.pending:
            self._struck(thread, fate)
        elif fate < 0.02:
            self.note("user code raises", w, thread.seq)
            thread.raised(Boom("simulated"))
        elif fate < 0.03:
            self.note("user code goes into C", w, thread.seq)
            thread.stuck = True
        elif thread.plan:
            self._plane_call(thread, thread.plan.pop(0))
        else:
            self._call(thread)

    def _struck(self, thread, fate):
        w = thread.worker.id
        if fate < 0.2:
            self.note("user code is in C as it is interrupted", w)
            thread.stuck = True
            return
        self.clock.pending.discard(thread.ident)
        if fate < 0.4:
            self.note("user code swallows an interrupt", w)
        else:
            self.note("interrupt strikes", w)
            thread.raised(WorkerInterrupt())

    def _call(self, thread):
        """User code without a wait in it, in one go."""
        w = thread.worker.id
        SCENE.worker, SCENE.seq, SCENE.results = w, thread.seq, tuple(thread.results)
        if thread.given_up:
            self.note("a ghost goes on", w)
            if hasattr(thread.work.command, "cell"):  # it is inside of its own runner, which this is not
                thread.raised(Boom("ghost"))
            else:
                thread.call()
            return
        crew = self.life.crew[w]
        value, error = crew.expected(thread.results)
        cell = crew.order.kind == "cell"
        if cell and error is None and self.life.stage.unread(w, thread.seq):
            error = "PlaneMismatch"
        thread.call()
        raised = None if thread.error is None else type(thread.error).__name__
        require(raised == error, f"worker {w}: ({thread.seq}) raises (is, should be)", thread.error, error)
        if error is None:
            returned = thread.value.value if cell else thread.value
            require(returned == value, f"worker {w}: ({thread.seq}) returns (is, should be)", returned, value)
        thread.expected = value
        self.note("returns" if error is None else f"raises {error}", w, thread.seq)

    def _end(self, thread):
        w, seq, ident = thread.worker.id, thread.seq, thread.ident
        error = None if thread.error is None else type(thread.error).__name__
        ordinary = not thread.work.rare
        if thread.given_up:
            thread.end()
            require(thread.phase is OVER, f"the ghost of worker {w} goes on")
            self.note("a ghost ends", w)
            return
        life, crew = self.life, self.life.crew[w]
        if error is None and not crew.marked and life.stage.unread(w, seq):
            error = "PlaneMismatch"
        if ident in self.clock.pending and self.rng.random() < 0.4:
            self.note("interrupt strikes late", w, seq)
            self.clock.pending.discard(ident)
            thread.end_late()
        else:
            thread.end()
        key = crew.end(getattr(thread, "expected", None), error)
        if key is not None or not ordinary:
            life.stage.leave(w, seq)
        self.note("ends well" if key is None else f"fails with {key[2]}", w, key or seq)

    def _write(self, thread):
        thread.write()

    def _tell(self, thread):
        seq = thread.seq
        thread.tell()
        self.life.stage.leave(thread.worker.id, seq)

    @property
    def _steps(self):
        return {
            "IDLE": self._take,
            "CLAIM": self._claim,
            "RESOLVE": self._resolve,
            "LOOK": self._look,
            "BODY": self._body,
            "ENDED": self._end,
            "WRITE": self._write,
            "TELL": self._tell,
        }

    # --- events --------------------------------------------------------------------------------------------

    def mail(self):
        """Workers whose next event can arrive."""
        return [w for w, box in enumerate(self.life.launcher.outboxes) if box]

    def deliver(self, w):
        """The next event of a worker arrives."""
        life = self.life
        event = life.launcher.outboxes[w].popleft()
        facts = facts_of(event)
        require(life.crew[w].said, f"worker {w} says what nobody expects", facts)
        should = life.crew[w].said.popleft()
        require(facts == should, f"worker {w} says (is, should be)", facts, should)
        self.note(f"hear {facts[0]}", w, facts[1:])
        life.launcher.hear(event)
        self.wake_early()
        if facts[0] == "Lost":
            if life.book.lost is None:
                life.book.lost = w
        else:
            failure = getattr(event, "failure", None)
            life.book.hear(w, facts, failure and cause_of(failure))

    # --- the urgent lane -----------------------------------------------------------------------------------

    def interrupting(self, through, workers):
        """An interrupt is about to come; who it finds executing."""
        found = []
        for w in workers:
            crew = self.life.crew[w]
            before = crew.marked
            if crew.interrupt(through):
                found.append(w)
            if crew.marked and not before:
                self.note("interrupt finds", w, crew.order)
                self.life.stage.leave(w, crew.order.seq)
            else:
                self.note("interrupt passes", w, through)
        return found

    def withdrawing(self, seq, workers):
        """A cell is about to be withdrawn; who has not begun it."""
        unbegun = []
        for w in workers:
            crew = self.life.crew[w]
            before = crew.marked
            left_out, ends = crew.withdraw(seq)
            if left_out:
                unbegun.append(w)
                self.note("withdraw", w, seq)
            if ends and not before:
                self.note("withdraw finds", w, crew.order)
                self.life.stage.leave(w, crew.order.seq)
        return unbegun

    def replacing(self, workers):
        """Threads are about to be given up; whose."""
        life, found = self.life, []
        for w in workers:
            crew = life.crew[w]
            if crew.lost or not crew.marked:
                continue
            crew.end(None, "WorkerInterrupt")
            life.stage.abandon(w)
            self.note("replace", w)
            if life.launcher.no_threads:
                self.note("no thread can be started", w)
                self._lose(w)
            else:
                found.append(w)
        return found

    def _lose(self, w):
        crew = self.life.crew[w]
        crew.lost = True
        crew.say("Lost", self.life.nothing)
        self.life.stage.leave(w, FOREVER)

    def lose(self, w):
        """The loop of a worker fails."""
        self.note("lose", w)
        self.life.launcher.lose(w)
        self._lose(w)
        crew = self.life.crew[w]
        crew.values, crew.poisons, crew.names, crew.order = {}, {}, {}, None
        require(self.life.plane_closed, f"worker {w} is gone, and the plane goes on")
