"""How one question of a worker gets to the user: through the kernel, or from a terminal's keyboard."""

from __future__ import annotations

import builtins
import getpass
import sys
import threading
from contextlib import contextmanager
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import StdinNotImplementedError

from disco_magic.errors import UsageMistake, WorkerInterrupt
from disco_magic.isolation.streams import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from disco_magic.functions.context import WorkerContext


class Way:
    """One of Python's ways to ask the user.

    Args:
        home: the module where everybody finds the function that asks, under the name of `takes`.
        takes: a function that takes what that one takes, and gives its prompt.
        reads: the function of `terminal` that reads from the keyboard for a worker.
    """

    def __init__(self, home: ModuleType, takes: Callable[..., object], reads: str) -> None:
        self.home, self.name, self.prompt_of, self._reads = home, takes.__name__, takes, reads

    @property
    def what(self) -> str:
        """The call that asks, for an error."""
        return f"{self.name}()"

    @property
    def below(self) -> Any:
        """What asks now for those who are no workers: Python's own function, or a kernel's."""
        found = getattr(self.home, self.name)
        return found.below if isinstance(found, StandIn) else found

    @property
    def kernel(self) -> Any:
        """Whose function that is, if it is a kernel's."""
        return getattr(self.below, "__self__", None)

    @contextmanager
    def stood_in_for(self, ask: Callable[[WorkerContext, str, Way], str]) -> Iterator[None]:
        """Within this `ask` does it for workers, also in modules that a cell calls."""
        before = getattr(self.home, self.name)
        setattr(self.home, self.name, StandIn(self, self.below, ask))
        try:
            yield
        finally:
            if isinstance(getattr(self.home, self.name), StandIn):
                setattr(self.home, self.name, before)

    def read(self, prompt: str) -> str:
        """What the user answers; no other thread asks meanwhile."""
        below = self.below
        own = isinstance(below, BuiltinFunctionType) or getattr(below, "__module__", "") == "getpass"
        if not (own and _has_keyboard()):
            return str(below(prompt))
        from disco_magic.notebook.debugging import terminal

        answer: str = getattr(terminal, self._reads)(prompt)
        return answer


class StandIn:
    """Stands for a function that asks while cells run; a module may keep it for longer.

    Args:
        way: which function.
        below: what it was before; for everybody who is no worker it still is.
        ask: asks for a worker.
    """

    def __init__(
        self, way: Way, below: Callable[..., str], ask: Callable[[WorkerContext, str, Way], str]
    ) -> None:
        self.way = way
        self.below = below
        self._ask = ask

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        """See `input` and `getpass.getpass`; of a worker's arguments the prompt is all that counts."""
        from disco_magic.functions.context import calling_context  # brings NumPy, which loading does not

        worker = calling_context()
        if worker is None:
            return self.below(*args, **kwargs)
        return self._ask(worker, str(self.way.prompt_of(*args, **kwargs)), self.way)


def _input(prompt: object = "", /) -> object:
    return prompt


def _getpass(prompt: object = "Password: ", stream: object = None, *, echo_char: object = None) -> object:  # noqa: ARG001 - as Python's
    return prompt


_input.__name__, _getpass.__name__ = "input", "getpass"  # as a TypeError calls them
INPUT: Final = Way(builtins, _input, "read_line")
GETPASS: Final = Way(getpass, _getpass, "read_secret")


def answer_to(worker: WorkerContext, what: str, read: Callable[[], str], kernel: Any) -> str:
    """What ``read()`` gets from the user; who calls this has the turn to ask.

    Args:
        worker: who asks.
        what: the call that asks, for an error.
        read: asks.
        kernel: who passes the question on to a front end; anything else in a terminal.

    Raises:
        UsageMistake: nobody can answer.
    """
    _check_not_stopped(worker)
    _bring_up()
    try:
        with _whole_messages(worker, getattr(kernel, "session", None)):
            return read()
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
