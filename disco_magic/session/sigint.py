"""Who hears SIGINT, Ctrl-C and the stop button, while somebody waits."""

from __future__ import annotations

import signal
import threading

# What `signal` calls. Its own functions look first for every handler among the members of an enumeration, in
# vain: 3 us each, and for one cell there are eight waits with four of these calls.
from _signal import getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from typing import TYPE_CHECKING, Any, Final, Self

from disco_magic.callers.sites import runtime_file
from disco_magic.core.words import is_kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

# Their handlers of SIGINT are there to end what runs, as ours: we do it for them.
_OF_FRONT_ENDS: Final = frozenset({"asyncio", "pdb", "IPython", "ipykernel"})
# What a program's own handler has raised since somebody waits; the interrupt that it leads to tells it.
_raised: Final[list[BaseException]] = []


def interrupt(text: str) -> KeyboardInterrupt:
    """The error of who was interrupted; what a program's own handler has raised is its cause."""
    error = KeyboardInterrupt(text)
    error.__cause__ = _raised[-1] if _raised else None
    return error


class sigint_to:  # noqa: N801 - a context manager, as `contextlib.suppress`
    """Within it `hear` is called instead of raising KeyboardInterrupt, at any bytecode of the main thread.

    A program's own handler, if it is set by `signal.signal`, is called as ever, and `hear` only if that
    raises; where SIGINT is ignored it stays so. Of several in one thread the one that began last hears it.
    They may end in any order, as tasks of an event loop do. In other threads this does nothing: Python
    delivers signals to the main thread only.

    It is the handler of SIGINT meanwhile, which stands over the one that it found. Costs 2 us.
    """

    def __init__(self, hear: Callable[[], object]) -> None:
        self._heard_by = hear
        self._hear: Callable[[], object] | None = None
        self._previous: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        previous = getsignal(signal.SIGINT)
        # None: a handler that C code installed, which could not be put back.
        # A notebook's kernel ignores it between cells: there its tasks go on.
        if previous is None or (_is(previous, signal.SIG_IGN) and not is_kernel()):
            return self
        if not isinstance(previous, sigint_to):
            _raised.clear()
        self._previous, self._hear = previous, self._heard_by
        set_handler(signal.SIGINT, self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._hear is not None:
            self._hear = None
            self._give_way(self.below())

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """A SIGINT has come; in the main thread, between any two bytecodes."""
        if self._hear is not None:
            if not self._is_enough(number, frame):
                self._hear()
            return
        # It is closed, and somebody has put it back, or `__exit__` has not put back another one yet, and
        # would not after what is raised here.
        below = self.below()
        self._give_way(below)
        if callable(below):
            below(number, frame)
        elif _is(below, signal.SIG_DFL):
            signal.raise_signal(number)  # it is in force again: let it end the process

    @property
    def is_closed(self) -> bool:
        """Whether it hears nothing any more."""
        return self._hear is None

    def below(self) -> Any:
        """The handler that counts without this one and without those below that are closed."""
        found = self._previous
        if isinstance(found, sigint_to) and found.is_closed:
            found = self._previous = found.below()  # else waits that overlap for ever leave a chain behind
        return found

    def bottom(self) -> Any:
        """The handler that was there before any of these."""
        found = self.below()
        while isinstance(found, sigint_to):
            found = found.below()
        return found

    def _is_enough(self, number: int, frame: FrameType | None) -> bool:
        """Whether the program goes on: it has a handler of its own, which is called now."""
        return _lets_go_on(self.bottom(), number, frame)

    def _give_way(self, below: Any) -> None:
        is_mine: bool = getsignal(signal.SIGINT) is self  # else it stays with whoever has it
        if is_mine:
            set_handler(signal.SIGINT, below)


class sigint_deferred_to(sigint_to):  # noqa: N801 - as above
    """As `sigint_to` for who raises the signal again soon: a program's own handler is not called before."""

    def _is_enough(self, number: int, frame: FrameType | None) -> bool:  # noqa: ARG002 - as above
        return False


def _is(handler: Any, default: signal.Handlers) -> bool:
    """Whether it is that one, which `getsignal` gives as a number."""
    return type(handler) is int and handler == default


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
