"""IPython's debugger on a worker: the prompt shows the worker's number, and one worker asks at a time.

Callers may rely on this:

* The debugger sees only the user's code. It neither shows nor stops in frames of the runtime or of asyncio,
  so no prompt is ever open inside a collective, under one of its locks, or where interrupts are held back.
* It is the one that asks (`asking.ASKERS`) from where it stops until it continues, and no longer.
* Its output is shown at once, with the worker's prefix, whatever the cell does with its own output.
* When the cell ends on the worker, however it ends, tracing ends too.
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
from disco_magic.notebook.debugging.asking import ASKERS, ask
from disco_magic.notebook.debugging.interact import NOTES, Interact, at_prompt, bound_in_frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from disco_magic.functions.context import WorkerContext

_ASYNCIO: Final = os.path.dirname(asyncio.__file__) + os.sep
_CELL: Final = CellRunner.__call__.__code__
# Some of IPython's debuggers continue the program on an interrupt at the prompt.
_PDB: Final[Any] = next(kind for kind in Pdb.__mro__ if kind.__module__ == "pdb")
# Names that pdb writes into the locals of a frame; for code of a cell these are the worker's registers.
_LOCAL_NOTES: Final = ("__return__", "__exception__")


class DebuggerQuit(KeyboardInterrupt):
    """The user has left this worker's debugger with ``q``, which ends the cell on it.

    A KeyboardInterrupt, so that ``except Exception`` in the cell does not catch it. Not a WorkerInterrupt,
    because it is the origin of the other workers' `PlaneAborted` and is shown before them.
    """


def is_hidden(frame: FrameType) -> bool:
    """Whether a frame is not the user's, but the runtime's, or asyncio's below an awaiting cell."""
    filename = frame.f_code.co_filename
    return runtime_file(filename) or filename.startswith(_ASYNCIO)


def cell_of(frame: FrameType | None) -> FrameType | None:
    """The runtime's frame that executes the cell to which `frame` belongs; None outside of cells."""
    while frame is not None and frame.f_code is not _CELL:
        frame = frame.f_back
    return frame


class WorkerDebugger(Pdb):
    """The debugger of one worker, from a breakpoint to the end of the cell."""

    def __init__(self, worker: WorkerContext, what: str) -> None:
        super().__init__(nosigint=True)
        self._worker = worker
        self._what = what
        self._before = sys.gettrace()  # coverage, for instance
        self._followed: list[tuple[FrameType, Any]] = []  # traced frames, with their former trace function

    @property
    def stdout(self) -> Any:
        """The current `sys.stdout`; pdb installs this as `sys.stdout` while it executes a line."""
        return sys.stdout

    @stdout.setter
    def stdout(self, stream: Any) -> None:
        pass

    # --- where it begins and ends ----------------------------------------------------------------------

    def set_trace(self, frame: FrameType | None = None, **_: Any) -> None:
        """Open the prompt at `frame`.

        Like pdb since Python 3.13; before, pdb stopped at the beginning of the next line, if there was one.
        """
        if self._followed:
            sys.settrace(None)  # it steps already, and should not step through this code
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
        """Trace the user's frames from `frame` outwards; `up` goes as far as the outermost one."""
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
        """End tracing, and drop the references to frames."""
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
            raise error.with_traceback(None) from None  # bdb's frames do not help the user
        # The returned function becomes the frame's trace function, again.
        return self.trace_dispatch if follows and self._followed else None

    def _dispatch(self, frame: FrameType, event: str, arg: Any) -> bool:
        """Handle an event; return whether to trace `frame` from now on."""
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
        """Handle a call of user code by the runtime, or its return: do not stop, but keep stepping.

        A cell is one or two code objects, the last expression being separate; an awaiting cell is entered and
        left several times. Other code that the runtime calls is a library's, or a callback.
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
        self._worker.asking = f"{self._what}, when it is its turn"
        try:
            ASKERS.take(self._worker, partial(self._interact, frame, tb_or_exc))
        except BaseException as error:  # noqa: BLE001 - as above
            self._let_go()
            raise error.with_traceback(None) from None
        finally:
            self._worker.asking = ""
        if self.quitting or (self.stoplineno == -1 and not self.breaks):
            self._let_go()

    def _interact(self, frame: FrameType | None, tb_or_exc: TracebackType | BaseException | None) -> None:
        self._worker.asking = ""
        with at_prompt(self._worker):
            try:
                _PDB.interaction(self, frame, tb_or_exc)
            finally:
                self.forget()
                if frame is not None and frame.f_locals is frame.f_globals:
                    for note in _LOCAL_NOTES:
                        frame.f_globals.pop(note, None)

    def _cmdloop(self) -> None:
        self.cmdloop()  # not pdb's `_cmdloop`, which continues after an interrupt

    def cmdloop(self, intro: Any = None) -> None:  # noqa: ARG002 - see `cmd.Cmd`
        """See `cmd.Cmd`, whose method asks with `input` and sets up readline."""
        self.preloop()
        stop = None
        while not stop:
            line = self.cmdqueue.pop(0) if self.cmdqueue else self._command()
            line = self.precmd(line)  # type: ignore[no-untyped-call]  # IPython's
            stop = self.postcmd(self.onecmd(line), line)
        self.postloop()

    def onecmd(self, line: str) -> bool:
        """See `cmd.Cmd`; names that the line binds are bound in the frame."""
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
        """See `pdb.Pdb`: show what the user's line raised; an interrupt ends the cell instead."""
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
        """``interact``: execute statements in the scope of the frame, until ``exit``."""
        Interact(self, self.ask).run()

    def do_debug(self, arg: str) -> None:  # noqa: ARG002 - see `pdb.Pdb`
        """Refuse ``debug`` on workers."""
        self.error("debug opens a debugger that asks in no worker's name; step into the call with s instead")
