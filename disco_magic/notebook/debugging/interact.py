"""``interact`` in a debugger: statements in the scope of a frame, until the user has enough."""

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
"""What pdb writes into the globals of the frames that it looks at: the frame, among others."""
_ENDS: Final = ("exit", "quit", "exit()", "quit()")


class Interact(InteractiveInterpreter):
    """As `code.interact`, which asks past everybody whose turn it is, and knows of no end in a notebook.

    That one also takes an interrupt for a typing error, and shows values as the notebook's own cell does.

    Args:
        debugger: in whose present frame; a name that is bound here is bound here only, as pdb has it.
        ask: the user's answer to a prompt.
    """

    def __init__(self, debugger: Pdb, ask: Callable[[str], str]) -> None:
        frame = debugger.curframe
        assert frame is not None, "pdb has a frame while it takes commands"  # noqa: S101 - for the type checker
        # Before 3.13 what the user has changed at the prompt is in the debugger's own copy.
        mine = frame.f_locals if sys.version_info >= (3, 13) else debugger.curframe_locals
        super().__init__({**frame.f_globals, **mine})
        self._debugger = debugger
        self._ask = ask

    def run(self) -> None:
        """Ask and execute, again and again."""
        self._debugger.message("*interactive*: exit or Ctrl-D leads back to the debugger")
        source: list[str] = []
        with suppress(EOFError, SystemExit):
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
        """See `code.InteractiveInterpreter`; without its own lines. An interrupt ends more than this."""
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
