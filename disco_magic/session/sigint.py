"""Who hears SIGINT, Ctrl-C and the stop button, while somebody waits."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.words import is_kernel
from disco_magic.functions.sites import runtime_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

# Their handlers of SIGINT are there to end what runs, as ours: we do it for them.
_OF_FRONT_ENDS: Final = frozenset({"asyncio", "pdb", "IPython", "ipykernel"})
# What a program's own handler has raised since somebody waits; the interrupt that it leads to tells it.
_raised: Final[list[BaseException]] = []


def sigint_to(hear: Callable[[], object]) -> AbstractContextManager[None]:
    """Call `hear` instead of raising KeyboardInterrupt, at any bytecode of the main thread.

    A program's own handler, if it is set by `signal.signal`, is called as ever, and `hear` only if that
    raises; where SIGINT is ignored it stays so. Of several in one thread the one that began last hears it.
    They may end in any order, as tasks of an event loop do. In other threads this does nothing: Python
    delivers signals to the main thread only.
    """
    return _standing(_Handler, hear)


def sigint_deferred_to(hear: Callable[[], object]) -> AbstractContextManager[None]:
    """As `sigint_to` for who raises the signal again soon: a program's own handler is not called before."""
    return _standing(_Deferring, hear)


def interrupt(text: str) -> KeyboardInterrupt:
    """The error of who was interrupted; what a program's own handler has raised is its cause."""
    error = KeyboardInterrupt(text)
    error.__cause__ = _raised[-1] if _raised else None
    return error


@contextmanager
def _standing(kind: type[_Handler], hear: Callable[[], object]) -> Iterator[None]:
    previous = signal.getsignal(signal.SIGINT)
    # None: a handler that C code installed, which could not be put back.
    # A notebook's kernel ignores it between cells: there its tasks go on.
    is_to_be_left = previous is None or (previous is signal.SIG_IGN and not is_kernel())
    if threading.current_thread() is not threading.main_thread() or is_to_be_left:
        yield
        return
    if not isinstance(previous, _Handler):
        _raised.clear()
    handler = kind(hear, previous)
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        handler.close()


class _Handler:
    """A handler of SIGINT, which stands over the one that it found."""

    def __init__(self, hear: Callable[[], object], previous: Any) -> None:
        self._hear: Callable[[], object] | None = hear
        self._previous = previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._hear is not None:
            if not self._is_enough(number, frame):
                self._hear()
            return
        # It is closed, and somebody has put it back, or `close` has not put back another one yet: after what
        # is raised here it would not.
        below = self.below()
        self._give_way(below)
        if callable(below):
            below(number, frame)
        elif below is signal.SIG_DFL:
            signal.raise_signal(number)  # it is in force again: let it end the process

    @property
    def is_closed(self) -> bool:
        """Whether it hears nothing any more."""
        return self._hear is None

    def below(self) -> Any:
        """The handler that counts without this one and without those below that are closed."""
        found = self._previous
        if isinstance(found, _Handler) and found.is_closed:
            found = self._previous = found.below()  # else waits that overlap for ever leave a chain behind
        return found

    def bottom(self) -> Any:
        """The handler that was there before any of these."""
        found = self.below()
        while isinstance(found, _Handler):
            found = found.below()
        return found

    def _is_enough(self, number: int, frame: FrameType | None) -> bool:
        """Whether the program goes on: it has a handler of its own, which is called now."""
        return _lets_go_on(self.bottom(), number, frame)

    def close(self) -> None:
        """Hear it no more."""
        self._hear = None
        self._give_way(self.below())

    def _give_way(self, below: Any) -> None:
        is_mine: bool = signal.getsignal(signal.SIGINT) is self  # else it stays with whoever has it
        if is_mine:
            signal.signal(signal.SIGINT, below)


class _Deferring(_Handler):
    def _is_enough(self, number: int, frame: FrameType | None) -> bool:  # noqa: ARG002 - as above
        return False


def _lets_go_on(handler: Any, number: int, frame: FrameType | None) -> bool:
    """Whether a program has a handler of its own, which is called then, and that lets the program go on."""
    if not callable(handler) or handler is signal.default_int_handler:
        return False
    function = getattr(handler, "func", handler)  # asyncio's are partial functions
    module = str(getattr(function, "__module__", "")).partition(".")[0]
    code = getattr(function, "__code__", None)  # a module that is run with -m bears another name
    if module in _OF_FRONT_ENDS or (code is not None and runtime_file(code.co_filename)):
        return False
    try:
        handler(number, frame)
    except BaseException as error:  # noqa: BLE001 - half-way nothing may be raised: see `interrupt`
        _raised.append(error)
        return False
    return True
