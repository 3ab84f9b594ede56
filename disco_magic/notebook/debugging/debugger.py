"""IPython's debugger on a worker: its prompt says which worker, and others get theirs in between.

What callers may rely on:

* The debugger knows the user's code only. It shows and stops in no frame of the runtime or of asyncio, so no
  prompt is ever open inside a collective, under one of its locks, or where an interrupt does not strike.
* It has the worker's turn to ask (`asking.TURNS`) from where it stops until it goes on, and no longer.
* What it prints is shown at once, under the worker's prefix, whatever the cell does with its output.
* When the cell ends on the worker, however it ends, nothing is traced any more.
"""

from __future__ import annotations

import asyncio
import os
import sys
from bdb import BdbQuit
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from IPython.core.debugger import Pdb

from disco_magic.callers.sites import Site, runtime_file
from disco_magic.errors import WorkerInterrupt
from disco_magic.functions.execution.running import CellRunner
from disco_magic.notebook.debugging.asking import TURNS, ask
from disco_magic.notebook.debugging.bindings import bound_in_frame
from disco_magic.notebook.debugging.interact import NOTES, Interact
from disco_magic.notebook.debugging.prompting import at_prompt

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from disco_magic.functions.context import WorkerContext

_ASYNCIO: Final = os.path.dirname(asyncio.__file__) + os.sep
_CELL: Final = CellRunner.__call__.__code__
# Some of IPython's debuggers take an interrupt at the prompt for the wish to go on.
_PDB: Final[Any] = next(kind for kind in Pdb.__mro__ if kind.__module__ == "pdb")
# What pdb writes into the locals of a frame; for the lines of a cell those are the worker's registers.
_LOCAL_NOTES: Final = ("__return__", "__exception__")


class DebuggerQuit(KeyboardInterrupt):
    """The user has left the debugger of this worker with ``q``, which ends the cell there.

    A KeyboardInterrupt, so that an ``except Exception`` of the cell lets it through. No WorkerInterrupt: it
    is what the others' `PlaneAborted` follow from, and comes before them.
    """


def is_hidden(frame: FrameType) -> bool:
    """Whether a frame is none of the user's: the runtime's, or asyncio's below an awaiting cell."""
    filename = frame.f_code.co_filename
    return runtime_file(filename) or filename.startswith(_ASYNCIO)


def cell_of(frame: FrameType | None) -> FrameType | None:
    """The runtime's frame that executes the cell which `frame` belongs to; None if that is no cell."""
    while frame is not None and frame.f_code is not _CELL:
        frame = frame.f_back
    return frame


