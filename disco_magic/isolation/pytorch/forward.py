"""Forward-mode gradients in PyTorch on several workers: ``jvp``, ``jacfwd``, ``hessian``, ``dual_level``.

The level at which they are computed is the process's, and so is the depth of nesting. With two threads, one
used the level of the other, which ended it meanwhile: errors about levels, or a crash of the process. So one
worker computes them at a time.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.current import is_given_up
from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.isolation.worker_mutex import Entry

_WHAT: Final = "forward-mode gradients are computed"


class _Level(NamedTuple):
    """A level that was entered and not left."""

    entry: Entry
    mutex: ExitStack


# All of the thread that has the mutex; those of threads that are gone were left behind by a stop.
_entered: Final[list[_Level]] = []
_forgetting: Final[list[Callable[[], None]]] = []


def fit_levels(module: ModuleType) -> Callable[[], None]:
    """Let one worker at a time enter levels; `module` is ``torch.autograd.forward_ad``."""
    names = vars(module)

    def forget() -> None:
        # PyTorch sets this after it has entered or left a level, of which there can be only one.
        names["_current_level"] = -1
        with suppress(RuntimeError):  # usually there is none
            names["torch"]._C._exit_dual_level(level=0)  # noqa: SLF001 - there is no other way

    return _fit(_pair(module, "enter_dual_level", "exit_dual_level"), forget)


def fit_nesting(module: ModuleType) -> Callable[[], None]:
    """Let one worker at a time nest levels; `module` is ``torch._functorch.eager_transforms``."""

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
    """Return replacements of the functions that enter and leave a level, which hold the mutex in between."""

    @replacing(module, entering)
    def enter() -> Any:
        _take_mutex()
        try:
            return enter.below()
        except BaseException:
            _leave_mutex()
            raise

    @replacing(module, leaving)
    def leave(**options: Any) -> None:
        if is_given_up() and not _is_in_one():
            return  # the thread that now has the turn has forgotten the level
        try:
            leave.below(**options)
        except RuntimeError:  # refused: it is not the innermost level
            raise
        except BaseException:
            _leave_mutex()
            raise
        _leave_mutex()

    return [enter, leave]


def _is_in_one() -> bool:
    """Whether the calling thread has entered a level that was not forgotten."""
    here = threading.current_thread()
    return any(each.entry.thread is here for each in _entered)


def _take_mutex() -> None:
    mutex = ExitStack()
    entry = mutex.enter_context(WORKER_MUTEX.taken(_WHAT))
    _entered[:] = [each for each in _entered if not each.entry.is_gone]
    _forget_the_rest()
    _entered.append(_Level(entry, mutex))


def _leave_mutex() -> None:
    """Release the mutex of the calling thread's last level: it has left it, or was interrupted doing so."""
    here = threading.current_thread()
    for level in [each for each in _entered if each.entry.thread is here][-1:]:
        _entered[:] = [each for each in _entered if each is not level]
        _forget_the_rest()
        level.mutex.close()


def _forget_the_rest() -> None:
    """If there is no level, remove what a stop has left of one: it may have struck anywhere. Takes 10 us."""
    for forget in () if _entered else _forgetting:
        forget()
