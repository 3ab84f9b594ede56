"""Plane calls of user code: `WorkerContext` and the plane, cut where the thread would sleep."""

from __future__ import annotations

from disco_magic.core.seat import Seat
from disco_magic.errors import PlaneError, UsageMistake, WorkerInterrupt
from disco_magic.planes import mail
from tests.simulation.clockwork import Parked
from tests.simulation.user_code import Meet, Probe, Recv, Send, fold
from tests.simulation.worker_reference import require


class Talking:
    """Mixed into `World`."""

    # --- plane calls ---------------------------------------------------------------------------------------

    def _plane_call(self, thread, op):
        """What `WorkerContext` does around a plane call, cut where the thread would sleep."""
        worker, w, stage = thread.worker, thread.worker.id, self.life.stage
        marked = thread.given_up or self.life.crew[w].marked
        try:
            scope, present = worker.guard.enter()
        except (WorkerInterrupt, UsageMistake) as refused:
            require(marked, f"worker {w} may not call the plane: {refused}")
            self.note("a plane call is refused", w)
            self._react(thread, refused)
            return
        require(not marked, f"worker {w}: a plane call of an interrupted command begins")
        mine = fold(w, [scope, len(thread.results)]) % 1000
        if isinstance(op, Meet):
            stage.arrive(w, scope, op.members, op.op, mine)
        elif isinstance(op, Probe):
            thread.probes = True
            stage.probe(w, scope, tuple(op.sources))
        elif not isinstance(op, Send):
            stage.receive(w, scope, op.source)
        value = error = None
        seat = Seat(w, op.members if isinstance(op, Meet) else (w,), scope, present)
        self.note(type(op).__name__, w, op, scope)
        try:
            value = self._carry_out(worker.plane, seat, op, mine)
        except Parked as parked:
            thread.parked = parked
            stage.sleep(w, parked)
            self.note("parks", w, scope)
            return
        except PlaneError as refused:
            error = refused
        self._back(thread, op, mine if isinstance(op, Send) else value, error)

    def _carry_out(self, plane, seat, op, mine):
        if isinstance(op, Send):
            sent = plane.send(seat, mine, op.to)
            if op.waits:
                stage = self.life.stage
                stage.post(seat.worker, seat.scope, op.to, mine, None)
                stage.deliver(seat.worker, seat.scope, op.to)
                plane.deliver(seat, sent)
        elif isinstance(op, Probe):
            return plane.probe(seat, op.sources)
        elif not isinstance(op, Meet):
            return int(plane.recv(seat, op.source, None))
        elif op.op == "barrier":
            plane.barrier(seat)
        else:
            return int(plane.allreduce(seat, mine, op.op, None))
        return None

    def _resume(self, thread):
        """The rest of `Rendezvous.join`, `Mailbox.take` and `Mailbox.deliver`, after their sleep."""
        parked, thread.parked = thread.parked, None
        wait, call = parked.wait, parked.call
        require(call.gate.acquire(blocking=False), "woken, but the gate is closed")
        thread.worker.plane._board.pass_on(wait)
        value = error = None
        if wait.verdict is not None and not (isinstance(wait, mail.Receive | mail.Probe) and wait.complete):
            call.array = call.out = None
            error = wait.verdict.error()
        elif isinstance(wait, mail.Receive):
            value = int(wait.message.array)
        elif isinstance(wait, mail.Probe):
            value = wait.source
        elif isinstance(wait, mail.Delivery):
            pass
        elif wait.plan is not None and wait.plan.result(call.seat.rank) is not None:
            value = int(wait.plan.result(call.seat.rank))
        self.note("wakes", thread.worker.id, error or value)
        self._back(thread, None, value, error)

    def _back(self, thread, op, value, error):
        w = thread.worker.id
        probed, thread.probes = thread.probes, False
        name = None if error is None else type(error).__name__
        if not thread.given_up:
            if isinstance(op, Send) and w not in self.life.stage.waits:
                self.life.stage.post(w, thread.seq, op.to, value, name)
            else:
                self.life.stage.came_back(w, value, name)
        if error is not None:
            self.note(f"plane call raises {name}", w, thread.seq)
        try:
            thread.worker.guard.leave()
        except WorkerInterrupt as struck:
            error = struck
        if error is not None:
            self._react(thread, error)
        elif probed:
            thread.plan.insert(0, Recv(value))
        elif value is not None and not isinstance(op, Send):
            thread.results.append(value)

    def _react(self, thread, error):
        if self.rng.random() < 0.2:
            self.note("user code goes on after an error", thread.worker.id)
        else:
            thread.raised(error)
