"""Elements and slices of an array or a list, by an index as it is written: ``x[0:2]``, ``p['w'][:, -1]``."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from disco_magic.errors import UsageMistake
from disco_magic.phrases import headline, words
from disco_magic.values.kinds import is_any_of, is_array_of_any, is_jax_array, is_of_framework
from disco_magic.values.members import NOTHING
from disco_magic.values.parts import part_at

# A path of a part, and as many indexes without names as there are behind it.
_INDEXED: Final = re.compile(r"""(.*?)((?:\[(?:[^]['"]|\[[^]['"]*\])*\])+)""", re.DOTALL)
_ONLY: Final = "only numbers, lists of them, slices and ... are; {i} stands for what i is in the notebook"
# What arrays of any library raise for an index that they have not, or do not take, as PyTorch a step below 0.
_REFUSED: Final = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
_PLAIN: Final = (list, tuple, range, str, bytes)


def indexed_at(value: Any, written: str) -> Any:
    """Return what is at that path, whose end indexes an array, list or the like; `NOTHING` if that is not so.

    Only numbers, lists of them, slices and ``...`` index: names would be those of the worker's variables, or
    the notebook's.

    Raises:
        UsageMistake: there is such an array, but not that index of it; or that is written with names.
    """
    found = _INDEXED.fullmatch(written)
    item: Any = NOTHING if found is None else part_at(value, found[1]) if found[1] else value
    if found is None or not _is_indexed(type(item)):
        return NOTHING
    try:
        indexes = _indexes(ast.parse(f"_{found[2]}", mode="eval").body)
    except (SyntaxError, ValueError):
        raise UsageMistake(f"{found[2]} is no index of it: {_ONLY}") from None
    try:
        for index in indexes:
            item = item[index]
    except _REFUSED as error:
        raise UsageMistake(f"{found[2]} is no index of it: {_why(error)}") from None
    return item


def _is_indexed(kind: type) -> bool:
    return is_array_of_any(kind) or is_of_framework(kind) or is_jax_array(kind) or is_any_of(kind, _PLAIN)


def _why(error: Exception) -> str:
    """What the error says; of a KeyError that is only the key."""
    return headline(error) if isinstance(error, KeyError) else words(error)


def _indexes(node: ast.expr) -> list[Any]:
    """The indexes of a chain of subscripts, the innermost first. Raises ValueError as `_index`."""
    return [*_indexes(node.value), _index(node.slice)] if isinstance(node, ast.Subscript) else []


def _index(node: ast.expr | None) -> Any:
    """The value of an index. Raises ValueError if it is made of anything but numbers."""
    if isinstance(node, ast.Slice):
        return slice(_index(node.lower), _index(node.upper), _index(node.step))
    if isinstance(node, ast.Tuple):
        return tuple(map(_index, node.elts))
    return None if node is None else ast.literal_eval(node)
