"""pyplot on workers: each has its own figures, which are shown when its cell has ended.

pyplot keeps the figures of a process in one table, and IPython's inline backend notes which of them are new.
Workers are threads of one process: `plt.title` on one would change the figure of another, and `plt.show`
would show the figures of all.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.notebook.libraries.drawing import RenewedLock
from disco_magic.notebook.libraries.homes import OfWorkers, of_mine, replace_for_workers
from disco_magic.notebook.output.arrange import Item

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.notebook.shell import Shell

INLINE: Final = "matplotlib_inline.backend_inline"

_tables: Final[OfWorkers[OrderedDict[Any, Any]]] = OfWorkers(OrderedDict)


class WorkerFigures(MutableMapping[Any, Any]):
    """Replaces `Gcf.figs`: on a worker it has the worker's figures, elsewhere the notebook's."""

    def __init__(self, before: OrderedDict[Any, Any]) -> None:
        self.before = before

    def _mine(self) -> OrderedDict[Any, Any]:
        table = _tables.mine()
        return self.before if table is None else table

    __getitem__, __setitem__, __delitem__ = map(of_mine, ("__getitem__", "__setitem__", "__delitem__"))
    __iter__, __reversed__, __len__, __repr__ = map(
        of_mine, ("__iter__", "__reversed__", "__len__", "__repr__")
    )
    values = of_mine("values")  # pyplot reads them backwards

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mine(), name)  # move_to_end, copy


@dataclass
class _Drawn:
    """The inline backend's state of one worker."""

    called: bool = False
    waiting: list[Any] = field(default_factory=list)


_drawn: Final = OfWorkers(_Drawn)


def _own(theirs: str, name: str) -> property:
    """Return the property for an attribute of `show`, which is one of `_Drawn` on workers."""

    def read(show: Any) -> Any:
        notes = _drawn.mine()
        return getattr(show.__wrapped__, theirs) if notes is None else getattr(notes, name)

    def assign(show: Any, value: Any) -> None:
        notes = _drawn.mine()
        if notes is None:
            setattr(show.__wrapped__, theirs, value)
        else:
            setattr(notes, name, value)

    return property(read, assign)


class WorkerShow:
    """Replaces `show` of the inline backend, whose attributes are its state; each worker has its own."""

    def __init__(self, show: Any) -> None:
        self._show = show
        functools.update_wrapper(self, show)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """See there."""
        return self._show(*args, **options)

    _draw_called = _own("_draw_called", "called")
    _to_draw = _own("_to_draw", "waiting")


def fit_table(module: ModuleType) -> Callable[[], None]:
    """Give every worker its own figures; `module` is ``matplotlib._pylab_helpers``."""
    table = module.Gcf
    return replace_for_workers([Replaced(table, "figs", WorkerFigures(table.figs))], _tables)


def fit_show(module: ModuleType) -> Callable[[], None] | None:
    """Give every worker its own state of the inline backend (`module`)."""
    show = module.show
    if not (hasattr(show, "_draw_called") and hasattr(show, "_to_draw")):
        return None  # an unknown version: it shows the figures of all as it likes
    return replace_for_workers([Replaced(module, "show", WorkerShow(show))], _drawn)


_choices: Final = RenewedLock(lambda: None)


def fit_choice(module: ModuleType) -> Callable[[], None]:
    """Let one thread at a time choose the backend for the first figure; `module` is ``matplotlib.pyplot``.

    If several import it at once, one may find it half imported and make figures that are not noted as new:
    they were shown below the next cell (seen twice on a busy machine).
    """
    name = "_get_backend_mod"  # all ways to a figure lead through it
    return replace_all([Replaced(module, name, _choices.guarding(vars(module)[name]))])


def take_new_figures() -> list[Any]:
    """The calling worker's figures that the inline backend would show now, in order; each only once.

    They are removed from pyplot's table, unless the user wants to continue with them
    (``InlineBackend.close_figures = False``).
    """
    backend = sys.modules.get(INLINE)
    if backend is None:
        return []
    notes, table = _drawn.mine(), _tables.mine()
    if notes is None or table is None or not notes.called:
        return []
    waiting, notes.called, notes.waiting = notes.waiting, False, []
    managers = list(table.values())
    figures = [manager.canvas.figure for manager in managers]
    if not backend.InlineBackend.instance().close_figures:
        return [figure for figure in waiting if figure in figures]
    table.clear()  # all at once, even if an interrupt comes
    for manager in managers:
        backend.Gcf.destroy(manager)
    return figures


def draw(shell: Shell, figure: Any) -> Item:
    """A figure in the formats that the user wants, ``InlineBackend.figure_formats``.

    Raises any error of drawing it, see `worker_formatting`.
    """
    data, metadata = shell.display_formatter.format(figure)
    ask = getattr(sys.modules[INLINE], "_fetch_figure_metadata", None)  # a background for a transparent one
    needs = ask(figure) if ask is not None else None
    return Item("picture", data=data, kwargs={"metadata": {**metadata, **(needs or {})}})
