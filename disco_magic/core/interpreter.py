"""The worker machine: commands in, things to execute and events to send out. No thread, no clock, no I/O.

::

    command --> feed --> None      nothing to execute (a kill, a name bound)
                     --> EXECUTE   call `function` with `arguments`, then send the event that `finish` returns
                     --> SKIP      an operand is poisoned; send `events`, tell the plane why
                     --> event     send it
                     --> STOP      end of the worker
    an exception while executing  --> fail(command, failure) --> the event to send

One command at a time, in arrival order: `feed` is not called again before `finish` or `fail`.
It never raises for user errors. The driver itself executes an `Ordinary` call whose operands all have values
(`Serving.serve`), without these methods: nearly every command takes that path, which is ten times cheaper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.messages import (
    Answer,
    Call,
    CellDone,
    DropNames,
    Failed,
    Fetch,
    Kill,
    LoadName,
    NotBound,
    Reached,
    Run,
    Stop,
    Store,
    StoreName,
    Sync,
)
from disco_magic.core.registers import Poison, RegisterFile
from disco_magic.core.wording import describe
from disco_magic.errors import Failure, UnknownName
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.core.messages import Command, Event


class Step:
    """What the driver has to do next; compared by identity."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


EXECUTE: Final = Step("EXECUTE")
SKIP: Final = Step("SKIP")
STOP: Final = Step("STOP")


