"""Machines that are broken on purpose: each has one mistake that the simulation has to notice."""

from __future__ import annotations

from disco_magic.core.interpreter import Interpreter
from disco_magic.core.known_names import KnownNames
from disco_magic.core.ledger import Ledger
from disco_magic.core.registers import Poison, RegisterFile
from disco_magic.errors import Failure
from disco_magic.planes.board import Board
from disco_magic.planes.mailbox import Mailbox
from disco_magic.planes.rendezvous import Rendezvous
from tests.simulation.stepped import SteppedWorker

# --- the controller --------------------------------------------------------------------------------


class ReusesLivingIds(Ledger):
    """Hands out an id again although its reference lives and its kill was never issued."""

    def new_register(self):
        return self._highest if self._highest > 3 else super().new_register()


class ReusesFirstFreed(Ledger):
    def new_register(self):
        return self._free.pop(0) if self._free else super().new_register()


class RepeatsNumbers(Ledger):
    def issue(self):
        return self.seq if self.seq and self.seq % 7 == 0 else super().issue()


class AnswersTooEarly(Ledger):
    """Takes the first reply for all of them."""

    def feed(self, event):
        awaited = self._expected.get(event.seq)
        if awaited is not None:
            awaited.missing.intersection_update({event.worker})
        return super().feed(event)


class NeverAnswers(Ledger):
    """Forgets that a worker has replied, if it was the last one to do so."""

    def feed(self, event):
        awaited = self._expected.get(event.seq)
        return None if awaited is not None and len(awaited.missing) == 1 else super().feed(event)


class KeepsLastFailure(Ledger):
    def _keep(self, event):
        if getattr(event, "failure", None) is not None:
            self._failures.pop(event.worker, None)
        super()._keep(event)


class RaisesInOrderOfArrival(Ledger):
    """Says what only follows from another failure before that one."""

    def take_failures(self, further=()):
        waiting = {failure.worker: failure for failure in reversed([*further, *self._failures.values()])}
        self._failures.clear()
        return waiting, []


class RaisesTwice(Ledger):
    def take_failures(self, further=()):
        kept = dict(self._failures)
        taken = super().take_failures(further)
        self._failures.update(kept)
        return taken


class _ForgetfulNames(KnownNames):
    def _rename(self, change):
        super()._rename(change)
        self._renamed.clear()


class ForgetsRenaming(Ledger):
    """A cell that was sent before a binding takes it back."""

    def __init__(self, num_workers):
        super().__init__(num_workers)
        self.names = _ForgetfulNames(num_workers, lambda: [*self._expected, *self._forgotten])


class TakesAllForBound(Ledger):
    """Does not hear that a worker has nothing to bind to a name."""

    def feed(self, event):
        return None if type(event).__name__ == "NotBound" else super().feed(event)


class ForgetsBinding(Ledger):
    """Takes a name away that a later command has bound."""

    def feed(self, event):
        if type(event).__name__ == "NotBound":
            self.names._bound[event.worker][event.name] = event.seq
        return super().feed(event)


class HearsTwice(Ledger):
    """Takes what a worker says late of a cell that it was excused from."""

    def excuse(self, replies):
        done = super().excuse(replies)
        self._excused.clear()
        return done


class ForgetsLoss(Ledger):
    """The second loss is told as the first."""

    def feed(self, event):
        done = super().feed(event)
        self.lost = None
        return done


# --- workers ---------------------------------------------------------------------------------------


class ReplacesOrigin(Interpreter):
    """Makes a failure of its own of an inherited one."""

    def _inherit(self, command, register, dest):
        poison = self.registers.poisons.get(register)
        if poison is not None:
            exception = poison.failure.exception
            mine = Failure(self.worker, command.seq, self.describe(command), exception, "")
            self.registers.poisons[register] = Poison(mine, reported=poison.reported)
        return super()._inherit(command, register, dest)


class ReportsTwice(Interpreter):
    def _inherit(self, command, register, dest):
        poison = self.registers.poisons.get(register)
        if poison is not None:
            poison.reported = False
        return super()._inherit(command, register, dest)


class SkipsFirstEvent(Interpreter):
    """Says nothing where an operand is undefined."""

    def _inherit(self, command, register, dest):
        step = super()._inherit(command, register, dest)
        self._inherited = (), self._inherited[1]
        return step


class BindsPoison(Interpreter):
    """Takes a name away where its new value is poisoned."""

    def _store_name(self, command):
        if command.register not in self._values:
            self.registers.names.pop(command.name, None)
        return super()._store_name(command)


