"""tqdm's list of bars, one per worker instead of one per process.

tqdm puts each bar of a process into a line below the earlier ones. Workers are threads of one process, each
with its own lines: the only bar of worker 3 would be in its fourth line, and `tqdm.write` on one worker would
also draw the bars of all others.

In a notebook, `tqdm.auto` would choose widgets: two rows per worker, in order of arrival, of which a saved
notebook keeps the first state. On workers it makes text bars, which the cell shows below each other.
`tqdm.notebook` still makes widgets there.
"""

from __future__ import annotations

import sys
import threading
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakSet

from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.isolation.streams import current_writer
from disco_magic.notebook.libraries.homes import of_mine
from disco_magic.notebook.output.streams import current_sink
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.notebook.output.sink import Sink

_BARS: Final = "tqdm.std"  # the module


class WorkerBars(WeakSet[Any]):
    """Replaces `tqdm._instances`: on a worker it has the worker's bars, elsewhere the notebook's."""

    def __init__(self, before: WeakSet[Any]) -> None:
        super().__init__()
        self.before = before
        self._of: WeakKeyDictionary[Sink, WeakSet[Any]] = WeakKeyDictionary()

    def _mine(self) -> WeakSet[Any]:
        sink = current_sink.get()
        return self.before if sink is None else self._of.setdefault(sink, WeakSet())

    add, remove = of_mine("add"), of_mine("remove")
    __iter__, __len__, __contains__ = map(of_mine, ("__iter__", "__len__", "__contains__"))

    def may_move(self, sink: Sink) -> bool:
        """Whether a worker has bars. Bars that it made before this was installed count as the notebook's."""
        return bool(self.before or self._of.get(sink))

    def copy(self) -> Any:
        """The bars of all, for tqdm's thread, which refreshes bars that have not moved for long."""
        return WeakSet([*self.before, *(bar for bars in [*self._of.values()] for bar in bars)])


class BarKeeper:
    """Installs `WorkerBars` in tqdm while cells run, and removes it afterwards."""

    def __init__(self) -> None:
        self._lock = new_rlock()
        self._cells = 0

    def enter(self) -> None:
        """Note that a cell begins."""
        with self._lock:
            self._cells += 1
        if _BARS in sys.modules:
            self.install()

    def install(self) -> None:
        """Install `WorkerBars` if tqdm is loaded; called when output may be a bar."""
        tqdm = _tqdm()
        if tqdm is not None and not isinstance(tqdm._instances, WorkerBars):  # noqa: SLF001 - there is no other way
            with self._lock:
                if self._cells and not isinstance(tqdm._instances, WorkerBars):  # noqa: SLF001
                    tqdm._instances = WorkerBars(tqdm._instances)  # noqa: SLF001

    def has_any(self, sink: Sink) -> bool:
        """Whether tqdm draws bars for a worker, and so may move between lines."""
        tqdm = _tqdm()
        if tqdm is None:
            return False
        bars = tqdm._instances  # noqa: SLF001
        return bars.may_move(sink) if isinstance(bars, WorkerBars) else bool(bars)

    def leave(self) -> None:
        """Note that a cell has ended on all its workers."""
        with self._lock:
            self._cells -= 1
            tqdm = None if self._cells else _tqdm()
            if tqdm is not None and isinstance(tqdm._instances, WorkerBars):  # noqa: SLF001
                tqdm._instances = tqdm._instances.before  # noqa: SLF001


def _tqdm() -> Any:
    """The base class of tqdm's bars; None if tqdm is not loaded, or is an unknown version."""
    std = sys.modules.get(_BARS)
    tqdm = None if std is None else getattr(std, "tqdm", None)
    return tqdm if isinstance(getattr(tqdm, "_instances", None), WeakSet) else None


BARS = BarKeeper()


def fit_bars(module: ModuleType) -> Callable[[], None]:
    """Give every worker its own bars from the first one on, also in the cell that imports tqdm.

    Bars leave room for the worker's prefix, because a wider one would take two lines of a terminal. tqdm's
    monitor thread, which serves all bars, must not belong to the worker that makes the first one.
    """
    BARS.install()
    module.tqdm.get_lock()  # else `thread_map` makes one, and deletes it at its end from under other workers

    @replacing(module, "_screen_shape_wrapper")
    def wrapper() -> Any:
        shape = wrapper.below()
        return None if shape is None else lambda stream: _narrower(*shape(stream))

    def start_for_all(thread: threading.Thread) -> None:
        Context().run(threading.Thread.start, thread)

    return replace_all([wrapper, Replaced(module.TMonitor, "start", start_for_all)])


def _narrower(columns: int | None, lines: int | None) -> tuple[int | None, int | None]:
    """The size of the terminal, reduced on a worker by the width of the prefix."""
    text = current_sink.get() or current_writer.get()  # the latter in ``session.run``, which has no sink
    margin = getattr(text, "margin", 0)
    return None if columns is None else max(1, columns - margin), lines


def fit_auto(module: ModuleType) -> Callable[[], None] | None:
    """Let `tqdm.auto` (`module`) make text bars on workers."""
    widgets, text = module.tqdm, module.asyncio_tqdm
    if widgets is text:
        return None  # it makes text bars everywhere

    def new(cls: Any, *args: Any, **options: Any) -> Any:
        if cls is not widgets or current_sink.get() is None:
            return replaced.below(cls, *args, **options)
        options.pop("display", None)  # an option of widgets: whether to show them at once
        return text(*args, **options)

    replaced = Replaced(widgets, "__new__", staticmethod(new))
    return replace_all([replaced])