def _with_keywords(
    function: Any, args: Sequence[Any], kwnames: tuple[str, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    split = len(args) - len(kwnames)
    keywords = dict(zip(kwnames, args[split:], strict=True))
    # Keywords travel as an argument, not in a partial, because arguments are released after the call.
    return _apply, (function, args[:split], keywords)


def _apply(function: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    return function(*args, **keywords)


class Interpreter:
    """State machine of one worker.

    Args:
        worker, registers: its id and its register file.
        copy: copies a value of the controller's for the worker.
        run: executes a cell.
        take: copies a value of the worker's for the controller; None: `copy` does.
        reach: waits until work that commands queued elsewhere, on a GPU, is done; None: they queue none.

    Attributes:
        function, arguments: what to execute after EXECUTE.
        replaced: values that a command removed from registers; the driver releases them.
    """

    def __init__(
        self,
        worker: int,
        registers: RegisterFile,
        *,
        copy: Callable[[Any], Any],
        run: Callable[[Run], Any],
        take: Callable[[Any], Any] | None = None,
        reach: Callable[[], None] | None = None,
    ) -> None:
        self.worker = worker
        self.function: Callable[..., Any] = copy
        self.arguments: tuple[Any, ...] | list[Any] = ()
        self._use(registers)
        self._inherited: tuple[tuple[Event, ...], Failure | None] = (), None
        self.replaced: list[Any] = []
        self._copy = copy
        self._run = run
        self._take = take or copy
        self._reach = reach
        self._table: dict[type, Callable[[Any], Step | Event | None]] = {
            Call: self._call,
            Kill: lambda _: None,
            Store: self._store,
            Fetch: self._fetch,
            LoadName: self._load_name,
            StoreName: self._store_name,
            DropNames: self._drop_names,
            Run: self._run_cell,
            Sync: self._sync,
            Stop: lambda _: STOP,
        }

    def move(self) -> RegisterFile:
        """Go on with a register file unknown to the worker's former thread; see `RegisterFile.moved`."""
        self._use(self.registers.moved())
        self.replaced = []  # the former thread keeps its list, and may be stuck releasing it
        return self.registers

    def _use(self, registers: RegisterFile) -> None:
        self.registers = registers
        self._values = registers.values

    def feed(self, command: Command) -> Step | Event | None:
        """Take the next command; the module's diagram explains the answer."""
        if command.kills:
            self.registers.kill(command.kills)
        return self._table[type(command)](command)

    def inherited(self) -> tuple[tuple[Event, ...], Failure | None]:
        """After SKIP: the events that the controller must get (none if it knows), and the inherited failure.

        Call it once only: the failure's traceback keeps alive what its frames hold.
        """
        inherited, self._inherited = self._inherited, ((), None)
        return inherited

    def finish(self, command: Command, value: Any) -> Event | None:
        """Take the `value` that executing returned; return the event to send, if any."""
        # Operands must not outlive their registers until the next command comes.
        self.function, self.arguments = self._copy, ()
        if isinstance(command, Run):
            self.registers.set(command.dest, value.value)
            return CellDone(
                self.worker,
                command.seq,
                value.elapsed_s,
                self.registers.public_names(),
                value.shown,
                value.digest,
                caught=value.caught,
            )
        if isinstance(command, Fetch):
            return Answer(self.worker, command.seq, value)
        if isinstance(command, Sync):
            return Reached(self.worker, command.seq)
        self.registers.set(command.dest, value)  # type: ignore[union-attr] # Call or Store: nothing else gets here
        return None

    def fail(self, command: Command, failure: Failure, elapsed_s: float = 0.0) -> Event:
        """Executing failed: poison the result; return the event to send."""
        self.function, self.arguments = self._copy, ()
        if isinstance(command, Fetch):
            return Answer(self.worker, command.seq, None, failure)
        if isinstance(command, Sync):  # its wait failed, or a finalizer that ran in it: reached all the same
            return Reached(self.worker, command.seq)
        if isinstance(command, Call | Store | LoadName):
            self.registers.values.pop(command.dest, None)
            self.registers.poison(command.dest, Poison(failure, reported=True))
        if isinstance(command, Run):
            # No poison: the cell's result, which alone refers to this register, holds the failure itself.
            # With poison, the frames in its traceback would hold the result, and this the register, for ever.
            names = self.registers.public_names()
            return CellDone(self.worker, command.seq, elapsed_s, names, failure=failure)
        return Failed(self.worker, command.seq, failure)

    def describe(self, command: Command) -> str:
        """The command in words, for errors and status lines."""
        return describe(command, self._values)

    # --- a method per command ------------------------------------------------------------------

    def _call(self, command: Call) -> Step:
        function: Any = command.function
        values = self._values
        arguments = list(command.args)
        try:
            if type(function) is int:  # not isinstance: a subclass may be callable
                function = values[function]
            for position in command.refs:
                arguments[position] = values[arguments[position]]
        except KeyError as absent:
            return self._inherit(command, absent.args[0], command.dest)
        self.function, self.arguments = function, arguments
        if command.kwnames:
            self.function, self.arguments = _with_keywords(function, arguments, command.kwnames)
        return EXECUTE

    def _store(self, command: Store) -> Step | None:
        self._keep(self._values, command.dest)
        if command.only is not None and self.worker not in command.only:
            self.registers.set(command.dest, None)
            return None
        if command.only == (self.worker,) and self._reach is None:  # already copied for this worker
            self.registers.set(command.dest, command.value)
            return None
        self.function = self._copy
        self.arguments = (command.value,)
        return EXECUTE

    def _fetch(self, command: Fetch) -> Step | Event:
        poison = self.registers.poisons.get(command.register)
        if poison is not None:
            return Answer(self.worker, command.seq, None, poison.failure)
        if command.register not in self._values:
            return Answer(self.worker, command.seq, None, self._undefined(command, f"#{command.register}"))
        self.function = self._take
        self.arguments = (self._values[command.register],)
        return EXECUTE

    def _load_name(self, command: LoadName) -> None:
        try:
            self.registers.set(command.dest, self.registers.names[command.name])
        except KeyError:
            # Reported only when it is read: a name that only some workers have may be fetched from those.
            self.registers.poison(
                command.dest, Poison(self._undefined(command, command.name), reported=False)
            )

    def _store_name(self, command: StoreName) -> Step | None:
        if command.register not in self._values:
            step, (events, origin) = self._inherit(command, command.register, None), self._inherited
            if command.name not in self.registers.names:  # else it has what it had
                self._inherited = (*events, NotBound(self.worker, command.seq, command.name)), origin
            return step
        self._keep(self.registers.names, command.name)
        self.registers.names[command.name] = self._values[command.register]
        return None

    def _drop_names(self, command: DropNames) -> None:
        for name in command.names:
            self._keep(self.registers.names, name)
            self.registers.drop(name)

    def _keep(self, held: Mapping[Any, Any], key: object) -> None:
        if key in held:
            self.replaced.append(held[key])

    def _run_cell(self, command: Run) -> Step:
        self.function = self._run
        self.arguments = (command,)
        return EXECUTE

    def _sync(self, command: Sync) -> Step | Event:
        if self._reach is None:
            return Reached(self.worker, command.seq)
        self.function, self.arguments = self._reach, ()
        return EXECUTE

    # --- poison --------------------------------------------------------------------------------

    def _inherit(self, command: Command, register: int, dest: int | None) -> Step:
        """Pass on the failure of the operand `register`, which has no value, instead of executing."""
        poison = self.registers.poisons.get(register)
        if poison is None:
            poison = Poison(self._undefined(command, f"#{register}"), reported=False)
        events: tuple[Event, ...] = ()
        if not poison.reported:
            poison.reported = True
            events = (Failed(self.worker, command.seq, poison.failure),)
        if dest is not None:
            self.registers.poison(dest, poison)
        self._inherited = events, poison.failure
        return SKIP

    def _undefined(self, command: Command, name: str) -> Failure:
        hint = near_misses(name, self.registers.public_names())
        what = f"register '{name}' is not defined on worker {self.worker}"
        if name.startswith("#"):
            hint = "the command that makes it was sent to other workers only (workers=)"
        error = UnknownName(f"{what}; {hint}" if hint else what)
        text = f"{type(error).__name__}: {error}"
        return Failure(self.worker, command.seq, self.describe(command), error, text)
