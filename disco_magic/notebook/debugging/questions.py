"""How one question of a worker gets to the user: through the kernel, or from a terminal's keyboard."""

from __future__ import annotations

import builtins
import sys
import threading
from contextlib import contextmanager
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from IPython.core.error import StdinNotImplementedError

from disco_magic.errors import UsageMistake, WorkerInterrupt
from disco_magic.functions.streams import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disco_magic.functions.context import WorkerContext


class WorkerInput:
    """Stands for `builtins.input` while cells run, for modules that a cell calls.

    Args:
        below: what it was before; for everybody who is no worker it still is.
        ask: asks for a worker.
    """

    def __init__(self, below: Callable[..., str], ask: Callable[[WorkerContext, str], str]) -> None:
        self.below = below
        self._ask = ask

    def __call__(self, prompt: object = "", /) -> str:
        """See `input`."""
        from disco_magic.functions.context import calling_worker  # brings NumPy, which loading does not

        worker = calling_worker()
        return self.below(prompt) if worker is None else self._ask(worker, str(prompt))


def answer_to(worker: WorkerContext, prompt: str, what: str) -> str:
    """What the user answers to `prompt`; who calls this has the turn to ask.

    Raises:
        UsageMistake: nobody can answer; `what` asks.
    """
    _check_not_stopped(worker)
    _bring_up()
    current: Any = builtins.input
    below = current.below if isinstance(current, WorkerInput) else current
    if isinstance(below, BuiltinFunctionType) and _has_keyboard():
        from disco_magic.notebook.debugging.terminal import read_line

        return read_line(prompt)
    try:
        with _whole_messages(worker, getattr(getattr(below, "__self__", None), "session", None)):
            return str(below(prompt))
    except StdinNotImplementedError:
        raise UsageMistake(
            f"{what} asks a question, but whoever runs this notebook takes no input, as nbconvert and "
            "papermill; run the cell where somebody can answer, or take the call out"
        ) from None


def _bring_up() -> None:
    """Show what was written before the question; a worker's own flush does not get so far."""
    for stream in (sys.stdout, sys.stderr):
        screen = unwrapped(stream)
        if screen is not None:
            screen.flush()


def _guard_of(worker: WorkerContext) -> Any:
    """What keeps interrupts out of a worker's collectives; at a debugger's prompt another one is over it."""
    guard: Any = worker._guard  # noqa: SLF001 - the runtime's own, and nobody else asks
    return getattr(guard, "below", guard)


def _check_not_stopped(worker: WorkerContext) -> None:
    """Open no prompt in a command that was interrupted, and whose code goes on in spite of it.

    Its thread is given up soon. At a prompt, where nothing would be injected any more, it would take the
    answers to other questions for ever.
    """
    lane = _guard_of(worker)._worker.lane  # noqa: SLF001 - as above
    if lane.interrupted is not None and lane.thread_id == threading.get_ident():
        raise WorkerInterrupt("interrupted before it could ask")


@contextmanager
def _whole_messages(worker: WorkerContext, session: Any) -> Iterator[None]:
    """Within this an interrupt waits until the message that the calling thread sends is sent.

    ZeroMQ takes a message part by part. Struck in between, the next question would be sent as the end of this
    one: front ends refuse it for its signature, and nobody sees it.
    """
    if session is None or worker.thread != threading.get_ident():
        yield
        return
    guard, send, me = _guard_of(worker), type(session).send, worker.thread

    def send_whole(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != me:
            return send(session, *args, **kwargs)
        try:
            guard.enter()
            try:
                return send(session, *args, **kwargs)
            finally:
                guard.leave()
        except WorkerInterrupt:
            raise WorkerInterrupt("interrupted as it asked") from None

    try:
        session.send = send_whole
        yield
    finally:
        vars(session).pop("send", None)


def _has_keyboard() -> bool:
    try:
        return sys.stdin.isatty()
    except (AttributeError, ValueError):  # None, or closed
        return False
