"""matplotlib on several workers at once: one thread at a time draws a figure or parses a formula.

matplotlib has a lock for drawing a figure. Its parser of formulas (``$x^2$``) has none, and is also used
outside of drawing: 14 of 20 cells failed in which four workers drew figures with formulas. And a thread that
was given up in the middle of either would block drawing for ever.
"""

from __future__ import annotations

import functools
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.notebook.output.streams import current_sink
from disco_magic.threads.locks import new_lock, new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.notebook.output.sink import Sink


class _Held:
    """A lock and its holder.

    Attributes:
        lock: an RLock, because formulas are parsed while figures are drawn. No injected exception is raised
            between taking it in a `with` statement and the body.
        holder: the sink of the worker that draws; None: the notebook draws, or nothing does.
    """

    def __init__(self) -> None:
        self.lock = new_rlock()
        self.holder: Sink | None = None


class RenewedLock:
    """Lets one thread at a time draw.

    A thread that was given up keeps its lock; all others get a new one, except those that wait already, which
    are given up too.

    Args:
        renew: renews state that the thread that was given up may have left half-way.
    """

    def __init__(self, renew: Callable[[], object]) -> None:
        self._renew = renew
        self._held = _Held()
        self._change = new_lock()

    def guarding(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `function` so that one thread at a time executes it."""

        @functools.wraps(function)
        def guarded(*args: Any, **options: Any) -> Any:
            held = self._present()
            with held.lock:
                before, held.holder = held.holder, current_sink.get()
                try:
                    return function(*args, **options)
                finally:
                    held.holder = before

        return guarded

    def _present(self) -> _Held:
        """The one to wait for."""
        with self._change:
            holder = self._held.holder
            if holder is not None and holder.is_given_up:
                self._held = _Held()
                self._renew()
            return self._held


def _renew_parser() -> None:
    mathtext = sys.modules.get("matplotlib.mathtext")
    if mathtext is not None:
        mathtext.MathTextParser._parser = None  # noqa: SLF001 - it is made when the next formula is read


_drawing: Final = RenewedLock(_renew_parser)


def fit_parser(module: ModuleType) -> Callable[[], None]:
    """Let one thread at a time parse a formula; `module` is ``matplotlib.mathtext``."""
    kind = module.MathTextParser
    return replace_all([Replaced(kind, "parse", _drawing.guarding(kind.parse))])


def fit_figure(module: ModuleType) -> Callable[[], None]:
    """Let one thread at a time draw a figure, like matplotlib's lock; `module` is ``matplotlib.figure``."""
    kind = module.Figure
    guarded = Replaced(kind, "draw", _drawing.guarding(kind.draw))
    return replace_all([guarded, Replaced(kind, "_render_lock", nullcontext())])
