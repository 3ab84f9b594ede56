"""Keeps the last failure of workers for ``%disco debug``, which opens a debugger on one of them.

It refers to the failed frames, and so to the arrays of functions that had not returned. IPython keeps the
same in `sys.last_value` until the next failure. So only one failure is kept here, and it is dropped with
its session.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.namespaces import session_of
from disco_magic.callers.tracebacks import frames_of, traceback_of
from disco_magic.errors import (
    DiscoError,
    Interrupted,
    UsageMistake,
    WorkerError,
    WorkerLost,
    interrupted_at,
)
from disco_magic.notebook.tracebacks import failures_of, user_frames
from disco_magic.phrases import people

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from disco_magic.errors import Failure
    from disco_magic.notebook.keeper import SessionKeeper
    from disco_magic.notebook.shell import Shell
    from disco_magic.session.session import Session

_NONE_YET: Final = "nothing has failed on a worker yet; %disco debug looks at the last failure"
_UNBEGUN: Final = (Interrupted.SKIPPED, Interrupted.WITHDRAWN)  # there are no frames to look at
_FORGOTTEN: Final = "the last failure was forgotten; %disco debug looks at the next one"


class LastFailure:
    """The last failure on the workers.

    Attributes:
        failures: worker -> its failure, the origin first; empty if there is none.
    """

    def __init__(self) -> None:
        self.failures: Mapping[int, Failure] = {}
        self._why_none = _NONE_YET
        self._blocking: tuple[int, ...] = ()  # for which others waited when the cell was stopped
        self._session: weakref.ref[Session] | None = None
        self._life: object = None

    def note_shown(self, sessions: SessionKeeper, shell: Shell) -> None:
        """Keep the error that IPython has shown last, if it is new and from workers; called after every cell.

        Errors that a program has caught and handled are not kept. ``%debug`` finds the worker's frames alone.
        """
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        # Ask nothing of other classes: that could run the user's code.
        if isinstance(error, DiscoError | KeyboardInterrupt) and not hasattr(error, "_disco_noted"):
            self._note(error, sessions)
            failed = failures_of(error)
            if failed and (trace := user_frames(shell, self._telling(failed).exception)) is not None:
                sys.last_traceback = error.__traceback__ = trace

    def note_unasked(self, errors: Iterable[object], sessions: SessionKeeper) -> None:
        """Keep the last of these errors of cells with handles, if that cell was sent after what is kept."""
        for error in errors:
            if isinstance(error, WorkerError) and not hasattr(error, "_disco_noted"):
                kept = next(iter(self.failures.values()), None)
                is_of_same = kept is None or self.session is _session_of(error.failures)
                if is_of_same and (kept is None or kept.seq < error.origin.seq):
                    self._note(error, sessions)

    def _note(self, error: BaseException, sessions: SessionKeeper) -> None:
        error._disco_noted = True  # type: ignore[attr-defined]  # noqa: SLF001 - let go of, it stays so
        failures = {
            worker: each
            for worker, each in failures_of(error).items()
            if interrupted_at(each.exception) not in _UNBEGUN
        }
        diagnosis = getattr(error, "diagnosis", None)
        self._blocking = () if diagnosis is None else diagnosis.blocking()
        if failures:
            session = _session_of(failures) or sessions.find()
            self.failures = failures
            self._session = None if session is None else weakref.ref(session)
            self._life = None if session is None else session.life
        elif isinstance(error, WorkerLost):
            self.failures, self._why_none = {}, f"{error}; nothing of it is left to look at"

    def settle(self) -> None:
        """Drop the failure if its session was stopped or restarted."""
        if not self.failures or self._session is None:
            return
        session = self._session()
        if session is None or session.closed or session.life is not self._life:
            self._drop(f"{self.command} failed in a session that was stopped or restarted; nothing is left")

    def forget(self, shell: Shell) -> None:
        """Drop the failure, here and in IPython."""
        vars(shell.InteractiveTB).pop("tb", None)  # the traceback that it has shown last
        for name in ("last_exc", "last_value"):
            error = getattr(sys, name, None)
            if error is not None and failures_of(error):
                for each in (name, "last_traceback", "last_type"):
                    vars(sys).pop(each, None)
        self._drop(_FORGOTTEN)

    def _drop(self, why: str) -> None:
        self.failures, self._why_none = {}, why

    @property
    def command(self) -> str:
        """The command that failed, in words."""
        return next(iter(self.failures.values())).command

    @property
    def session(self) -> Session | None:
        """The session of the workers, or None if it is unknown."""
        return None if self._session is None else self._session()

    def check(self) -> None:
        """Raise UsageMistake if there is no failure."""
        if not self.failures:
            raise UsageMistake(self._why_none)

    def on(self, worker: int | None) -> Failure:
        """The failure on `worker`; None: the one that the error names first, see `most_telling`."""
        self.check()
        found = self._telling(self.failures) if worker is None else self.failures.get(worker)
        if found is None:
            raise UsageMistake(
                f"{self.command} did not fail on worker {worker}, but on {people(tuple(self.failures))}; "
                "name one of those with -w"
            )
        return found

    def _telling(self, failures: Mapping[int, Failure]) -> Failure:
        from disco_magic.core.blame import most_telling  # not needed by %load_ext

        return most_telling(tuple(failures.values()), self._blocking)


def _session_of(failures: Mapping[int, Failure]) -> Session | None:
    """The open session whose cells' code failed; None if that is unknown."""
    from disco_magic.session.current import open_sessions  # not needed by %load_ext

    there = {session.id: session for session in open_sessions()}
    frames = (frame for each in failures.values() for frame in frames_of(traceback_of(each.exception)))
    return next((there[made] for frame in frames if (made := session_of(frame.f_globals)) in there), None)


