"""Warnings on workers: every cell warns anew, deprecations in cells are shown, filters stay unchanged."""

from __future__ import annotations

import re
import warnings
from typing import Any, Final, cast

from disco_magic.callers.current import calling_worker
from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.isolation.own_warnings import WarningsOfWorkers

_SEEN: Final = "__warningregistry__"
_IN_CELLS: Final = (
    "default",
    None,
    DeprecationWarning,
    re.compile(rf"{re.escape(CELL_MODULE)}\Z"),
    0,
)


class Filters:
    """Protects the process's filters while cells run. Only the main thread calls it."""

    def __init__(self) -> None:
        self._before: tuple[list[Any], Any, Any] | None = None

    def keep(self) -> None:
        """Save the filters before a cell runs, unless one runs already; takes 1 us.

        Not if workers have their own: then only the notebook changes these, perhaps while the cell runs.
        """
        if self._before is None and type(warnings) is not WarningsOfWorkers:
            self._before = _present()
        if _IN_CELLS not in warnings.filters:
            _show_deprecations()

    def restore(self) -> None:
        """Restore the filters when no cell runs any more, if workers have no filters of their own.

        Filters that a cell has added to the list stay: ``warnings.simplefilter("ignore")`` is meant to last.
        """
        before, self._before = self._before, None
        if before is None or warnings.filters is before[0]:
            return
        warnings.filters, show, warnings._showwarnmsg_impl = before  # type: ignore[attr-defined]  # noqa: SLF001
        if warnings.showwarning is warnings._showwarning_orig:  # type: ignore[attr-defined]  # noqa: SLF001
            warnings.showwarning = show

    def remove(self) -> None:
        """Remove the filter that `keep` has added."""
        if _IN_CELLS in warnings.filters:
            warnings.filters.remove(_IN_CELLS)  # type: ignore[attr-defined]


def _present() -> tuple[list[Any], Any, Any]:
    show = warnings._showwarnmsg_impl  # type: ignore[attr-defined]  # noqa: SLF001 - `record=True` replaces it
    return cast("list[Any]", warnings.filters), warnings.showwarning, show


def _show_deprecations() -> None:
    """Show deprecations of workers' cells if those of ``__main__``, plain cells, are shown."""
    for position, (action, _, category, module, _) in enumerate(warnings.filters):
        where = str(getattr(module, "pattern", module))
        if action == "default" and category is DeprecationWarning and where.startswith("__main__"):
            warnings.filters.insert(position + 1, _IN_CELLS)  # type: ignore[attr-defined]
            return


def forget_warnings() -> None:
    """Let the calling worker's next cell give the same warnings again, as in IPython."""
    me = calling_worker()
    if me is not None:
        me.namespace.pop(_SEEN, None)