class WorkerDebugger(Pdb):
    """The debugger of one worker, from a breakpoint to the end of the cell.

    Args:
        worker: whose; made and used by its own thread.
        what: the call that opens it, for an error.
    """

    def __init__(self, worker: WorkerContext, what: str) -> None:
        super().__init__(nosigint=True)
        self._worker = worker
        self._what = what
        self._before = sys.gettrace()  # coverage, for instance
        self._followed: list[tuple[FrameType, Any]] = []  # and what traced them before

    @property
    def stdout(self) -> Any:
        """Whatever `print` writes to: pdb puts it in its place while it executes a line."""
        return sys.stdout

    @stdout.setter
    def stdout(self, stream: Any) -> None:
        pass

    # --- where it begins and ends ----------------------------------------------------------------------

    def set_trace(self, frame: FrameType | None = None, **_: Any) -> None:
        """Ask the user what to do at `frame`, and do that.

        As pdb does since Python 3.13; before, that stopped where the next line begins, if there was one.

        Raises:
            DebuggerQuit: the user ended it.
            UsageMistake: nobody can answer.
        """
        if self._followed:
            sys.settrace(None)  # it steps already, and what follows is not to be stepped through
        frame = frame or sys._getframe(1)  # noqa: SLF001 - as pdb does
        self.reset()
        self._follow(frame)
        self.set_step()
        self.interaction(frame, None)
        if self.quitting:
            raise self._quit_at(frame)
        if self._followed:
            sys.settrace(self.trace_dispatch)

    def _follow(self, frame: FrameType) -> None:
        """Trace the user's frames from `frame` outwards; the outermost one is as far as `up` goes."""
        cell = cell_of(frame)
        self.initial_frame = self.botframe = frame
        each: FrameType | None = frame
        while each is not None and each is not cell:
            if not is_hidden(each):
                self._trace(each, self.trace_dispatch)
                self.botframe = each
            each = each.f_back
        if cell is not None:
            self._trace(cell, self._leave)

    def _trace(self, frame: FrameType, function: Callable[..., Any]) -> None:
        self._followed.append((frame, frame.f_trace))
        frame.f_trace = function

    def _leave(self, _: FrameType, event: str, __: object) -> None:
        """The trace function of the frame that executes the cell."""
        if event == "return":
            self._let_go()

    def _let_go(self) -> None:
        """Trace nothing any more, and refer to no frame."""
        sys.settrace(self._before)
        while self._followed:
            frame, before = self._followed.pop()
            frame.f_trace = before
            frame.f_globals.pop(NOTES, None)
        self.stopframe = self.returnframe = self.botframe = self.initial_frame = self.enterframe = None

    def _quit_at(self, frame: FrameType) -> DebuggerQuit:
        return DebuggerQuit(f"left with q at {Site(frame.f_code.co_filename, frame.f_lineno)}")

    # --- while it follows the code ---------------------------------------------------------------------

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """See `bdb.Bdb`; raises DebuggerQuit where that raises BdbQuit."""
        try:
            follows = self._dispatch(frame, event, arg)
        except BaseException as error:  # noqa: BLE001 - whatever ends the command
            self._let_go()
            raise error.with_traceback(None) from None  # bdb's frames tell the user nothing
        # What is returned is set as the frame's trace function, again.
        return self.trace_dispatch if follows and self._followed else None

    def _dispatch(self, frame: FrameType, event: str, arg: Any) -> bool:
        """Deal with an event; whether `frame` is to be followed from now on."""
        if is_hidden(frame):
            return False
        if event in ("call", "return") and (frame.f_back is None or is_hidden(frame.f_back)):
            return self._at_edge(frame, event)
        if event == "exception" and issubclass(arg[0], WorkerInterrupt):
            self._let_go()
            return False
        with suppress(BdbQuit):
            return super().trace_dispatch(frame, event, arg) is not None
        raise self._quit_at(frame)

    def _at_edge(self, frame: FrameType, event: str) -> bool:
        """User code is entered from the runtime, or goes back there: nowhere to stop, but steps go on.

        A cell is one or two pieces of code, its last expression apart; an awaiting one comes and goes. What
        else the runtime calls is a library's, or a callback.
        """
        if any(frame is each for each, _ in self._followed):
            if event == "return" and self.stoplineno != -1 and self.stopframe in (None, frame):
                self.set_next(frame)
            return True
        if self._is_next_piece(frame):
            self._trace(frame, self.trace_dispatch)
            self.botframe = frame
            if self.stoplineno != -1:
                self.set_step()
            return True
        return bool(self.break_anywhere(frame))  # type: ignore[no-untyped-call]  # IPython's

    def _is_next_piece(self, frame: FrameType) -> bool:
        if self.botframe is None:
            return False
        here, there = frame.f_code, self.botframe.f_code
        return here is not there and here.co_name == "<module>" and here.co_filename == there.co_filename

    # --- while it asks ---------------------------------------------------------------------------------

    def interaction(self, frame: FrameType | None, tb_or_exc: TracebackType | BaseException | None) -> None:
        """See `pdb.Pdb`."""
        try:
            TURNS.take(self._worker, partial(self._interact, frame, tb_or_exc))
        except BaseException as error:  # noqa: BLE001 - as above
            self._let_go()
            raise error.with_traceback(None) from None
        if self.quitting or (self.stoplineno == -1 and not self.breaks):
            self._let_go()

    def _interact(self, frame: FrameType | None, tb_or_exc: TracebackType | BaseException | None) -> None:
        with at_prompt(self._worker):
            try:
                _PDB.interaction(self, frame, tb_or_exc)
            finally:
                self.forget()
                if frame is not None and frame.f_locals is frame.f_globals:
                    for note in _LOCAL_NOTES:
                        frame.f_globals.pop(note, None)

    def _cmdloop(self) -> None:
        self.cmdloop()  # pdb's own goes on after an interrupt

    def cmdloop(self, intro: Any = None) -> None:  # noqa: ARG002 - see `cmd.Cmd`
        """See `cmd.Cmd`; that one asks with `input`, and sets up readline for it."""
        self.preloop()
        stop = None
        while not stop:
            line = self.cmdqueue.pop(0) if self.cmdqueue else self._command()
            line = self.precmd(line)  # type: ignore[no-untyped-call]  # IPython's
            stop = self.postcmd(self.onecmd(line), line)
        self.postloop()

    def onecmd(self, line: str) -> bool:
        """See `cmd.Cmd`; the names that the line binds are the frame's from now on."""
        with bound_in_frame(self):
            return bool(super().onecmd(line))

    def _command(self) -> str:
        try:
            return self.ask(self.prompt)
        except EOFError:
            return "EOF"

    def ask(self, prompt: str) -> str:
        """The user's answer."""
        return ask(self._worker, prompt, what=self._what)

    def _error_exc(self) -> None:
        """See `pdb.Pdb`: what the user's line raised is shown; but an interrupt ends the cell."""
        error = sys.exc_info()[1]
        if isinstance(error, WorkerInterrupt):
            raise error
        super()._error_exc()  # type: ignore[misc]  # of no stub's

    # --- what it shows ---------------------------------------------------------------------------------

    def _hidden_predicate(self, frame: FrameType) -> bool:
        return is_hidden(frame) or bool(super()._hidden_predicate(frame))  # type: ignore[no-untyped-call]

    def print_stack_entry(self, frame_lineno: tuple[FrameType, int], prompt_prefix: str = "") -> None:  # noqa: ARG002
        """See `pdb.Pdb`."""
        self.message(self.format_stack_entry(frame_lineno, ""))

    def do_interact(self, arg: str) -> None:  # noqa: ARG002 - see `pdb.Pdb`
        """``interact``: statements in the scope of the frame; ``exit`` leads back."""
        Interact(self, self.ask).run()

    def do_debug(self, arg: str) -> None:  # noqa: ARG002 - see `pdb.Pdb`
        """``debug`` is not there on workers."""
        self.error("debug opens a debugger that asks in no worker's name; step into the call with s instead")
