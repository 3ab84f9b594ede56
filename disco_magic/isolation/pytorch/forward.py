"""Forward-mode gradients of PyTorch's on several workers: ``jvp``, ``jacfwd``, ``hessian``, ``dual_level``.

The level at which they are computed is the process's, and so is how deep it is nested. Of two threads one
used the level of the other, which ended it meanwhile: errors that tell of levels, or a crash of the process.
So one worker computes them at a time.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.current import is_given_up
from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.isolation.worker_mutex import Entry

_WHAT: Final = "forward-mode gradients are computed"


class _Level(NamedTuple):
    """One that was entered and not left.

    Attributes:
        entry: of who has entered it.
        mutex: gives that back.
    """

    entry: Entry
    mutex: ExitStack


# Of whoever has the mutex; those that are gone were left behind by a stop.
_entered: Final[list[_Level]] = []
_forgetting: Final[list[Callable[[], None]]] = []


def fit_levels(module: ModuleType) -> Callable[[], None]:
    """Let one worker at a time have levels; `module` is ``torch.autograd.forward_ad``."""
    names = vars(module)

    def forget() -> None:
        # PyTorch notes it after it has entered or left the only one that can be.
        names["_current_level"] = -1
        with suppress(RuntimeError):  # there is none, mostly
            names["torch"]._C._exit_dual_level(level=0)  # noqa: SLF001 - there is no other way

    return _fit(_pair(module, "enter_dual_level", "exit_dual_level"), forget)


def fit_nesting(module: ModuleType) -> Callable[[], None]:
    """Let one worker at a time nest them; `module` is ``torch._functorch.eager_transforms``."""

    def forget() -> None:
        vars(module)["JVP_NESTING"] = 0

    return _fit(_pair(module, "enter_jvp_nesting", "exit_jvp_nesting"), forget)


def _fit(pair: list[Replaced], forget: Callable[[], None]) -> Callable[[], None]:
    take = replace_all(pair)
    _forgetting.append(forget)

    def undo() -> None:
        _forgetting.remove(forget)
        take()

    return undo


def _pair(module: ModuleType, entering: str, leaving: str) -> list[Replaced]:
    """What enters and leaves one, for who has the mutex."""

    @wraps(vars(module)[entering])
    def enter() -> Any:
        _take_mutex()
        try:
            return pair[0].below()
        except BaseException:
            _leave_mutex()
            raise

    @wraps(vars(module)[leaving])
    def leave(**options: Any) -> None:
        if is_given_up() and not _is_in_one():
            return  # whoever has the mutex now has forgotten it
        try:
            pair[1].below(**options)
        except RuntimeError:  # refused: it is not the last one
            raise
        except BaseException:
            _leave_mutex()
            raise
        _leave_mutex()

    pair = [Replaced(module, entering, enter), Replaced(module, leaving, leave)]
    return pair


def _is_in_one() -> bool:
    """Whether the calling thread has entered one that nobody has forgotten."""
    here = threading.current_thread()
    return any(each.entry.thread is here for each in _entered)


def _take_mutex() -> None:
    mutex = ExitStack()
    entry = mutex.enter_context(WORKER_MUTEX.taken(_WHAT))
    _entered[:] = [each for each in _entered if not each.entry.is_gone]
    _forget_the_rest()
    _entered.append(_Level(entry, mutex))


def _leave_mutex() -> None:
    """The calling thread has left the last one that it has entered; or it was struck as it did."""
    here = threading.current_thread()
    for level in [each for each in _entered if each.entry.thread is here][-1:]:
        _entered[:] = [each for each in _entered if each is not level]
        _forget_the_rest()
        level.mutex.close()


def _forget_the_rest() -> None:
    """If nobody has any, what a stop has left of one goes: it may have struck anywhere. Takes 10 us."""
    for forget in () if _entered else _forgetting:
        forget()
