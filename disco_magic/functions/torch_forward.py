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

from disco_magic.functions.context import calling_worker
from disco_magic.functions.replaced import Replaced, replace_all
from disco_magic.functions.turns import TURNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_WHAT: Final = "forward-mode gradients are computed"


class _Level(NamedTuple):
    """One that was entered and not left.

    Attributes:
        who: the worker, or the thread that is none's.
        command: what the worker executed.
        thread: that has entered it.
        turn: what it holds.
    """

    who: object
    command: int | None
    thread: int
    turn: ExitStack


# Of whoever has the turn; those of others were left behind by a stop.
_entered: Final[list[_Level]] = []
_forgetting: Final[list[Callable[[], None]]] = []


def fit_levels(module: ModuleType) -> Callable[[], None]:
    """Let one worker at a time have levels; `module` is ``torch.autograd.forward_ad``."""
    names = vars(module)

    def forget() -> None:
        while names["_current_level"] >= 0:
            pair[1].below()
        with suppress(RuntimeError):  # a stop has struck before PyTorch had noted it; mostly there is none
            names["torch"]._C._exit_dual_level(level=0)  # noqa: SLF001 - there is no other way

    pair = _pair(module, "enter_dual_level", "exit_dual_level")
    return _fit(pair, forget)


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
    """What enters and leaves one, for who has the turn."""

    @wraps(vars(module)[entering])
    def enter() -> Any:
        _take_turn()
        try:
            return pair[0].below()
        except BaseException:
            _leave_turn(is_sure=False)
            raise

    @wraps(vars(module)[leaving])
    def leave(**options: Any) -> None:
        try:
            pair[1].below(**options)
        except RuntimeError:  # refused: it is not the last one
            raise
        except BaseException:
            _leave_turn(is_sure=False)
            raise
        _leave_turn(is_sure=True)

    pair = [Replaced(module, entering, enter), Replaced(module, leaving, leave)]
    return pair


def _take_turn() -> None:
    me, turn = calling_worker(), ExitStack()
    turn.enter_context(TURNS.taken(_WHAT))
    who: object = threading.current_thread() if me is None else me
    command = None if me is None else me._executes  # noqa: SLF001 - no user asks for it
    are_left = len(_entered)
    _entered[:] = [each for each in _entered if each.who is who and each.command == command]
    if are_left and not _entered:
        _forget()
    _entered.append(_Level(who, command, threading.get_ident(), turn))


def _leave_turn(*, is_sure: bool) -> None:
    """The calling thread has left the last one that it has entered; or it was struck as it did."""
    here = threading.get_ident()
    for level in [each for each in _entered if each.thread == here][-1:]:
        _entered[:] = [each for each in _entered if each is not level]
        if not is_sure and not _entered:
            _forget()
        level.turn.close()


def _forget() -> None:
    """Nobody has any: what a stop has left of one goes."""
    for each in _forgetting:
        each()
