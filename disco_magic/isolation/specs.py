"""What an import is about, for `own_modules`: specs of modules, and the arguments of `__import__`."""

from __future__ import annotations

import importlib.util
import os
from importlib.machinery import BuiltinImporter, ExtensionFileLoader, FrozenImporter, ModuleSpec
from typing import TYPE_CHECKING, Any, Final

from disco_magic.libraries import is_of_library, read_import_path

if TYPE_CHECKING:
    import types
    from collections.abc import Mapping, Sequence

_ONCE: Final[Any] = (BuiltinImporter, ExtensionFileLoader, FrozenImporter)


def is_loaded_once(spec: ModuleSpec) -> bool:
    """Whether a process can have only one such module."""
    return spec.loader in _ONCE or isinstance(spec.loader, _ONCE)


def present_spec(module: types.ModuleType) -> ModuleSpec | None:
    """The spec with which a module was imported, if its file is still there."""
    spec = vars(module).get("__spec__")
    is_there = isinstance(spec, ModuleSpec) and spec.has_location and os.path.isfile(str(spec.origin))
    return spec if is_there else None


def is_of_user(spec: object) -> bool:
    """Whether a module has files, and these are no library's."""
    if not isinstance(spec, ModuleSpec):
        return False
    read_import_path()
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    return bool(places) and not any(is_of_library(str(each)) for each in places)


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
