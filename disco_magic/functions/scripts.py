"""A file as a cell: what ``python train.py --lr 0.1`` sees, on every worker."""

from __future__ import annotations

import ast
import os
import tokenize
from dataclasses import replace
from typing import TYPE_CHECKING

from disco_magic.errors import UsageMistake
from disco_magic.functions import sources
from disco_magic.functions.cells import Program, cell_from_tree, parsed
from disco_magic.phrases import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.functions.cells import Cell


def compile_file(path: str | os.PathLike[str], arguments: Sequence[str] = ()) -> Cell:
    """Compile a file of Python, in the encoding that it says; its lines keep its name in tracebacks.

    It is the main program, has its ``__file__`` and its `sys.argv`, and may end by ``sys.exit()``.

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
    return replace(cell, program=Program((name, *arguments), filename))


def refresh(cell: Cell, *, reload: bool) -> str:
    """Before a program is executed: let modules beside it be imported anew, or say which have changed."""
    if cell.program is None:
        return ""
    folder = os.path.dirname(cell.program.path)
    if reload:
        sources.forget(folder)
    files = sources.changed(folder)
    if not files:
        return ""
    have, it = ("has", "it was") if len(files) == 1 else ("have", "they were")
    return f"{', '.join(files)} {have} changed since {it} imported, and what was imported is used"


def _tell_file(tree: ast.Module, filename: str) -> None:
    """Let the first statement that may stand there bind ``__file__``, with no line of its own."""
    (bind,) = ast.parse(f"__file__ = {filename!r}").body
    place = sum(_has_to_be_first(number, each) for number, each in enumerate(tree.body))
    tree.body.insert(place, bind)


def _has_to_be_first(number: int, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return not number and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
