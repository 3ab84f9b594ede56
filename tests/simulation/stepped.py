"""A worker's thread that does one step when it is told to.

`Serving.serve` and `Serving._execute` are one function call long: they take a command, call its function,
end it. Here the same lines are cut into steps, so that anything may happen between two of them. **They mirror
these two functions and nothing else**: what they call (`_rare`, `_release`, `_unclaim`, `_settle`,
`_complete`, `_has_read_all`, `_give_answer`, `fail`, `Worker.interrupt`, `Worker.abandon`, the lane and its
guard) is the real thing.
`test_mirror.py` sends the same commands both ways.

::

    IDLE -take-> CLAIM -claim-> RESOLVE -resolve-> LOOK -look-> BODY -call-> ENDED -end-> WRITE > TELL > IDLE
           |       an ordinary call                  |                                      |
           |-- fed to the interpreter: CLAIM -claim--'                                      |
           '-- nothing to execute ----------------------------------------------------------'
"""

from __future__ import annotations

import contextvars
from types import SimpleNamespace

from disco_magic.core.messages import full
from disco_magic.errors import WorkerInterrupt
from disco_magic.workers import serving
from disco_magic.workers.worker import Worker

NOTHING = serving.NOTHING
IDLE, CLAIM, RESOLVE, LOOK, BODY = "IDLE", "CLAIM", "RESOLVE", "LOOK", "BODY"
ENDED, WRITE, TELL, OVER = "ENDED", "WRITE", "TELL", "OVER"


class SteppedWorker(Worker):
    """A real worker whose `_execute` only notes what is to be executed."""

    begun = None

    def _execute(self, lane, command):
        self.begun = SimpleNamespace(
            command=command,
            function=self.interpreter.function,
            arguments=self.interpreter.arguments,
            rare=True,
        )
        return True


class SteppedThread:
    """One thread's hold on a worker, as `Serving.run` and `Serving.serve` have it.

    Attributes:
        phase: see the picture above.
        given_up: the worker has another thread now, or none.
        work: the command that is executed: message, function, arguments, and whether the interpreter fed it.
        value, error: how user code ended, in ENDED.
        parked: `Parked`, while the thread sleeps in a plane call.
        stuck: user code sits in C code and comes to nothing.
        plan, results: plane calls that user code still makes, and what those before gave.
    """

    def __init__(self, worker, lane, receive, ident):
        self.worker = worker
        self.lane = lane
        self.ident = lane.thread_id = ident
        self._receive = receive
        self._space = contextvars.copy_context()
        self.phase = IDLE
        self.given_up = False
        self.rest()
        worker.registers.kill(lane.left_over)  # as `run`
        self._registers = worker.registers  # as `serve`: a successor may have others

    def rest(self):
        self.seq = 0
        self.work = self.parked = self.error = None
        self.value = NOTHING
        self.stuck = False
        self.plan, self.results = [], []
        self.probes = False  # its plane call is one: what it finds is received next

    # --- the loop of `Serving.serve`, up to the call ---------------------------------------------------

    def take(self):
        command = self._receive(False)
        if type(command) is tuple:
            self.seq = command[0]
            self.work = SimpleNamespace(command=command, function=None, arguments=None, rare=False)
            self.phase = CLAIM
        else:
            self.seq = command.seq
            self._feed(command)

    def _feed(self, command):
        worker = self.worker
        worker.begun = None
        if not worker._rare(self.lane, command):
            self.phase = OVER
            worker.dispose()
            return
        self.work = worker.begun
        self.phase = WRITE if self.work is None else CLAIM

    def claim(self):
        self.lane.running.append(self.work.command)
        self.phase = LOOK if self.work.rare else RESOLVE

    def resolve(self):
        """Kills and operands of an ordinary call; one without a value makes it a case for the interpreter."""
        registers = self._registers
        values, poisons, kill = registers.values, registers.poisons, registers.kill
        _, _, function, arguments, refs, kills = self.work.command
        if kills:
            for register in kills:
                values.pop(register, None)
            if poisons:
                kill(kills)
        try:
            if type(function) is int:
                function = values[function]
            if refs:
                arguments = list(arguments)
                for position in refs:
                    arguments[position] = values[arguments[position]]
        except KeyError:
            if self.worker._unclaim(self.lane):
                self._feed(full(self.work.command))
            else:
                self.phase = OVER
            return
        self.work.function, self.work.arguments = function, arguments
        self.phase = LOOK

    def look(self):
        self.phase = BODY
        if self.work.rare:
            try:
                self.worker.withdrawals.begin(self.seq)
            except WorkerInterrupt as left_out:
                self.raised(left_out)
                return
        if self.seq <= self.worker.skip_through:
            self.raised(WorkerInterrupt("interrupted before it began"))

    def call(self):
        """What user code does after its last plane call: everything that has no wait in it."""
        try:
            self.value = self._space.run(self.work.function, *self.work.arguments)
        except BaseException as error:  # noqa: BLE001 - as `serve`
            self.raised(error)
        self.phase = ENDED

    def raised(self, error):
        self.error, self.phase = error, ENDED

    # --- after the call ------------------------------------------------------------------------------

    def end(self):
        """Take the command out of `running` and say how it ended."""
        worker, lane, work = self.worker, self.lane, self.work
        alive = True
        if self.error is not None:
            alive = worker._settle(lane, full(work.command), self.error, self.value)
        else:
            try:
                lane.running.pop()
            except IndexError as error:
                alive = worker._settle(lane, full(work.command), error, self.value)
            else:
                if work.rare:
                    if not worker.plane.mail[worker.id] or worker._has_read_all(work.command):
                        worker._complete(work.command, self.value)
                elif not worker.plane.mail[worker.id] or worker._has_read_all(full(work.command)):
                    self._registers.values[work.command[1]] = self.value
        self.phase = WRITE if alive else OVER

    def end_late(self):
        """An injection strikes after user code ended: it escapes from `serve`, and `run` ends the command."""
        command = self.lane.interrupted
        late = WorkerInterrupt("late")
        alive = command is None or self.worker._settle(self.lane, command, self.error or late, NOTHING)
        self.phase = IDLE if alive else OVER
        self.rest()

    def write(self):
        self.worker.plane.left[self.worker.id] = self.seq
        self.phase = TELL

    def tell(self):
        """As `serve`, and what `_sleep` begins with."""
        if self.worker.plane.waiting:
            self.worker.plane.leave(self.worker.id, self.seq)
        self.worker._give_answer()
        self.phase = IDLE
        self.rest()