class KeepsKilledPoison(RegisterFile):
    def kill(self, registers):
        for register in registers:
            self.values.pop(register, None)


class KeepsKilledValues(RegisterFile):
    """Forgets the last one of the registers it kills."""

    def kill(self, registers):
        super().kill(list(registers)[:-1])


class LetsGhostsSpeak(SteppedWorker):
    """What a thread still does that was given up reaches the worker."""

    def abandon(self):
        abandoned = self.lane
        successor = super().abandon()
        abandoned.abandoned = False
        return successor


class InterruptsInSilence(SteppedWorker):
    """An interrupt that does not tell the plane."""

    def strike(self, *, is_hit=False):
        leave, self.plane.leave = self.plane.leave, lambda *_: None
        try:
            return super().strike(is_hit=is_hit)
        finally:
            self.plane.leave = leave


class NeverSkips(SteppedWorker):
    """Begins what it was told to skip."""

    @property
    def skip_through(self):
        return 0

    @skip_through.setter
    def skip_through(self, _):
        pass


class NeverLeavesOut(SteppedWorker):
    """Begins what was withdrawn."""

    def claim_cell(self, seq):
        found = super().claim_cell(seq)
        self.withdrawals._withdrawn.clear()
        return found


class LosesMail(SteppedWorker):
    """Does not notice messages that nobody has received."""

    def _check_mail(self, command):
        pass


# --- the plane -------------------------------------------------------------------------------------


class ForgetsDepartures(Board):
    def leave(self, worker, scope, failure):
        self.left[worker] = max(self.left[worker], scope)


class ParksBlindly(Board):
    """Does not look who has left already."""

    def park(self, worker, wait):
        left, self.left = self.left, [-1] * len(self.left)
        try:
            super().park(worker, wait)
        finally:
            self.left = left


class SeesNoCircles(Board):
    def _break_circle(self, worker):
        pass


class SeesOnlyCircles(Board):
    """Does not see that one cannot go on who waits for any of several."""

    def _break_circle(self, worker):
        probing = {w for w, wait in self.waiting.items() if wait.any_suffices}
        waiting, self.waiting = self.waiting, {w: t for w, t in self.waiting.items() if w not in probing}
        try:
            super()._break_circle(worker)
        finally:
            waiting_now, self.waiting = self.waiting, waiting
            for gone in set(waiting) - probing - set(waiting_now):
                del waiting[gone]


class TakesAnyForAll(Board):
    """Gives up who waits for any of several as soon as one of them has left."""

    def lost(self, wait):
        return next((w for w in wait.missing() if self.left[w] >= wait.scope), None)


class LooksNotAgain(Board):
    """Does not look whether those that are left can go on."""

    def _break_probes(self):
        pass


class AbortsLater(Board):
    """Refuses new calls, and leaves those that wait alone."""

    def abort(self, through, reason):
        self.ended, self._reason = max(self.ended, through), reason


class WakesOnlyOne(Board):
    def wake(self, wait, resting=()):
        for worker, gate in wait.gates()[:1]:
            if self.waiting.get(worker) is wait:
                del self.waiting[worker]
                gate.release()


class PassesNothingOn(Board):
    def pass_on(self, wait):
        pass


class ForgetsVerdicts(Rendezvous):
    """A member that comes late finds nothing of the meeting that has failed."""

    def _arrive(self, call):
        for key in [key for key, meeting in self._meetings.items() if meeting.verdict is not None]:
            del self._meetings[key]
        return super()._arrive(call)


class TakesNewestMessage(Mailbox):
    def take(self, call, source):
        box = self.boxes[call.worker].get((source, call.seat.scope, call.seat.tag))
        if box:
            box.rotate(1)
        return super().take(call, source)


class FindsNewestMessage(Mailbox):
    def probe(self, call, sources):
        boxes = self.boxes[call.worker]
        for key in [(source, call.seat.scope, call.seat.tag) for source in sources]:
            if key in boxes and len([k for k in boxes if k[1:] == key[1:]]) > 1:
                boxes[key][0].sent.number *= -1
        return super().probe(call, sources)


class LetsReceiversSleep(Mailbox):
    """Puts every message into the box, also one that somebody waits for."""

    def post(self, message):
        waiting, self._board.waiting = self._board.waiting, {}
        try:
            super().post(message)
        finally:
            self._board.waiting = waiting


class LetsSendersSleep(Mailbox):
    """Takes a message without waking who waits for that."""

    def _receive(self, message, call):
        message.sent.taken = message.sent.taken or call


class WaitsForNoReceiver(Mailbox):
    """Lets who sends go on at once."""

    def deliver(self, call, sent):
        pass
