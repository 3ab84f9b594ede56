"""pyplot on workers: each has figures of its own, which are shown when its cell has ended.

pyplot keeps the figures of a process in one table, and IPython's inline backend two notes beside it: which
figures are new, and whether there are any. Workers are threads of one process: unaided, `plt.title` on one
of them would write on the figure of another, and `plt.show` would show everybody's.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final

from disco_magic.notebook.libraries.drawing import Turns
from disco_magic.notebook.libraries.homes import OfWorkers
from disco_magic.notebook.output.arrange import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from disco_magic.notebook.shell import Shell

INLINE: Final = "matplotlib_inline.backend_inline"

_tables: Final[OfWorkers[OrderedDict[Any, Any]]] = OfWorkers(OrderedDict)


class WorkerFigures(MutableMapping[Any, Any]):
    """Stands for `Gcf.figs`: on a worker its own figures by number, elsewhere those of the notebook."""

    def __init__(self, before: OrderedDict[Any, Any]) -> None:
        self.before = before

    def _mine(self) -> OrderedDict[Any, Any]:
        table = _tables.mine()
        return self.before if table is None else table

    def __getitem__(self, number: Any) -> Any:
        return self._mine()[number]

    def __setitem__(self, number: Any, manager: Any) -> None:
        self._mine()[number] = manager

    def __delitem__(self, number: Any) -> None:
        del self._mine()[number]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._mine())

    def __reversed__(self) -> Any:
        return reversed(self._mine())

    def __len__(self) -> int:
        return len(self._mine())

    def __repr__(self) -> str:
        return repr(self._mine())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mine(), name)  # move_to_end, copy

    def values(self) -> Any:
        """See `OrderedDict.values`; pyplot reads them backwards."""
        return self._mine().values()


class _Drawn:
    """The inline backend's notes of one worker.

    Attributes:
        called: whether there is a new figure.
        waiting: the new ones.
    """

    def __init__(self) -> None:
        self.called = False
        self.waiting: list[Any] = []


_drawn: Final = OfWorkers(_Drawn)


class WorkerShow:
    """Stands for `show` in the inline backend, whose attributes are its notes; a worker has its own."""

    def __init__(self, show: Any) -> None:
        self._show = show
        functools.update_wrapper(self, show)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """See there."""
        return self._show(*args, **options)

    @property
    def _draw_called(self) -> bool:
        notes = _drawn.mine()
        called: bool = self._show._draw_called if notes is None else notes.called  # noqa: SLF001 - what it stands for
        return called

    @_draw_called.setter
    def _draw_called(self, called: bool) -> None:
        notes = _drawn.mine()
        if notes is None:
            self._show._draw_called = called  # noqa: SLF001
        else:
            notes.called = called

    @property
    def _to_draw(self) -> list[Any]:
        notes = _drawn.mine()
        figures: list[Any] = self._show._to_draw if notes is None else notes.waiting  # noqa: SLF001
        return figures

    @_to_draw.setter
    def _to_draw(self, figures: list[Any]) -> None:
        notes = _drawn.mine()
        if notes is None:
            self._show._to_draw = figures  # noqa: SLF001
        else:
            notes.waiting = figures


def fit_table(module: ModuleType) -> Callable[[], None]:
    """Give every worker figures of its own; `module` is ``matplotlib._pylab_helpers``."""
    table = module.Gcf
    table.figs = figs = WorkerFigures(table.figs)

    def undo() -> None:
        if table.figs is figs:
            table.figs = figs.before
        _tables.forget()

    return undo


def fit_show(module: ModuleType) -> Callable[[], None] | None:
    """Give every worker notes of its own; `module` is the inline backend."""
    show = module.show
    if not (hasattr(show, "_draw_called") and hasattr(show, "_to_draw")):
        return None  # another backend than we know: it shows everybody's figures where it wants
    module.show = stand_in = WorkerShow(show)  # type: ignore[attr-defined]

    def undo() -> None:
        if module.show is stand_in:
            module.show = show  # type: ignore[attr-defined]
        _drawn.forget()

    return undo


_choices: Final = Turns(lambda: None)


def fit_choice(module: ModuleType) -> Callable[[], None]:
    """Let one thread choose the backend, when the first figure is made; `module` is ``matplotlib.pyplot``.

    Of several that import it at once one may find it half imported, and make figures that nobody notes as
    new: they were shown below the next cell (seen twice on a busy machine).
    """
    choose = module._get_backend_mod  # noqa: SLF001 - all ways to a figure lead through it
    module._get_backend_mod = in_turn = _choices.in_turn(choose)  # type: ignore[attr-defined]  # noqa: SLF001

    def undo() -> None:
        if module._get_backend_mod is in_turn:  # noqa: SLF001
            module._get_backend_mod = choose  # type: ignore[attr-defined]  # noqa: SLF001

    return undo


def take_new_figures() -> list[Any]:
    """The calling worker's figures that the inline backend would show now, in their order.

    They are taken out of pyplot's table, unless the user wants to go on with them
    (``InlineBackend.close_figures = False``), and will not be given again.
    """
    backend, notes, table = sys.modules.get(INLINE), _drawn.mine(), _tables.mine()
    if backend is None or notes is None or table is None or not notes.called:
        return []
    waiting, notes.called, notes.waiting = notes.waiting, False, []
    managers = list(table.values())
    figures = [manager.canvas.figure for manager in managers]
    if not backend.InlineBackend.instance().close_figures:
        return [figure for figure in waiting if figure in figures]
    table.clear()  # all at once, whatever strikes
    for manager in managers:
        backend.Gcf.destroy(manager)
    return figures


def draw(shell: Shell, figure: Any) -> Item:
    """A figure in the forms that the user wants, ``InlineBackend.figure_formats``.

    Raises what drawing it raises, see `formatting`.
    """
    data, metadata = shell.display_formatter.format(figure)
    ask = getattr(sys.modules[INLINE], "_fetch_figure_metadata", None)  # a background for a transparent one
    needs = ask(figure) if ask is not None else None
    return Item("picture", data=data, kwargs={"metadata": {**metadata, **(needs or {})}})
