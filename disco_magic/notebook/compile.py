"""Compiles a ``%%disco`` cell once, with the line numbers of the whole cell."""

from __future__ import annotations

import ast
import linecache
import re
from typing import TYPE_CHECKING, Final

from disco_magic.functions.execution.cells import cell_from_tree
from disco_magic.notebook.facade import refuse_magics
from disco_magic.notebook.plain import transformed
from disco_magic.notebook.tracebacks import syntax_error

if TYPE_CHECKING:
    from disco_magic.functions.execution.cells import Cell
    from disco_magic.notebook.shell import Shell

# Lines that are magics, comments or blank, the last one perhaps without an end.
_ABOVE: Final = re.compile(r"(?:[^\S\n]*(?:[%#][^\n]*)?\n)*[^\S\n]*(?:[%#][^\n]*)?")


def compile_notebook_cell(shell: Shell, line: str | None, body: str, futures: int = 0) -> Cell:
    """Compile the body of a cell magic so that ``Cell In[8], line 7`` in a traceback is the right line.

    Only IPython's static transforms are applied (``!cmd``, ``%magic``, ``?``). The dynamic ones (automagic,
    autocall) look at the notebook's own namespace and would take a one-line cell `hist` for ``%hist`` even
    if the workers have a register of that name.

    The code has the filename that IPython gave to the surrounding cell, and the magic lines are added to its
    `linecache` entry, so that debuggers and tracebacks show the cell as it was typed.
    """
    try:
        return _compiled(shell, line, body, futures)
    except SyntaxError as error:
        raise syntax_error(shell, error) from None


def _compiled(shell: Shell, line: str | None, body: str, futures: int) -> Cell:
    number, raw, skipped = _place(shell, line, body)
    source = "\n" * skipped + transformed(shell, body)
    filename = shell.compile.cache(source, number, raw_code=raw)
    size, stamp, lines, name = linecache.cache[filename]  # type: ignore[misc]  # the entry is loaded
    typed = [f"{text}\n" for text in raw.split("\n")[:skipped]]
    linecache.cache[filename] = (size, stamp, [*typed, *lines[skipped:]], name)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=filename))
    if "get_ipython" in source:  # there, magics are calls of it
        refuse_magics(tree)
    shows = shell.ast_node_interactivity
    # Most cells have no semicolon: looking for the last token would read the whole cell again. In what was
    # typed there need be no tokens, as in ``,f a b]; c``.
    is_silent = ";" in source and shell.displayhook.semicolon_at_end_of_expression(source)
    if shows == "last_expr_or_assign":
        _show_assigned(tree)
    return cell_from_tree(
        tree,
        source=body,
        filename=filename,
        label=f"Cell In[{number}]",
        flags=shell.compile.flags | futures,
        show_last=shows != "none" and not is_silent,
    )


def _show_assigned(tree: ast.Module) -> None:
    """If the last statement assigns to one name, add that as an expression, as IPython does."""
    last = tree.body[-1] if tree.body else None
    target = getattr(last, "target", None) if isinstance(last, ast.AugAssign | ast.AnnAssign) else None
    if isinstance(last, ast.Assign) and len(last.targets) == 1:
        target = last.targets[0]
    if isinstance(target, ast.Name):
        shown = ast.Expr(ast.Name(target.id, ast.Load()))
        tree.body.append(ast.fix_missing_locations(ast.copy_location(shown, target)))


def _place(shell: Shell, line: str | None, body: str) -> tuple[int, str, int]:
    """The n of ``In[n]``, the whole cell as it was typed, and how many of its lines are not compiled."""
    running = getattr(shell.displayhook, "exec_result", None)
    raw = running.info.raw_cell if running is not None else None
    number = getattr(running, "execution_count", None) or shell.execution_count
    stripped = body.strip("\n")
    if raw is None or not _ends_with(raw, stripped):  # called by a program, or built by another magic
        raw = body if line is None else f"%%disco {line}\n{body}"
    before = raw[: raw.rindex(stripped)]
    # The transforms drop leading blank lines, so they count as skipped.
    blank = stripped[: len(stripped) - len(stripped.lstrip())]
    return number, raw, (before + blank).count("\n")


def _ends_with(raw: str, body: str) -> bool:
    """Whether a cell is `body` below magics and comments; it may also have it in a text that it executes."""
    before, found, _ = raw.rpartition(body) if body else (raw, "", "")
    if body and not found:
        return False
    return _ABOVE.fullmatch(before) is not None
