"""``torch.export`` of PyTorch's on several workers, and what uses it: the tracer of pipelines.

What records the operators is noted in a table of the process. Two at a time took each other's out of it, and
left it so that nothing could be exported any more. So one worker exports at a time, and the table is then
what it was.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.replaced import Replaced, replace_all
from disco_magic.functions.turns import TURNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_ENTRIES: Final = ("_export", "_export_for_training")  # all others call one of these
_TABLE: Final = "_mode_stack_state_for_pre_dispatch"


def fit_exporting(module: ModuleType) -> Callable[[], None]:
    """Let one worker at a time export; `module` is ``torch.export._trace``."""
    return replace_all([_in_turn(module, name) for name in _ENTRIES if name in vars(module)])


def _in_turn(module: ModuleType, name: str) -> Replaced:
    @wraps(vars(module)[name])
    def export(*args: Any, **options: Any) -> Any:
        with TURNS.taken("programs are exported"):
            table = _table()
            before = _contents(table)
            try:
                return replaced.below(*args, **options)
            finally:
                table.update(before)  # a stop may have struck where PyTorch does it

    replaced = Replaced(module, name, export)
    return replaced


def _table() -> dict[str, Any]:
    found = vars(sys.modules["torch._ops"]).get(_TABLE)
    return {} if found is None else vars(found)


def _contents(table: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, list) else value for name, value in table.items()}