def examine(shell: Shell, failure: Failure, commands: Sequence[str] = ()) -> None:
    """Open IPython's debugger where `failure` happened, until the user leaves it.

    Args:
        shell: IPython's shell.
        failure: the failure of one worker.
        commands: commands to execute instead of asking, each shown as if it had been typed.
    """
    from IPython.core.display_trap import DisplayTrap

    from disco_magic.notebook.debugging.interact import NOTES, Interact

    trace = user_frames(shell, failure.exception)
    if trace is None:
        raise UsageMistake(
            f"{failure.command} failed on worker {failure.worker} before or after a line of yours: "
            f"{failure.summary}; there is no frame to look at"
        )
    print(f"{failure.command} on worker {failure.worker}: {failure.summary}")
    debugger, label = _debugger(shell), f"[{failure.worker}] "
    before, debugger.prompt = debugger.prompt, label + debugger.prompt
    tracing = sys.gettrace()  # `q` turns tracing off, even another tool's
    if "do_interact" not in vars(type(debugger)):  # a terminal's debugger opens a shell of IPython's
        debugger.do_interact = lambda _: Interact(debugger, lambda prompt: input(label + prompt)).run()
    if commands:
        _say_beforehand(debugger, commands)
    try:
        with DisplayTrap(hook=sys.__displayhook__):  # type: ignore[no-untyped-call]  # IPython's
            debugger.reset()
            debugger.botframe = trace.tb_frame
            # Pass the exception itself, so that the command `exceptions` knows its causes.
            debugger.interaction(None, BaseException.with_traceback(failure.exception, trace))
    finally:
        debugger.prompt = before
        sys.settrace(tracing)
        vars(debugger).pop("do_interact", None)
        for name in ("preloop", "precmd"):
            vars(debugger).pop(name, None)
        debugger.cmdqueue.clear()
        debugger.reset()
        for frame in frames_of(trace):
            frame.f_globals.pop(NOTES, None)


def _say_beforehand(debugger: Any, commands: Sequence[str]) -> None:
    """Queue `commands`, followed by `q`; each is printed when it is executed."""
    begun, understood = debugger.preloop, debugger.precmd
    waiting = [*commands, "q"]

    def begin() -> None:
        # Not before: since Python 3.13, queued commands are executed before pdb shows where it is.
        begun()
        debugger.cmdqueue += waiting
        waiting.clear()

    def shown(line: str) -> str:
        if debugger.cmdqueue and not line.startswith("_pdbcmd_"):  # not the final `q`, nor pdb's own
            print(f"{debugger.prompt}{line}")
        text: str = understood(line)
        return text

    debugger.preloop, debugger.precmd = begin, shown


def _debugger(shell: Shell) -> Any:
    """The debugger of ``%debug``, reused because each one in a terminal has a thread and an event loop."""
    tracebacks = shell.InteractiveTB
    if tracebacks.pdb is None:
        tracebacks.pdb = tracebacks.debugger_cls()
    return tracebacks.pdb
