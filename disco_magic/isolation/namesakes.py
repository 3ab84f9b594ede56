"""Modules that a program finds under the names of others, which were imported before it.

Two experiments each have a ``config.py``, two checkouts the same package. In processes each program would get
its own; here the second one would silently run with what the first one has imported.
"""

from __future__ import annotations

import dis
import os
import sys
import types
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from disco_magic.callers.module_classes import dictionary_of, spec_of
from disco_magic.isolation.imported import find_beside
from disco_magic.isolation.standing_modules import imports_of_process, plain_modules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from importlib.abc import MetaPathFinder

_IMPORT: Final = dis.opmap["IMPORT_NAME"]
_NONE: Final[frozenset[str]] = frozenset()
# By module, what it imports from, and the spec with which that was read.
_imported: Final[WeakKeyDictionary[types.ModuleType, tuple[object, frozenset[str]]]] = WeakKeyDictionary()


class Namesakes:
    """Notes for which modules a worker's program has looked."""

    def __init__(self, finder: MetaPathFinder) -> None:
        self._finder = finder
        self._asked: set[str] | None = None  # packages that the program has imported from; None: none runs
        self._path: list[str] = []  # the import path at the last look

    def begin(self) -> None:
        """Note that a program begins, which is to look for its modules."""
        self._asked, self._path = set(), []

    def end(self) -> None:
        """Note that it has ended."""
        self._asked = None

    def outdated_by(
        self, name: str, own: Mapping[str, types.ModuleType], shared: Collection[str]
    ) -> Collection[str]:
        """Return the packages that the program has to import anew, now that it imports that module.

        It looks when it first imports something, and again after it has changed its import path: 1 us for a
        package beside the program, 15 for another one. What the program has imported itself is not looked for
        again, as in a process.
        """
        asked, root = self._asked, name.partition(".")[0]
        if asked is None or root in asked:
            return ()
        found, path = set[str](), list(sys.path)
        if path != self._path:
            self._path = path
            modules: dict[str, Any] = dict(own)
            roots = {each.partition(".")[0] for each in modules}.union(shared) - asked
            if shared:
                # In this order: what another worker imports anew is the process's before it is not there.
                modules = plain_modules() | _of_process(shared) | modules
            beside = {root for root in roots if _folder_of(modules.get(root)) == path[0]} if path else set()
            found = _outdated(self._finder, roots - beside, beside, modules)
        asked.add(root)
        return found


def _of_process(roots: Collection[str]) -> dict[str, Any]:
    """The modules of these packages that the process has, of which other workers have their own."""
    modules = imports_of_process().modules.copy()
    return {name: module for name, module in modules.items() if name.partition(".")[0] in roots}


def _names_in(module: Any) -> dict[str, Any]:
    """The names of a module; none if it is something else, which a program may have put in its place."""
    return dictionary_of(module) if issubclass(type(module), types.ModuleType) else {}


def _folder_of(module: Any) -> str | None:
    """The folder that has a package, or a module that is in none; None: it has no file."""
    names = _names_in(module)
    file = names.get("__file__")
    if not isinstance(file, str):
        return None
    return os.path.dirname(os.path.dirname(file) if "__path__" in names else file)


def _outdated(
    finder: MetaPathFinder, roots: set[str], beside: set[str], modules: Mapping[str, Any]
) -> set[str]:
    """Return those packages of which an import would now find others, and those that import from them."""
    found = latest = {root for root in roots if _is_elsewhere(finder, root, None, modules)}
    waiting = roots | beside
    while latest:
        waiting -= found
        latest = {root for root in waiting if _imports_any(root, found, modules)}
        found = found | latest
    return found


def _is_elsewhere(
    finder: MetaPathFinder, name: str, path: list[str] | None, modules: Mapping[str, Any]
) -> bool:
    """Whether another module of that name is found now; not if that one was made by hand."""
    names = _names_in(modules.get(name))
    spec = find_beside(finder, name, path) if "__file__" in names or "__path__" in names else None
    if spec is None:
        return False
    before = names.get("__file__")
    if spec.has_location and isinstance(spec.origin, str):
        return not (isinstance(before, str) and _is_same(before, spec.origin))
    if spec.origin is not None or not spec.submodule_search_locations:
        return False
    if before is not None:  # of a module, or of an ``__init__.py``: what is found is a mere folder
        return True
    # Neither has a file: what tells them apart is what has been imported from there. What is in the first of
    # the folders would be found there again: to look for each of a thousand modules took a worker 0.3 s.
    folders, below = list(spec.submodule_search_locations), f"{name}."
    there = tuple(os.path.join(each, "") for each in folders[:1])
    inner = [each for each in modules if each.startswith(below) and not _is_in(modules[each], there)]
    parts = {each[len(below) :].partition(".")[0] for each in inner}
    return any(_is_elsewhere(finder, below + each, folders, modules) for each in parts)


def _is_in(module: Any, folders: tuple[str, ...]) -> bool:
    """Whether a module was read from beneath one of these folders; also if it has no file."""
    file = _names_in(module).get("__file__")
    return not isinstance(file, str) or file.startswith(folders)


def _is_same(file: str, other: str) -> bool:
    if file == other:
        return True
    with suppress(OSError):  # one does not exist any more
        return os.path.samefile(file, other)
    return False


def _imports_any(root: str, others: set[str], modules: Mapping[str, Any]) -> bool:
    """Whether a module of that package imports from any of those, by a statement, wherever that is."""
    inside = [each for each in modules if each.startswith(root) and each.partition(".")[0] == root]
    return any(not others.isdisjoint(_imported_by(each, modules[each])) for each in inside)


def _imported_by(name: str, module: Any) -> frozenset[str]:
    """The packages that a module imports from. Its file is read once; another one after a reload."""
    spec = spec_of(module)
    loader = getattr(spec, "loader", None)
    if not isinstance(loader, SourceFileLoader):
        return frozenset()
    with suppress(TypeError):  # an object that allows no weak references
        before, known = _imported.get(module, (None, _NONE))
        if before is spec:
            return known
    found = _NONE
    with suppress(ImportError, OSError, SyntaxError):  # the file is gone, or is being edited
        code = loader.get_code(name)
        found = _NONE if code is None else frozenset(_imports(code))
    with suppress(TypeError):
        _imported[module] = spec, found
    return found


def _imports(code: types.CodeType) -> Iterator[str]:
    if _IMPORT in code.co_code[::2]:  # disassembling takes long
        for step in dis.get_instructions(code):
            if step.opcode == _IMPORT:
                yield step.argval.partition(".")[0]
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _imports(inner)
