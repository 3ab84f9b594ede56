"""Find the source of a module without importing it or the packages around it."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from disco_magic.errors import UsageMistake
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

MAIN = "__main__"


class FoundModule(NamedTuple):
    """A module that can be executed.

    Attributes:
        name: the name for importing it; for a package, that of its ``__main__``.
        path: the path of its source.
        root: the folder that contains it or its outermost package.
    """

    name: str
    path: str
    root: str


def find_module(name: str) -> FoundModule:
    """Find the module of that name; for a package, its ``__main__``."""
    if not all(map(str.isidentifier, name.split("."))):
        hint = f"; {name!r} without -m runs a file" if os.path.exists(name) else ""
        raise UsageMistake(f"{name!r} is not the name of a module: write package.module{hint}")
    first, *inner = name.split(".")
    spec, known = _outermost(first), first
    if spec is None:
        hint = _like(first, [os.getcwd()])
        raise UsageMistake(f"there is no module {first!r} in {os.getcwd()!r} or on the import path{hint}")
    root = os.path.dirname(_place_of(spec))
    for part in inner:
        spec, known = _beneath(spec, known, part), f"{known}.{part}"
    if spec.submodule_search_locations is not None:
        spec, known = _beneath(spec, known, MAIN), f"{known}.{MAIN}"
    path = spec.origin or ""
    if not path.endswith(tuple(importlib.machinery.SOURCE_SUFFIXES)):
        raise UsageMistake(f"{known!r} has no source that could be run: it is {path or 'no file'}")
    return FoundModule(known, os.path.abspath(path), os.path.abspath(root))


def _outermost(name: str) -> ModuleSpec | None:
    here = importlib.machinery.PathFinder.find_spec(name, [os.getcwd()])
    if here is not None and here.loader is not None:
        return here
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(name, None)
        if spec is not None:
            return spec
    return here  # a folder without ``__init__.py``


def _place_of(spec: ModuleSpec) -> str:
    """The folder of a package, or the file of any other module."""
    folders = spec.submodule_search_locations
    return next(iter(folders), "") if folders is not None else spec.origin or ""


def _beneath(spec: ModuleSpec, known: str, part: str) -> ModuleSpec:
    folders: Sequence[str] | None = spec.submodule_search_locations
    if folders is None:
        raise UsageMistake(f"there is no module '{known}.{part}': {known!r} is a module, not a package")
    # By its last name: with its full name, the packages around it would have to be imported.
    found = importlib.machinery.PathFinder.find_spec(part, list(folders))
    if found is None and part == MAIN:
        raise UsageMistake(f"{known!r} is a package without {MAIN}.py: name a module in it")
    if found is None:
        where = f"the package {known!r}, {', '.join(folders)}{_like(part, folders)}"
        raise UsageMistake(f"there is no module {part!r} in {where}")
    return found


def _like(name: str, folders: Sequence[str]) -> str:
    """``; did you mean 'a'?`` for modules in folders."""
    import pkgutil  # only for misspelt names

    hint = near_misses(name, (each.name for each in pkgutil.iter_modules(folders)))
    return f"; {hint}" if hint else ""
