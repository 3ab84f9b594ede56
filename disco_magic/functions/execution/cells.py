"""A cell's source, compiled once by the controller; `running.py` executes it."""

from __future__ import annotations
import __future__

import ast
import io
import itertools
import linecache
import textwrap
import tokenize
from collections import deque
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from disco_magic.callers import sites
from disco_magic.callers.source_text import parsed
from disco_magic.threads.loop_ends import covered

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from disco_magic.isolation.programs import Program

_numbers = itertools.count(1)
# Cells whose source is kept. Those that define something are kept longer: loops call what they have defined.
_recent: deque[str] = deque(maxlen=1000)
_defining: deque[str] = deque(maxlen=20_000)
_DEFINITIONS = ("def ", "class ", "lambda")
_BLANK = (" ", "\t")
_FUTURES: int = reduce(
    or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
_MAIN = "__main__"
_OF_LOGGERS = ("getLogger", "get_logger")


@dataclass(frozen=True, slots=True)
class Cell:
    """Source and code of a cell.

    Attributes:
        source: what the user wrote.
        filename: the name in its code objects, under which `linecache` has its lines.
        label: the name shown to the user, ``Cell In[7]``.
        body: all statements except a last expression; None if there are none.
        last: the last expression; None if there is none or a semicolon silences it.
        watched: whether the worker records which registers it binds, and which lines led to collectives.
        rendezvous: whether its sends wait until they are received.
        program: the program that it is, which may end by ``sys.exit()``; None: it is a plain cell.
        before: called on each worker before the cell; None: nothing.
    """

    source: str
    filename: str
    label: str
    body: types.CodeType | None
    last: types.CodeType | None
    watched: bool = False
    rendezvous: bool = False
    program: Program | None = None
    before: Callable[[], None] | None = None

    @property
    def codes(self) -> list[types.CodeType]:
        """The code objects to execute, in order."""
        return list(filter(None, (self.body, self.last)))

    @property
    def futures(self) -> int:
        """The ``from __future__ import ...`` that later cells take over from it, as flags of `compile`.

        They include those of earlier cells. A program leaves none.
        """
        if self.program:
            return 0
        flags: int = 0 if self.body is None else self.body.co_flags
        return (flags if self.last is None else flags | self.last.co_flags) & _FUTURES


def compile_cell(source: str, *, label: str | None = None, futures: int = 0) -> Cell:
    """Compile plain Python; a trailing semicolon silences the last expression.

    If the first line is indented, as in a function's text of several lines, so much is taken from all.
    `futures`: what earlier cells have imported from ``__future__``, see `Cell`.
    """
    if source.lstrip("\r\n")[:1] in _BLANK:
        source = textwrap.dedent(source)
    number = next(_numbers)
    filename = f"<disco cell {number}>"
    _remember(filename, _defining if any(word in source for word in _DEFINITIONS) else _recent)
    lines = io.StringIO(source, newline=None).readlines()
    if lines and not lines[-1].endswith("\n"):  # CPython includes it in the columns of errors
        lines[-1] += "\n"
    linecache.cache[filename] = (len(source), None, lines, filename)
    tree = parsed(source, filename)
    return cell_from_tree(
        tree,
        source=source,
        filename=filename,
        label=label or f"Cell {number}",
        flags=futures,
        show_last=not _ends_silent(source),
    )


def _remember(filename: str, kept: deque[str]) -> None:
    """Keep the source of this cell for tracebacks, and forget that of the oldest one if there are many."""
    if len(kept) == kept.maxlen:
        oldest = kept[0]
        linecache.cache.pop(oldest, None)
        sites.forget(oldest)
    kept.append(filename)


def _ends_silent(source: str) -> bool:
    """Whether the last token, not counting comments, is a semicolon."""
    if ";" not in source:
        return False  # as in most cells, without reading all of it again
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.DEDENT)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    last = [token.string for token in tokens if token.type not in empty][-1:]
    return last == [";"]


def _mean_main(tree: ast.Module) -> None:
    """Let ``__name__ == "__main__"`` mean what it means in a script, wherever it stands in a cell.

    The name itself has to be that of the worker's own module, else what cells define could not be pickled. A
    cell with a variable of that name is left as it is.
    """
    own = (each for each in ast.walk(tree) if getattr(each, "arg", getattr(each, "id", "")) == "__name__")
    if any(not isinstance(getattr(each, "ctx", None), ast.Load) for each in own):
        return
    for node in ast.walk(tree):  # a visitor's recursion would limit the length of expressions
        _call_loggers_main(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                value[:] = [_without_main_test(each) for each in value]
            else:
                setattr(node, field, _without_main_test(value))


def _call_loggers_main(node: ast.AST) -> None:
    """Let ``getLogger(__name__)`` and ``__name__ in (...)`` use the name of the main program."""
    if isinstance(node, ast.Call) and node.args and _is_name(node.args[0]):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in _OF_LOGGERS:
            node.args[0] = ast.copy_location(ast.Constant(value=_MAIN), node.args[0])
    elif (
        isinstance(node, ast.Compare) and _is_name(node.left) and isinstance(node.ops[0], ast.In | ast.NotIn)
    ):
        node.left = ast.copy_location(ast.Constant(value=_MAIN), node.left)


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "__name__"


def _without_main_test(node: Any) -> Any:
    """`node`, or its result if it only asks whether this is the main program."""
    if (
        not isinstance(node, ast.Compare)
        or len(node.ops) != 1
        or not isinstance(node.ops[0], ast.Eq | ast.NotEq)
    ):
        return node
    names = {each.id for each in (node.left, *node.comparators) if isinstance(each, ast.Name)}
    texts = {each.value for each in (node.left, *node.comparators) if isinstance(each, ast.Constant)}
    if names != {"__name__"} or texts != {_MAIN}:
        return node
    return ast.copy_location(ast.Constant(value=isinstance(node.ops[0], ast.Eq)), node)


def cell_from_tree(
    tree: ast.Module, *, source: str, filename: str, label: str, flags: int = 0, show_last: bool = True
) -> Cell:
    """Compile a parsed cell, its last expression apart from the rest. Top-level ``await`` is allowed."""
    sites.label(filename, label)
    if "__name__" in source:
        _mean_main(tree)
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    statements = list(tree.body)
    last = statements.pop() if show_last and statements and isinstance(statements[-1], ast.Expr) else None
    body_code = last_code = None
    if statements:
        module = ast.Module(statements, tree.type_ignores)
        body_code = covered(compile(module, filename, "exec", flags=flags, dont_inherit=True))
    if isinstance(last, ast.Expr):
        expression = ast.Expression(last.value)
        last_code = covered(compile(expression, filename, "eval", flags=flags, dont_inherit=True))
    return Cell(source, filename, label, body_code, last_code)
