"""Who receives SIGINT (Ctrl-C, the stop button) while a thread waits for workers."""

from __future__ import annotations

import importlib
import signal
import sys
import threading

# The C functions behind `signal`. The ones in `signal` first try to convert every handler to an enum member,
# in vain: 3 us each, and one cell has eight waits with four of these calls.
from _signal import getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from typing import TYPE_CHECKING, Any, Final, Self

from disco_magic.callers.sites import runtime_file
from disco_magic.core.words import is_kernel

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

# The SIGINT handlers of these packages only end what runs, as ours does: we do it in their place.
_OF_FRONT_ENDS: Final = frozenset({"asyncio", "pdb", "IPython", "ipykernel"})
# What a program's own handler raised during the current wait; it becomes the interrupt's cause.
_raised: Final[list[BaseException]] = []


def interrupt(text: str) -> KeyboardInterrupt:
    """Return the error of an interrupted wait; what a program's own handler raised is its cause."""
    error = KeyboardInterrupt(text)
    error.__cause__ = _raised[-1] if _raised else None
    return error


class sigint_to:  # noqa: N801 - a context manager, as `contextlib.suppress`
    """Within it, SIGINT calls `hear` instead of raising KeyboardInterrupt, between any two bytecodes.

    A program's own handler, set by `signal.signal`, is still called, and `hear` only if that raises; where
    SIGINT is ignored it stays ignored. If several are active in one thread, the one that began last receives
    it. They may end in any order, as tasks of an event loop do. In other threads this does nothing, because
    Python delivers signals to the main thread only.

    Each instance is itself the SIGINT handler while active, on top of the one that it found. Costs 2 us.
    """

    def __init__(self, hear: Callable[[], object]) -> None:
        self._heard_by = hear
        self._hear: Callable[[], object] | None = None
        self._previous: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        previous = getsignal(signal.SIGINT)
        # None: a handler that C code installed, which could not be restored.
        # A notebook's kernel ignores SIGINT between cells, but its tasks run there and have to hear it.
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
        """Handle a SIGINT; called in the main thread, between any two bytecodes."""
        if self._hear is not None:
            if not self._is_enough(number, frame):
                self._hear()
            return
        # This one is closed, but somebody has reinstalled it, or `__exit__` has not restored the handler
        # below yet, and what is raised here would keep it from doing so.
        below = self.below()
        self._give_way(below)
        if callable(below):
            below(number, frame)
        elif _is(below, signal.SIG_DFL):
            signal.raise_signal(number)  # the default is in force again: let it end the process

    @property
    def is_closed(self) -> bool:
        """Whether it no longer receives SIGINT."""
        return self._hear is None

    def below(self) -> Any:
        """The next handler below that is not closed."""
        found = self._previous
        if isinstance(found, sigint_to) and found.is_closed:
            found = self._previous = found.below()  # else overlapping waits would build a chain
        return found

    def bottom(self) -> Any:
        """The handler that was installed before any of these."""
        found = self.below()
        while isinstance(found, sigint_to):
            found = found.below()
        return found

    def _is_enough(self, number: int, frame: FrameType | None) -> bool:
        """Whether the program's own handler, called here, has handled it, so that the program goes on."""
        return _lets_go_on(self.bottom(), number, frame)

    def _give_way(self, below: Any) -> None:
        is_mine: bool = getsignal(signal.SIGINT) is self  # else leave the current handler alone
        if is_mine:
            set_handler(signal.SIGINT, below)


class sigint_deferred_to(sigint_to):  # noqa: N801 - as above
    """As `sigint_to`, but never calls the program's own handler: the caller soon raises the signal again."""

    def _is_enough(self, number: int, frame: FrameType | None) -> bool:  # noqa: ARG002 - as above
        return False


class sigint_noted(sigint_to):  # noqa: N801 - as above
    """Within it, SIGINT also calls `hear`, and then goes to the handler that was found."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a SIGINT, as above."""
        if self.is_closed:
            super().__call__(number, frame)
            return
        self._heard_by()
        below = self.below()
        if callable(below):
            below(number, frame)


def import_whole(name: str) -> None:
    """Import a module with all that it imports, however often Ctrl-C or the stop button is pressed meanwhile.

    A process that was stopped while it imported NumPy cannot import it again.

    Raises:
        KeyboardInterrupt: it was pressed; the module has been imported.
    """
    if name in sys.modules:
        return
    pressed: list[bool] = []
    with sigint_deferred_to(lambda: pressed.append(True)):
        importlib.import_module(name)
    if pressed:
        raise KeyboardInterrupt("stopped before anything was sent to workers")


def _is(handler: Any, default: signal.Handlers) -> bool:
    """Whether `handler` is `default`, which `getsignal` returns as a plain int."""
    return type(handler) is int and handler == default


def _lets_go_on(handler: Any, number: int, frame: FrameType | None) -> bool:
    """Call a program's own handler, if `handler` is one; whether it was, and let the program go on."""
    if not callable(handler) or handler is signal.default_int_handler:
        return False
    function = getattr(handler, "func", handler)  # asyncio's are partial functions
    module = str(getattr(function, "__module__", "")).partition(".")[0]
    code = getattr(function, "__code__", None)  # a module run with -m has another name
    if module in _OF_FRONT_ENDS or (code is not None and runtime_file(code.co_filename)):
        return False
    try:
        handler(number, frame)
    except BaseException as error:  # noqa: BLE001 - half-way nothing may be raised: see `interrupt`
        _raised.append(error)
        return False
    return True
