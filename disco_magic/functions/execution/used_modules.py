"""Which modules a program imports, as far as its source and theirs show it."""

from __future__ import annotations

import ast
import dis
import importlib.util
import os
import re
import tokenize
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from types import CodeType

# Code that mentions one of these functions, or imports one of these modules, may import anything.
_BY_NAME: Final = frozenset({"__import__", "import_module", "run_module", "run_path"})
_LOADING: Final = frozenset({"cloudpickle", "dill", "hydra", "joblib", "pickle", "pkgutil", "pydoc", "runpy"})
_IMPORT_NAME: Final = dis.opmap["IMPORT_NAME"]
_NAMED: Final = re.compile(r"(\w+(?:\.\w+)*)(?::\w+)?")  # ``model.net.Net``, ``model:Net``


def used_by(source: str, package: str, files: Mapping[str, str]) -> Collection[str]:
    """Those modules that a program imports, directly or through others; all if that is unknown.

    Args:
        source: the program's.
        package: where its relative imports begin; "": nowhere.
        files: of the modules in question, by name.
    """
    used: set[str] = set()
    try:
        waiting = [*_around(package), *_named_in(source, package, files)]
        while waiting:
            name = waiting.pop()
            if name in files and name not in used:
                used.add(name)
                is_package = os.path.basename(files[name]) == "__init__.py"
                with tokenize.open(files[name]) as file:
                    inner = _named_in(file.read(), name if is_package else name.rpartition(".")[0], files)
                    waiting.extend(inner)
    except (_AnythingError, ImportError, OSError, SyntaxError, ValueError):
        return files.keys()  # a file is being edited, or sets its package itself
    return used


def imports_of(code: CodeType) -> frozenset[str]:
    """Modules that code imports, and the packages around them; without the imports of its functions.

    For ``from package import name`` this includes ``package.name``, which need not be a module.
    """
    if _IMPORT_NAME not in code.co_code[::2]:  # most cells import nothing; disassembling takes up to 10 ms
        return frozenset()
    found, home = set[str](), ""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            home = step.argval
            found.update(_around(home))
        elif step.opname == "IMPORT_FROM":
            found.add(f"{home}.{step.argval}")
    return frozenset(found)


class _AnythingError(Exception):
    """Raised where a module may import any other."""


def _named_in(source: str, package: str, files: Iterable[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield from _around(_seen(each.name))
        elif isinstance(node, ast.ImportFrom):
            yield from _named_from(node, package, files)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = _NAMED.fullmatch(node.value)  # the form in which frameworks name what they import
            yield from _around(named[1]) if named else ()
        elif (isinstance(node, ast.Name) and node.id in _BY_NAME) or (
            isinstance(node, ast.Attribute) and node.attr in _BY_NAME
        ):
            raise _AnythingError


def _named_from(node: ast.ImportFrom, package: str, files: Iterable[str]) -> Iterator[str]:
    home = _seen(importlib.util.resolve_name("." * node.level + (node.module or ""), package))
    yield from _around(home)
    for each in node.names:
        if each.name in _BY_NAME:
            raise _AnythingError
        if each.name == "*":  # a package says in `__all__` which modules these are
            yield from (name for name in files if name.startswith(f"{home}."))
        else:
            yield f"{home}.{each.name}"


def _seen(name: str) -> str:
    """The name of an imported module, if that cannot import anything by name."""
    if name.partition(".")[0] in _LOADING:
        raise _AnythingError
    return name


def _around(name: str) -> Iterator[str]:
    """That module, after the packages around it."""
    return accumulate(name.split("."), lambda package, inner: f"{package}.{inner}")
