"""Harm: errors that a client provokes on workers, and the check that the right ones are raised."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import disco_magic as disco
from benchmarks.chaos_faults import LENGTH, PRIME, WAYS, Fault, Fragile, Litter, marked, own_array, summed
from benchmarks.chaos_load import Load, nothing, wrap
from disco_magic.errors import PlaneAborted, PlaneMismatch, UnknownName, UsageMistake
from disco_magic.functions.execution.cells import compile_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.functions.execution.cells import Cell
    from disco_magic.session.results import CellResult

    Acts = tuple[tuple[int, Callable[[], None]], ...]

# What a `Fault` does as a function, line by line; names with an underscore are not registers.
STRIKING = """\
_fault = faults[{number}]
_x = np.arange({length}, dtype=np.int64) + 31 * worker_id + {salt}
_fault.strike("before")
{pause}
_total = allreduce(_fault.operand(_x % {prime}), in_group=_fault.in_group)
_fault.strike("after")
_total % {prime}
"""
PAUSE = "import asyncio as _asyncio\nawait _asyncio.sleep(0)"

# {victim}: one worker of a session with two or more.
MISMATCHES = {
    "verb": "barrier(in_group=False) if worker_id == {victim} else allreduce(1, in_group=False)",
    "shape": "allreduce(np.zeros(2 + (worker_id == {victim})), in_group=False)",
    "dtype": "allreduce(np.zeros(2, 'f4' if worker_id == {victim} else 'f8'), in_group=False)",
    "op": "allreduce(1, op='max' if worker_id == {victim} else 'sum', in_group=False)",
    "root": "broadcast(1, root=int(worker_id == {victim}), in_group=False)",
}


class Harm(Load):
    """A client that also provokes faults; `calls_in_finalizers`: whether finalizers may call a session."""

    calls_in_finalizers = True

    def harm(self) -> None:
        """Perform one act that provokes a fault."""
        self.aim()
        acts = self.harms()
        (act,) = self.dice.choices([act for _, act in acts], [weight for weight, _ in acts])
        act()

    def harms(self) -> Acts:
        """Return the possible acts with their weights."""
        return (
            (20, self.strike_call),
            (20, self.strike_cell),
            (6, self.recursion),
            (8, self.mismatch),
            (8, self.leave),
            (4, self.unread),
            (4, self.circle),
            (12, self.fragile),
            (10, self.litter),
        )

    # --- parts of every provocation --------------------------------------------------------------------

    def arm(self, point: str = "", *, in_group: bool = True, **allowed: Any) -> Fault:
        """Arm a fault on one, some or all workers."""
        count = self.dice.choice((1, 1, self.dice.randint(1, self.target.workers), self.target.workers))
        victims = frozenset(self.dice.sample(self.everybody, count))
        way = self.dice.choice(list(WAYS))
        return self.target.arm(Fault(point, way, victims, in_group=in_group, **allowed), self.life)

    def cell_of(self, fault: Fault, source: str, **names: object) -> Cell:
        """Compile a cell whose label carries the fault's number."""
        code = source.format(number=fault.number, prime=PRIME, length=LENGTH, **names)
        return compile_cell(code, label=fault.disco_name)

    def provoked(self, kind: str, since: float) -> None:
        """Record that the error of a fault has arrived."""
        self.tally.fault(kind, time.monotonic() - since)

    def must_fail(
        self, kind: str, fault: Fault, source: str, certain: frozenset[int], **names: object
    ) -> None:
        """Run a cell that is certain to fail on some workers."""
        since = time.monotonic()
        cell = self.cell_of(fault, source, **names)
        _, error = self.attempt(kind, lambda: self.session.run(cell), cell=True)
        self.provoked(kind, since)
        self.check(kind, error, certain)

    def check(self, kind: str, error: BaseException | None, certain: frozenset[int]) -> CellResult | None:
        """Check that the cell failed where it had to; return the result that its error carries."""
        result: CellResult | None = getattr(error, "result", None)
        spared = certain.difference(() if result is None else result.errors)
        if spared and (error is None or isinstance(error, disco.WorkerError)):
            where = f"{kind} on {self.target.name}"
            self.tally.note_wrong(f"{where}: workers {sorted(spared)} must have failed, got {error}")
        return result

    # --- errors of user code ---------------------------------------------------------------------------

    def _striking(self) -> tuple[Fault, int, frozenset[int], Any]:
        """Return (fault, salt, workers certain to fail, expected values)."""
        point = self.dice.choice(("before", "inside", "after"))
        fault, salt = self.arm(point, in_group=self.dice.random() < 0.5), self.dice.randrange(PRIME)
        certain = fault.victims
        if point != "after":
            certain = self.target.beside(certain, in_group=fault.in_group)
        rows = np.stack([own_array(w, salt) for w in self.everybody])
        return fault, salt, certain, summed(rows, self.target.size(in_group=fault.in_group))

    def strike_call(self) -> None:
        """Call a function that raises before, in or after a collective, and another that needs its result."""
        fault, salt, certain, expected = self._striking()
        since = time.monotonic()
        ref, error = self.attempt("a failing call", lambda: self.session.call_packed(fault, salt))
        if error is None:
            dependent, error = self.attempt("call", lambda: self.session.call_packed(wrap, ref))
        if error is not None:
            return
        for number, worker in enumerate(self.dice.sample(self.everybody, min(3, self.target.workers))):
            what = f"call of fault {fault.number}"
            self.fetch(what, dependent, worker, expected[worker], must_fail=worker in certain)
            if number == 0 and worker in certain:
                self.provoked(f"error {fault.point} a collective", since)

    def strike_cell(self) -> None:
        """Do the same as a cell, sometimes one that awaits."""
        fault, salt, certain, expected = self._striking()
        pause = PAUSE if self.dice.random() < 0.3 else ""
        cell, kind = (
            self.cell_of(fault, STRIKING, salt=salt, pause=pause),
            f"error {fault.point} a collective",
        )
        since = time.monotonic()
        _, error = self.attempt(kind, lambda: self.session.run(cell), cell=True)
        self.provoked(kind, since)
        result = self.check(kind, error, certain)
        for worker in self.everybody:
            if result is not None and worker not in result.errors:
                value, error = self.attempt("a value beside a failure", lambda w=worker: result[w])  # type: ignore[misc]
                if error is None:
                    self.compare("a value beside a failure", value, expected[worker])

    def recursion(self) -> None:
        """Run a function that recurses without end."""
        fault = self.arm(allowed=dict.fromkeys(self.everybody, RecursionError))
        self.must_fail("recursion", fault, "def _f(): return _f()\n_f()", frozenset(self.everybody))

    # --- errors of communication -----------------------------------------------------------------------

    def mismatch(self) -> None:
        """Make one worker call another collective than the others."""
        if self.target.workers == 1:
            return
        fault = self.arm(allowed=dict.fromkeys(self.everybody, PlaneMismatch))
        source = MISMATCHES[self.dice.choice(list(MISMATCHES))]
        victim = self.dice.choice(self.everybody)
        self.must_fail("mismatch", fault, source, frozenset(self.everybody), victim=victim)

    def leave(self) -> None:
        """Make one worker skip a collective."""
        in_group, victim = self.dice.random() < 0.5, self.dice.choice(self.everybody)
        others = self.target.beside([victim], in_group=in_group) - {victim}
        fault = self.arm(allowed=dict.fromkeys(others, PlaneAborted))
        code = "if worker_id != {victim}: allreduce(1, in_group={in_group})"
        self.must_fail("worker that leaves", fault, code, others, victim=victim, in_group=in_group)

    def unread(self) -> None:
        """Send a message that is never received; its sender may detect that itself."""
        sender, victim = self.dice.choice(self.everybody), self.dice.choice(self.everybody)
        fault = self.arm(allowed={victim: PlaneMismatch})
        fault.allowed.setdefault(sender, PlaneAborted)
        code = "if worker_id == {sender}: send(1, {victim})\n"
        code += "barrier(in_group=False)"  # so that it arrives while the receiver can still be blamed
        self.must_fail("unread message", fault, code, frozenset([victim]), sender=sender, victim=victim)

    def circle(self) -> None:
        """Make every worker wait for a message from the next one."""
        fault = self.arm(allowed=dict.fromkeys(self.everybody, PlaneMismatch))
        code = "recv((worker_id + 1) % num_workers)"
        self.must_fail("circle", fault, code, frozenset(self.everybody))

    # --- objects that fail -----------------------------------------------------------------------------

    def fragile(self) -> None:
        """Use an object that fails when it is copied here or there, fetched, shown or dropped."""
        stage = self.dice.choice(("copy here", "copy there", "fetch", "show", "drop"))
        fault = self.arm()
        since = time.monotonic()
        if stage in ("copy here", "copy there"):
            self._copied(fault, stage)
        else:
            self._made_there(fault, stage)
        self.provoked(f"object: {stage}", since)

    def _copied(self, fault: Fault, stage: str) -> None:
        ref, error = self.attempt(
            "a fragile argument", lambda: self.session.call_packed(type, Fragile(fault, stage)), UsageMistake
        )
        if stage == "copy here":
            if error is None:
                self.tally.note_wrong(f"an object that cannot be copied was sent to {self.target.name}")
        elif error is None:
            for worker in self.dice.sample(self.everybody, min(2, self.target.workers)):
                self.fetch("a type", ref, worker, Fragile, must_fail=worker in fault.victims)

    def _made_there(self, fault: Fault, stage: str) -> None:
        kind = "copy there" if stage == "fetch" else stage
        ref, error = self.attempt("a factory", lambda: self.session.call_packed(lambda: Fragile(fault, kind)))
        if error is not None:
            return
        if stage == "fetch":
            worker = self.dice.choice(sorted(fault.victims))
            self.fetch("a fragile value", ref, worker, None, must_fail=True)
        elif stage == "show":
            name = self.new_name()
            _, error = self.attempt("bind", lambda: self.session.__setitem__(name, ref))
            # If the reference has no value, because of an interrupt, the name is not bound.
            fault.allowed = dict.fromkeys(self.everybody, NameError)
            if error is None:
                self.must_fail("object: show", fault, name, fault.victims)
                self.attempt("del", lambda: self.session.__delitem__(name), UnknownName)

    def litter(self) -> None:
        """Create cyclic garbage with references and a finalizer; any thread may collect it."""
        session, fault = self.session, self.arm()
        held = self.target.drop(self.dice) if len(self.target.pool) > 1 else None

        def call() -> None:
            try:
                session.call_packed(nothing)
            except disco.DiscoError:
                return  # the session was closed, or this thread is sending a command: an error, no deadlock

        def fail() -> None:
            raise marked(fault.way, fault.number, -1)

        acts: list[Callable[[], object]] = [lambda: [[] for _ in range(100)], fail]
        if self.calls_in_finalizers:
            acts.append(call)
        self.waste.put(Litter(held, self.dice.choice(acts)))
        self.tally.fault("garbage with a finalizer", 0.0)
