"""A file as a cell: what ``python train.py --lr 0.1`` sees, on every worker."""

from __future__ import annotations

import ast
import os
import sys
import threading
import tokenize
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from disco_magic.errors import UsageMistake
from disco_magic.functions.cells import cell_from_tree, parsed
from disco_magic.phrases import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disco_magic.functions.cells import Cell


def compile_file(path: str | os.PathLike[str]) -> Cell:
    """Compile a file of Python, in the encoding that it says; its lines keep its name in tracebacks.

    It is the main program, has its ``__file__``, and may end by ``sys.exit()``.

    Raises:
        UsageMistake: it cannot be read.
        SyntaxError: with the line in the file.
    """
    name = os.fspath(path)
    try:
        with tokenize.open(name) as file:
            source = file.read()
    except (OSError, UnicodeError, SyntaxError) as reason:
        raise UsageMistake(f"{name!r} cannot be run: {words(reason)}") from None
    filename = os.path.abspath(name)
    tree = parsed(source, filename)
    _tell_file(tree, filename)
    cell = cell_from_tree(tree, source=source, filename=filename, label=name, show_last=False)
    return replace(cell, is_program=True)


def _tell_file(tree: ast.Module, filename: str) -> None:
    """Let the first statement that may stand there bind ``__file__``, with no line of its own."""
    (bind,) = ast.parse(f"__file__ = {filename!r}").body
    place = sum(_has_to_be_first(number, each) for number, each in enumerate(tree.body))
    tree.body.insert(place, bind)


def _has_to_be_first(number: int, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return not number and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


# Of programs that run now, behind that of the process itself; empty if none does.
_argvs: list[list[str]] = []
_lock = threading.Lock()


@contextmanager
def as_main(path: str | os.PathLike[str], arguments: Sequence[str]) -> Iterator[None]:
    """Within this `sys.argv` and the first entry of `sys.path` are those of that program.

    They belong to the process, and so to all workers and to the notebook.
    """
    folder = os.path.dirname(os.path.abspath(path))
    mine = [os.fspath(path), *arguments]
    with _lock:
        _argvs.extend([mine] if _argvs else [sys.argv, mine])
        sys.argv = mine
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with _lock:  # others may have begun meanwhile, and end in any order
            _argvs[:] = [argv for argv in _argvs if argv is not mine]
            sys.argv = _argvs[-1]
            if len(_argvs) == 1:
                _argvs.clear()
        if folder in sys.path:
            sys.path.remove(folder)
