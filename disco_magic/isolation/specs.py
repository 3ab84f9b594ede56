"""What modules were found by, and whose they are: a library's or the user's, one per process or not."""

from __future__ import annotations

import os
from importlib.machinery import BuiltinImporter, ExtensionFileLoader, FrozenImporter, ModuleSpec
from typing import TYPE_CHECKING, Any, Final

from disco_magic.libraries import is_of_library, read_import_path

if TYPE_CHECKING:
    import types

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
