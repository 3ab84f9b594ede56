"""Seeds of random states that workers have in common, found in a cell's source.

Workers are threads, and what a module keeps is there once. A cell that seeds it, as a script of one process
does, gets numbers that are equal on some workers and not on others, in another way every time, and no error.
"""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from disco_magic.functions.cells import Cell

# How it is called -> what a worker can have of its own. Aliases are not followed: who uses them is not told.
_OWN: Final = {
    **dict.fromkeys(("np.random.seed", "numpy.random.seed"), "rng = np.random.default_rng({})"),
    "random.seed": "rng = random.Random({})",
    **dict.fromkeys(
        ("torch.manual_seed", "torch.random.manual_seed"), "rng = torch.Generator().manual_seed({})"
    ),
}

_MOST_DOTS: Final = 2


def shared_seeds(source: str, tree: ast.Module) -> tuple[tuple[int, str], ...]:
    """Lines of a parsed cell that seed a state of all workers, and what is wrong with each.

    Takes a microsecond if the source has no ``seed``, else about 2 us per node of its tree.
    """
    if "seed" not in source:
        return ()
    nodes = list(ast.walk(tree))
    named = [(call, _dotted(call.func)) for call in nodes if isinstance(call, ast.Call)]
    seeds = [(call, name) for call, name in named if name in _OWN]
    others = _bound(nodes) if seeds else set()
    return tuple(
        (call.lineno, _said(name, call)) for call, name in seeds if name.partition(".")[0] not in others
    )


def _bound(nodes: list[ast.AST]) -> set[str]:
    """Names that are something of the cell's own: ``random = random.Random(1)``."""
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _dotted(called: ast.expr) -> str:
    """``np.random.seed``; of what has more dots, or calls in between, the end."""
    parts: list[str] = []
    while isinstance(called, ast.Attribute) and len(parts) < _MOST_DOTS:
        parts.append(called.attr)
        called = called.value
    parts.append(called.id if isinstance(called, ast.Name) else "")
    return ".".join(reversed(parts))


def _said(name: str, call: ast.Call) -> str:
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("seed", "a")]
    given = [*call.args, *named][:1]
    if call.keywords and not given:  # **options
        own = _OWN[name].format("seed")
    else:
        try:
            own = _OWN[name].format(*map(ast.unparse, given) if given else ("",))
        # Of a sum of hundreds of terms; of f-strings with some characters. Advice must not refuse a cell.
        except (RecursionError, ValueError):
            own = _OWN[name].format("seed")
    return (
        f"{name} sets the one state that all workers draw from, in turns that nobody knows; "
        f"give each its own: {own}"
    )


def warn_of_shared_seeds(cell: Cell) -> None:
    """A UserWarning for each of them, with the line of the cell."""
    for line, said in cell.seeds:
        warnings.warn_explicit(said, UserWarning, cell.filename, line)
