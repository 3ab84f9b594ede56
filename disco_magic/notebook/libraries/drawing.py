"""matplotlib on several workers at once: one thread at a time draws a figure or reads a formula.

matplotlib locks the drawing of a figure itself. Its parser of formulas (``$x^2$``) has no lock, and is used
outside of drawing, too: unaided, 14 of 20 cells failed in which four workers drew figures with formulas. And
a thread that was given up in the middle of either would keep everybody from drawing for ever.
"""

from __future__ import annotations

import functools
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from disco_magic.locks import new_lock, new_rlock
from disco_magic.notebook.output.streams import current_sink

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.notebook.output.sink import Sink


class _Turn:
    """Whose turn it is.

    Attributes:
        lock: an RLock: formulas are read while figures are drawn. Nothing that is injected strikes between a
            `with` statement's taking it and the body.
        holder: whose cell draws; None: the notebook's, or nobody's.
    """

    def __init__(self) -> None:
        self.lock = new_rlock()
        self.holder: Sink | None = None


class Turns:
    """Who draws now.

    A thread that was given up while it draws keeps its turn: all others get a new one, but for those that
    wait already, who are given up with it.

    Args:
        renew: makes anew what the one that was given up may have left half-way.
    """

    def __init__(self, renew: Callable[[], object]) -> None:
        self._renew = renew
        self._turn = _Turn()
        self._change = new_lock()

    def in_turn(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, by one thread at a time."""

        @functools.wraps(function)
        def called_in_turn(*args: Any, **options: Any) -> Any:
            turn = self._present()
            with turn.lock:
                before, turn.holder = turn.holder, current_sink.get()
                try:
                    return function(*args, **options)
                finally:
                    turn.holder = before

        return called_in_turn

    def _present(self) -> _Turn:
        """The turn to wait for."""
        with self._change:
            holder = self._turn.holder
            if holder is not None and holder.is_given_up:
                self._turn = _Turn()
                self._renew()
            return self._turn


def _renew_parser() -> None:
    mathtext = sys.modules.get("matplotlib.mathtext")
    if mathtext is not None:
        mathtext.MathTextParser._parser = None  # noqa: SLF001 - it is made when the next formula is read


_turns: Final = Turns(_renew_parser)


def fit_parser(module: ModuleType) -> Callable[[], None]:
    """Let one thread read a formula at a time; `module` is ``matplotlib.mathtext``."""
    kind = module.MathTextParser
    parse = kind.parse
    kind.parse = in_turn = _turns.in_turn(parse)

    def undo() -> None:
        if kind.parse is in_turn:
            kind.parse = parse

    return undo


def fit_figure(module: ModuleType) -> Callable[[], None]:
    """Let one thread draw a figure at a time, as matplotlib does it; `module` is ``matplotlib.figure``."""
    kind = module.Figure
    draw, lock = kind.draw, kind._render_lock  # noqa: SLF001 - there is no other way
    kind.draw, kind._render_lock = _turns.in_turn(draw), nullcontext()  # noqa: SLF001
    in_turn = kind.draw

    def undo() -> None:
        if kind.draw is in_turn:
            kind.draw, kind._render_lock = draw, lock  # noqa: SLF001

    return undo
