"""What sets random states that workers have in common, found in a cell's source.

Workers are threads, and what a module keeps is there once. A cell that seeds it, as a script of one process
does, gets numbers that are equal on some workers and not on others, in another way every time, and no error.
Code that keeps a state and puts it back is as wrong: others draw in between. PyTorch's checkpoints do so, and
a dropout in them may have another mask in the backward pass.
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
    # These are given what they go on from, not a seed.
    **dict.fromkeys(
        ("np.random.set_state", "numpy.random.set_state"), "a generator, and rng.bit_generator.state = ..."
    ),
    "random.setstate": "a generator, and rng.setstate(...)",
    **dict.fromkeys(
        ("torch.set_rng_state", "torch.random.set_rng_state", "torch.random.fork_rng"),
        "a generator, and rng.set_state(...)",
    ),
}
_CHECKPOINTS: Final = "torch.utils.checkpoint"
_OF_CHECKPOINTS: Final = (
    f"{_CHECKPOINTS} keeps the one random state that all workers draw from and puts it back, while others "
    "draw: a dropout may have another mask in the backward pass; pass preserve_rng_state=False, and draw "
    "masks from a generator of the worker's own before the checkpoint"
)
_WORDS: Final = ("seed", "setstate", "set_state", "rng_state", "fork_rng", "checkpoint")
_MOST_DOTS: Final = 2


def shared_seeds(source: str, tree: ast.Module) -> tuple[tuple[int, str], ...]:
    """Lines of a parsed cell that set a state of all workers, and what is wrong with each.

    Takes a microsecond per line if the source has no such word, else about 2 us per node of its tree.
    """
    if not any(word in source for word in _WORDS):
        return ()
    nodes = list(ast.walk(tree))
    named = [(call, _dotted(call.func)) for call in nodes if isinstance(call, ast.Call)]
    calls = [(call, name) for call, name in named if name in _OWN]
    others = _bound(nodes) if calls else set()
    found = [(call.lineno, _said(name, call)) for call, name in calls if name.partition(".")[0] not in others]
    imports = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return (*found, *((node.lineno, _OF_CHECKPOINTS) for node in imports if _imports_checkpoints(node)))


def _imports_checkpoints(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{each.name}" for each in node.names]
        return node.module == _CHECKPOINTS or _CHECKPOINTS in names
    return any(each.name == _CHECKPOINTS for each in node.names)


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
    return (
        f"{name} sets the one state that all workers draw from, in turns that nobody knows; "
        f"give each its own: {_OWN[name].format(_seed_of(call))}"
    )


def _seed_of(call: ast.Call) -> str:
    """What a call seeds with, as it is written."""
    given = [*call.args, *(each.value for each in call.keywords if each.arg in ("seed", "a"))]
    if not given:
        return "seed" if call.keywords else ""  # **options
    try:
        return ast.unparse(given[0])
    # Of a sum of hundreds of terms; of f-strings with some characters. Advice must not refuse a cell.
    except (RecursionError, ValueError):
        return "seed"


def warn_of_shared_seeds(cell: Cell) -> None:
    """A UserWarning for each of them, with the line of the cell."""
    for line, said in cell.seeds:
        warnings.warn_explicit(said, UserWarning, cell.filename, line)
