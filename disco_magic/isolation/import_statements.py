"""Which modules an import statement means: the arguments of `__import__`, read as Python reads them."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping, Sequence


def resolved(name: str, scope: Mapping[str, Any] | None, level: int) -> str:
    """Return the absolute name; "" if there is none, in which case `__import__` raises the error."""
    package = None if scope is None else scope.get("__package__")
    if not level:
        return name if isinstance(name, str) else ""
    if not isinstance(package, str):
        return ""
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:
        return ""


def listed(module: types.ModuleType, fromlist: Sequence[str]) -> list[str]:
    """Return the names after ``from module import``."""
    everything = getattr(module, "__all__", ())
    return [name for each in fromlist for name in (everything if each == "*" else [each])]
