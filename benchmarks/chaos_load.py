"""Load: what clients ask of sessions when nothing harms them."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np

import disco_magic as disco
from benchmarks.chaos_client import Client
from benchmarks.chaos_faults import BIG, LENGTH, PRIME, Array, begin, own_array, summed
from benchmarks.chaos_target import POOL, Held
from disco_magic.errors import UnknownName

if TYPE_CHECKING:
    from collections.abc import Callable

FEW = 12  # references that a session's pool should have at least


def mix(x: Array, y: Array, factor: int) -> Array:
    """Combine two operands and a number."""
    return (x * factor + y) % PRIME


def wrap(x: Array) -> Array:
    """Reduce modulo the prime."""
    return x % PRIME


def ring(x: Array) -> Array:
    """Send `x` to the next worker and receive the previous one's."""
    me = disco.worker()
    me.send(x, (me.id + 1) % me.num_workers)
    got: Array = me.recv((me.id - 1) % me.num_workers)
    return got


def nothing() -> None:
    """Do nothing; called by bursts."""


class Load(Client):
    """Acts that succeed unless another client does harm."""

    def act(self) -> None:
        """Perform one act that should succeed."""
        self.aim()
        acts: tuple[tuple[int, Callable[[], None]], ...] = (
            (10, self.begin),
            (20, self.call),
            (6, self.chain),
            (4, self.burst),
            (10, self.allreduce),
            (6, self.alltoall),
            (6, self.broadcast),
            (6, self.ring),
            (12, self.look),
            (4, self.copy),
            (3, self.scatter),
            (2, self.replace_value),
            (4, self.some_workers),
            (8, self.cell),
            (4, self.cell_nowait),
            (1, self.orphan),
            (4, self.name),
            (3, self.pictures),
            (2, self.sync),
            (1, self.collect),
        )
        (act,) = self.dice.choices([act for _, act in acts], [weight for weight, _ in acts])
        few = len(self.target.pool) < FEW
        (self.begin if few else act)()
        while len(self.target.pool) > POOL or (len(self.target.pool) > FEW and self.dice.random() < 0.5):
            self.throw_away(self.target.drop(self.dice))

    # --- arrays ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make a new array; rarely a big one."""
        salt, length = self.dice.randrange(PRIME), BIG if self.dice.random() < 0.02 else LENGTH
        expected = np.stack([own_array(w, salt, length) for w in self.everybody])
        self.held("begin", expected, lambda: self.session.call_packed(begin, salt, length))

    def call(self) -> None:
        """Call with registers and a number as operands."""
        x, y, factor = self.one(), self.one(), self.dice.randrange(PRIME)
        if x is None or y is None or x.expected.shape != y.expected.shape:
            return
        expected = (x.expected * factor + y.expected) % PRIME
        self.held(
            "call", expected, lambda: self.session.call_packed(mix, x.ref, y.ref, factor), x.failed | y.failed
        )

    def chain(self) -> None:
        """Make calls that each need the one before, and read the last one's result."""
        held = self.one()
        for _ in range(self.dice.randrange(2, 12)):
            if held is None:
                return
            before, factor = held, self.dice.randrange(PRIME)
            expected = (before.expected * factor + before.expected) % PRIME
            held = self._mixed(before, factor, expected)
        self.look(held)

    def _mixed(self, x: Held, factor: int, expected: Array) -> Held | None:
        make = lambda: self.session.call_packed(mix, x.ref, x.ref, factor)  # noqa: E731 - next to what it must give
        return self.held("chain", expected, make, x.failed)

    def burst(self) -> None:
        """Make many calls, whose results are dropped at once, later, or in another thread."""
        kept = []
        for _ in range(self.dice.randrange(100)):
            ref, error = self.attempt("burst", lambda: self.session.call_packed(nothing))
            if error is not None:
                return
            if self.dice.random() < 0.2:
                kept.append(ref)
        self.throw_away(kept)

    def allreduce(self) -> None:
        """Sum inside the groups or over all workers."""
        x, in_group = self.one(), self.dice.random() < 0.5
        if x is None:
            return
        expected = summed(x.expected, self.target.size(in_group=in_group))
        session, failed = self.session, self.target.beside(x.failed, in_group=in_group)
        make = lambda: session.call_packed(wrap, session.allreduce(x.ref, in_group=in_group))  # noqa: E731
        self.held("allreduce", expected, make, failed)

    def alltoall(self) -> None:
        """Exchange parts inside the groups or between all workers."""
        x, in_group = self.one(), self.dice.random() < 0.5
        if x is None:
            return
        size, length = self.target.size(in_group=in_group), x.expected.shape[1]
        parts = x.expected.reshape(-1, size, size, length // size)
        expected = parts.swapaxes(1, 2).reshape(self.target.workers, length)
        make = lambda: self.session.alltoall(x.ref, in_group=in_group)  # noqa: E731 - next to what it must give
        self.held("alltoall", expected, make, self.target.beside(x.failed, in_group=in_group))

    def broadcast(self) -> None:
        """Copy the first worker's array to its group or to all."""
        x, in_group = self.whole(), self.dice.random() < 0.5
        if x is None:
            return
        size = self.target.size(in_group=in_group)
        expected = np.repeat(x.expected[::size], size, axis=0)
        self.held(
            "broadcast", expected, lambda: self.session.broadcast_from_worker0(x.ref, in_group=in_group)
        )

    def ring(self) -> None:
        """Send a message from every worker to the next one."""
        x = self.whole()
        if x is not None:
            expected = np.roll(x.expected, 1, axis=0)
            self.held("ring", expected, lambda: self.session.call_packed(ring, x.ref))

    def look(self, held: Held | None = None) -> None:
        """Fetch from one worker or all, and compare."""
        held = held or self.one()
        if held is None:
            return
        worker = self.dice.choice(self.everybody)
        what = f"register #{held.ref.register}"
        if self.dice.random() < 0.3:
            values, error = self.attempt(f"get_all of {what}", held.ref.get_all)
            if error is None and held.failed:
                self.tally.note_wrong(f"{what} on {self.target.name}: has values, must fail on {held.failed}")
            elif error is None:
                self.compare(what, values, held.expected)
        elif not self.fetch(what, held.ref, worker, held.expected[worker], must_fail=worker in held.failed):
            self.throw_away(self.target.drop(self.dice, held))

    def copy(self) -> None:
        """Copy a host array to worker 0, from there to all workers, and back."""
        host = own_array(0, self.dice.randrange(PRIME))
        there, error = self.attempt("copy_to_worker_0", lambda: self.session.copy_to_worker_0(host))
        if error is not None:
            return
        expected = np.tile(host, (self.target.workers, 1))
        self.held("broadcast", expected, lambda: self.session.broadcast_from_worker0(there, in_group=False))
        host, wanted = np.zeros_like(host), host
        _, error = self.attempt("copy_from_worker_0", lambda: self.session.copy_from_worker_0(host, there))
        if error is None:
            self.compare("copy_from_worker_0", host, wanted)

    def scatter(self) -> None:
        """Scatter a row to every worker, and gather all of them on worker 0."""
        rows = np.stack([own_array(w, self.dice.randrange(PRIME)) for w in self.everybody])
        held = self.held("scatter", rows, lambda: self.session.scatter(rows, in_group=False))
        if held is None:
            return
        whole, error = self.attempt(
            "gather", lambda: self.session.gather_to_worker0(held.ref, in_group=False)
        )
        if error is None:
            self.fetch("gather", whole, 0, rows.ravel())

    def replace_value(self) -> None:
        """Set a register on one worker, and read it back."""
        worker, number = self.dice.choice(self.everybody), self.dice.randrange(PRIME)
        ref, error = self.attempt("begin", lambda: self.session.call_packed(begin, 1))
        if error is None:
            _, error = self.attempt("set", lambda: ref.set(worker, number))
        if error is None:
            self.fetch("a value that was set", ref, worker, number)

    def some_workers(self) -> None:
        """Make a call on only some workers."""
        chosen = self.dice.sample(self.everybody, self.dice.randrange(1, self.target.workers + 1))
        salt = self.dice.randrange(PRIME)
        ref, error = self.attempt("call", lambda: self.session.call_packed(begin, salt, workers=chosen))
        if error is None:
            self.fetch("a call to some", ref, chosen[0], own_array(chosen[0], salt))

    # --- cells and names -------------------------------------------------------------------------------

    def cell(self) -> None:
        """Run a cell that binds a name, then read its result and the name."""
        number, name, n = self.dice.randrange(PRIME), self.register, self.target.workers
        wait = "import asyncio as _asyncio\nawait _asyncio.sleep(0)\n" if self.dice.random() < 0.3 else ""
        code = f"{wait}{name} = allreduce(worker_id + {number}, in_group=False)\n{name} + worker_id"
        total = n * number + n * (n - 1) // 2
        result, error = self.attempt("cell", lambda: self.session.run(code), cell=True)
        if error is not None:
            return
        values, error = self.attempt("values of a cell", lambda: result.values)
        if error is None:
            self.compare("values of a cell", values, [total + w for w in self.everybody])
        ref, error = self.attempt("name", lambda: self.session[name])
        if error is None:
            worker = self.dice.choice(self.everybody)
            self.fetch("a named register", ref, worker, total)
            self.attempt("del", lambda: self.session.__delitem__(name))

    def cell_nowait(self) -> None:
        """Run a cell while other commands are sent."""
        number = self.dice.randrange(PRIME)
        pending, error = self.attempt("run_nowait", lambda: self.session.run_nowait(f"worker_id + {number}"))
        if error is not None:
            return
        for _ in range(self.dice.randrange(3)):
            self.call()
        result, error = self.attempt("wait", pending.wait, cell=True)
        if error is None:
            values, error = self.attempt("values of a cell", lambda: result.values)
        if error is None:
            self.compare("values of a cell", values, [number + w for w in self.everybody])

    def orphan(self) -> None:
        """Drop a cell's handle while the cell runs."""
        self.attempt("run_nowait", lambda: self.session.run_nowait("allreduce(1)"))

    def name(self) -> None:
        """Bind a name to a reference, and read it by that name."""
        held, name = self.whole(), self.new_name()
        if held is None:
            return
        _, error = self.attempt("bind", lambda: self.session.__setitem__(name, held.ref))
        if error is None:
            ref, error = self.attempt("name", lambda: self.session[name], UnknownName)
        if error is None:
            worker = self.dice.choice(self.everybody)
            self.fetch("a name that was bound", ref, worker, held.expected[worker])
            # Unknown if the reference had no value on any worker.
            self.attempt("del", lambda: self.session.__delitem__(name), UnknownName)

    # --- looks and waits -------------------------------------------------------------------------------

    def pictures(self) -> None:
        """Make the tables and numbers that wait for no worker."""
        session, held = self.session, self.one()
        self.attempt("registers", lambda: str(session.registers(numbered=True)))
        self.attempt("stats", lambda: str(session.stats()))
        self.attempt("doctor", lambda: str(session.doctor()))
        self.attempt("names", lambda: (session.names(), repr(session), list(session)))
        if held is not None:
            self.attempt("info", lambda: str(held.ref.info()))

    def sync(self) -> None:
        """Wait for all workers, or for one."""
        worker = self.dice.choice(self.everybody)
        self.attempt("sync_all", self.session.sync_all)
        self.attempt("sync_worker", lambda: self.session.sync_worker(worker))
        self.attempt("flush", self.session.flush)

    def collect(self) -> None:
        """Collect garbage here, so that its finalizers run in this thread."""
        gc.collect(self.dice.randrange(3))
