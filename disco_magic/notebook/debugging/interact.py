"""The prompt of a debugger on a worker: what it changes meanwhile, and what is typed there."""

from __future__ import annotations

import ctypes
import inspect
import sys
import threading
import traceback
from code import InteractiveInterpreter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import UsageMistake
from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.sink import Sink
from disco_magic.notebook.output.streams import current_sink, use_sink, using_sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pdb import Pdb
    from types import CodeType

    from disco_magic.functions.calling import Guard
    from disco_magic.functions.context import WorkerContext

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


_IS_COPY: Final = sys.version_info < (3, 13)
# From 3.12 on, compiled code does not check again whether a name is bound after finding it bound once.
_CAN_UNBIND: Final = sys.version_info < (3, 12)

_NOTHING: Final = object()


@contextmanager
def bound_in_frame(debugger: Any) -> Iterator[None]:
    """Execute a line of a debugger in this block; names that it binds are bound in the current frame.

    Before Python 3.13, ``frame.f_locals`` of a function is a copy that every access renews, and pdb binds
    names in it. The interpreter copies them back when a trace function returns, unless something has accessed
    the copy since. At a prompt that `breakpoint` opens, no trace function is being called, so they would be
    lost. Here they are copied back after every line, in whichever frame it was typed, as Python does since.

    Deleted names are unbound if Python can do that; otherwise a message says so, as in Python 3.13.
    """
    frame = debugger.curframe
    if not _IS_COPY or frame is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        yield
        return
    seen = debugger.curframe_locals
    before = dict(seen)
    try:
        yield
    finally:
        bound = _bound_since(before, seen)
        deleted = before.keys() - seen.keys()
        # Renew the copy first: functions that the line calls may have bound names in the frame (`nonlocal`).
        names = frame.f_locals
        names.update(bound)
        stay = sorted(deleted & names.keys())
        if _CAN_UNBIND:
            for name in stay:
                del names[name]
        elif stay:
            debugger.error(f"{', '.join(stay)}: not deleted, Python cannot do that to a function that runs")
        # Back into the frame; those that are missing are unbound, if that is possible.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(_CAN_UNBIND))


def _bound_since(before: Mapping[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in seen.items() if before.get(name, _NOTHING) is not value}


@contextmanager
def at_prompt(worker: WorkerContext) -> Iterator[None]:
    """The user is at the prompt of `worker` in this block, which the worker's thread executes."""
    with _aloud(worker.id), _alone(worker):
        yield


class _Aloud(Page):
    """Shows the output of one worker's debugger at once; output of the cell itself is handled as usual."""

    def __init__(self, worker: int) -> None:
        super().__init__((worker,), (worker,))
        self.area = None

    def lines(self, worker: int, channel: str, lines: Sequence[str]) -> None:
        """See `Page.lines`; without the empty line that pdb adds to everything."""
        text = [*lines]
        while text and not text[-1].strip():
            text.pop()
        if text:
            super().lines(worker, channel, text)

    def clear(self, worker: int, clear: Callable[..., Any], *, wait: bool) -> None:
        """Do nothing: the output around the prompt belongs to the cell."""


@contextmanager
def _aloud(worker: int) -> Iterator[None]:
    below = current_sink.get()
    # Without a sink, so that the page does not write to the stream that routes by worker.
    with using_sink(None):
        sink = Sink(worker, _Aloud(worker))
        sink.home = None if below is None else below.home
        use_sink(sink)
        try:
            yield
        finally:
            sink.finish()


class AtPrompt:
    """Replaces a worker's guard of collectives, to refuse collectives, which would never return.

    The other members wait for their turn to ask, which comes only when this worker continues.

    Attributes:
        below: the original guard, which a successor of this thread uses.
    """

    def __init__(self, worker: WorkerContext, below: Guard) -> None:
        self.below = below
        self._worker = worker.id
        self._thread = threading.get_ident()

    def enter(self) -> tuple[int, tuple[int, ...] | None]:
        """See `Guard`."""
        if threading.get_ident() != self._thread:
            return self.below.enter()
        raise UsageMistake(
            f"a collective was called at the debugger's prompt of worker {self._worker}, and would wait "
            "there for workers whose own prompts come later; step over a line of the cell that calls it, on "
            "all of them (n)"
        )

    def leave(self) -> None:
        """See `Guard`."""
        self.below.leave()

    def at(self) -> int | None:
        """See `Guard`."""
        return self.below.at()


@contextmanager
def _alone(worker: WorkerContext) -> Iterator[None]:
    guard = worker._guard  # noqa: SLF001 - the runtime asks it, nobody else replaces it
    if worker.num_workers > 1 and not isinstance(guard, AtPrompt):
        worker._guard = AtPrompt(worker, guard)  # noqa: SLF001
    try:
        yield
    finally:
        worker._guard = guard  # noqa: SLF001
