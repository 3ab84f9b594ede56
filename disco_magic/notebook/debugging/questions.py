"""Asks one question of a worker: through the kernel, or at a terminal."""

from __future__ import annotations

import builtins
import getpass
import os
import select
import sys
import threading
from contextlib import contextmanager
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import StdinNotImplementedError

from disco_magic.errors import UsageMistake, WorkerInterrupt
from disco_magic.isolation.streams import unwrapped
from disco_magic.notebook.output.footer import FOOTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from disco_magic.functions.context import WorkerContext


_LOOK_UP_S: Final = 0.1
_MOST: Final = 1 << 16


class Way:
    """One of Python's ways to ask the user.

    Args:
        home: the module with the function that asks, under the name of `takes`.
        takes: a function with the same parameters, which returns the prompt.
        reads: reads from the keyboard for a worker, after a prompt.
    """

    def __init__(self, home: ModuleType, takes: Callable[..., object], reads: Callable[[str], str]) -> None:
        self.home, self.name, self.prompt_of, self._reads = home, takes.__name__, takes, reads

    @property
    def what(self) -> str:
        """The call that asks, for errors."""
        return f"{self.name}()"

    @property
    def below(self) -> Any:
        """The function that asks for the notebook itself: Python's, or a kernel's."""
        found = getattr(self.home, self.name)
        return found.below if isinstance(found, StandIn) else found

    @property
    def kernel(self) -> Any:
        """The kernel that owns this function; None if it is Python's."""
        return getattr(self.below, "__self__", None)

    def stand_in(self, ask: Callable[[WorkerContext, str, Way], str], replaced: dict[Way, Any]) -> None:
        """Let `ask` ask for workers, also in modules that cells call; `put_back` needs what it `replaced`."""
        found = replaced[self] = getattr(self.home, self.name)  # first: an interrupt may strike
        below = found.below if isinstance(found, StandIn) else found
        setattr(self.home, self.name, StandIn(self, below, ask))

    def put_back(self, replaced: Any) -> None:
        """Let that function ask again, unless something was installed over our stand-in."""
        if isinstance(getattr(self.home, self.name), StandIn):
            setattr(self.home, self.name, replaced)

    def read(self, prompt: str) -> str:
        """The user's answer; no other thread asks meanwhile."""
        below = self.below
        own = isinstance(below, BuiltinFunctionType) or getattr(below, "__module__", "") == "getpass"
        return self._reads(prompt) if own and _has_keyboard() else str(below(prompt))


class StandIn:
    """Replaces a function that asks while cells run; a module may keep it for longer."""

    def __init__(
        self, way: Way, below: Callable[..., str], ask: Callable[[WorkerContext, str, Way], str]
    ) -> None:
        self.way = way
        self.below = below
        self._ask = ask

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        """See `input` and `getpass.getpass`; for workers only the prompt matters."""
        from disco_magic.functions.context import calling_context  # loads NumPy

        worker = calling_context()
        if worker is None:
            return self.below(*args, **kwargs)
        return self._ask(worker, str(self.way.prompt_of(*args, **kwargs)), self.way)


# --- at a terminal ---------------------------------------------------------------------------------


def read_line(prompt: str) -> str:
    """Show `prompt` and read a line; return it without its end. An interrupt ends the wait.

    `input` would stay in C code until the user presses Enter: the thread would be given up, and would then
    steal the first line typed at IPython's prompt.
    """
    keyboard = sys.stdin.fileno()
    moves = os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    if not moves:
        _write(prompt)
    line = b""
    try:
        with FOOTER.aside(_write, prompt if moves else ""):
            _await_input(keyboard)
            # The terminal delivers whole lines.
            line = os.read(keyboard, _MOST)
    finally:
        if not line.endswith(b"\n"):
            _write("\n")
    if not line:
        raise EOFError
    return line.decode(sys.stdin.encoding, "replace").rstrip("\n")


def _await_input(keyboard: int) -> None:
    while not select.select([keyboard], [], [], _LOOK_UP_S)[0]:
        pass


def read_secret(prompt: str) -> str:
    """Like `read_line`, without showing the typed text."""
    import termios

    keyboard = sys.stdin.fileno()
    shown = termios.tcgetattr(keyboard)
    hidden = [*shown[:3], (shown[3] & ~termios.ECHO) | termios.ECHONL, *shown[4:]]
    try:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, hidden)
        return read_line(prompt)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, shown)


def _write(text: str) -> None:
    screen = unwrapped(sys.stdout)
    screen.write(text)
    screen.flush()


def _input(prompt: object = "", /) -> object:
    return prompt


def _getpass(prompt: object = "Password: ", stream: object = None, *, echo_char: object = None) -> object:  # noqa: ARG001 - as Python's
    return prompt


_input.__name__, _getpass.__name__ = "input", "getpass"  # the names in a TypeError
INPUT: Final = Way(builtins, _input, read_line)
GETPASS: Final = Way(getpass, _getpass, read_secret)


def answer_to(worker: WorkerContext, what: str, read: Callable[[], str], kernel: Any) -> str:
    """The answer that ``read()`` gets from the user; the caller has the turn to ask."""
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
    """Flush the real streams before the question; a worker's own flush does not reach them."""
    for stream in (sys.stdout, sys.stderr):
        screen = unwrapped(stream)
        if screen is not None:
            screen.flush()


def _guard_of(worker: WorkerContext) -> Any:
    """The worker's guard of collectives, also at a debugger's prompt, where `AtPrompt` wraps it."""
    guard: Any = worker._guard  # noqa: SLF001 - the runtime's own, needed only here
    return getattr(guard, "below", guard)


def _check_not_stopped(worker: WorkerContext) -> None:
    """Raise in a command that was interrupted and goes on all the same, instead of opening a prompt.

    Its thread is given up soon. At a prompt, where nothing is injected any more, it would steal the answers
    to other questions for ever.
    """
    lane = _guard_of(worker)._worker.lane  # noqa: SLF001 - as above
    if lane.interrupted is not None and lane.thread_id == threading.get_ident():
        raise WorkerInterrupt("interrupted before it could ask")


@contextmanager
def _whole_messages(worker: WorkerContext, session: Any) -> Iterator[None]:
    """In this block, hold interrupts back while the calling thread sends a message.

    ZeroMQ takes a message part by part. After an interrupt in between, the next question would be sent as the
    end of this one, and front ends would drop it because of its signature.
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
