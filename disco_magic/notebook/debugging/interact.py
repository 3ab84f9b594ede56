"""``interact`` in a debugger: executes statements in the scope of a frame, until the user exits."""

from __future__ import annotations

import sys
import traceback
from code import InteractiveInterpreter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pdb import Pdb
    from types import CodeType

NOTES: Final = "__pdb_convenience_variables"
"""Name that pdb writes into the globals of the frames it shows; its value refers to the frame."""
_ENDS: Final = ("exit", "quit", "exit()", "quit()")


class Interact(InteractiveInterpreter):
    """Replaces `code.interact`, which asks without waiting for its turn and cannot be ended in a notebook.

    `code.interact` also treats an interrupt like a typing error, and shows values through the notebook.

    Args:
        debugger: the debugger with the current frame. Names bound here are bound only here, as in pdb.
        ask: returns the user's answer to a prompt.
    """

    def __init__(self, debugger: Pdb, ask: Callable[[str], str]) -> None:
        frame = debugger.curframe
        assert frame is not None, "pdb has a frame while it takes commands"  # noqa: S101 - for the type checker
        # Before 3.13, the user's changes at the prompt are in the debugger's copy.
        mine = frame.f_locals if sys.version_info >= (3, 13) else debugger.curframe_locals
        super().__init__({**frame.f_globals, **mine})
        self._debugger = debugger
        self._ask = ask

    def run(self) -> None:
        """Read and execute statements until the user exits."""
        self._debugger.message("*interactive*: exit or Ctrl-D leads back to the debugger")
        with suppress(EOFError, SystemExit):
            self._run_all()

    def _run_all(self) -> None:
        source: list[str] = []
        while True:
            source.append(self._ask("... " if source else ">>> "))
            if source[0].strip() in _ENDS:
                return
            if not self.runsource("\n".join(source)):
                source.clear()

    def runcode(self, code: CodeType) -> None:
        """See `code.InteractiveInterpreter`."""
        before, sys.displayhook = sys.displayhook, self._debugger.displayhook
        try:
            super().runcode(code)
        finally:
            sys.displayhook = before

    def showtraceback(self) -> None:
        """See `code.InteractiveInterpreter`; without its own frames. An interrupt is raised again."""
        error: Any = sys.exc_info()[1]
        if isinstance(error, KeyboardInterrupt):
            raise error
        told = traceback.format_exception(error.with_traceback(error.__traceback__.tb_next))
        self.write("".join(told))

    def showsyntaxerror(self, filename: str | None = None, **_: Any) -> None:  # noqa: ARG002 - theirs
        """See `code.InteractiveInterpreter`."""
        self.write("".join(traceback.format_exception_only(sys.exc_info()[1])))

    def write(self, data: str) -> None:
        """See `code.InteractiveInterpreter`."""
        self._debugger.message(data.rstrip("\n"))
