"""``torch.export`` on several workers.

An export, of a pipeline's tracer too, keeps the modes that record operators in a table of the process. Two at
a time took each other's out of it, and left it so that nothing could be exported any more. So one worker
exports at a time, and the table is restored afterwards.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.replaced import Replaced, replace_all, replacing
from disco_magic.isolation.worker_mutex import WORKER_MUTEX

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from disco_magic.isolation.worker_mutex import Entry

_ENTRIES: Final = ("_export", "_export_for_training")  # all others call one of these
_TABLE: Final = "_mode_stack_state_for_pre_dispatch"


class _Export(NamedTuple):
    """An export that is under way."""

    entry: Entry
    before: dict[str, Any]


_underway: Final[list[_Export]] = []  # an export inside another one is the same worker's


def fit_exporting(module: ModuleType) -> Callable[[], None]:
    """Let one worker at a time export; `module` is ``torch.export._trace``."""
    return replace_all([_exported_alone(module, name) for name in _ENTRIES if name in vars(module)])


def _exported_alone(module: ModuleType, name: str) -> Replaced:
    @replacing(module, name)
    def export(*args: Any, **options: Any) -> Any:
        with WORKER_MUTEX.taken("programs are exported") as entry:
            _forget_gone()
            mine = _Export(entry, _contents(_table()))
            _underway.append(mine)
            try:
                return export.below(*args, **options)
            finally:
                # Otherwise its thread was given up, and another thread has ended it.
                if _is_underway(mine):
                    _end(mine)

    return export


def _is_underway(export: _Export) -> bool:
    return any(each is export for each in _underway)


def _forget_gone() -> None:
    """End exports whose threads were given up: the table is what it was before the first of them."""
    for each in reversed([one for one in _underway if one.entry.is_gone]):
        _end(each)


def _end(export: _Export) -> None:
    _table().update(export.before)  # a stop may have struck where PyTorch does so
    _underway[:] = [each for each in _underway if each is not export]


def _table() -> dict[str, Any]:
    found = vars(sys.modules["torch._ops"]).get(_TABLE)
    return {} if found is None else vars(found)


def _contents(table: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list) else value for name, value in table.items()}
