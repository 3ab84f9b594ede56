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

# An index without names; and a path of a part with as many of these as there are at its end.
_INDEX: Final = re.compile(r"""\[(?:[^]['"]|\[[^]['"]*\])*\]""")
_INDEXED: Final = re.compile(rf"(.*?)((?:{_INDEX.pattern})+)", re.DOTALL)
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
    item, index_text = _divided(value, written)
    if item is NOTHING:
        return NOTHING
    try:
        indexes = _indexes(ast.parse(f"_{index_text}", mode="eval").body)
    except (SyntaxError, ValueError):
        raise UsageMistake(f"{index_text} is no index of it: {_ONLY}") from None
    try:
        for index in indexes:
            item = item[index]
    except _REFUSED as error:
        raise UsageMistake(f"{index_text} is no index of it: {_why(error)}") from None
    return item


def _divided(value: Any, written: str) -> tuple[Any, str]:
    """The first thing on the path that can be indexed, and what is written behind it; `NOTHING` if none can.

    What looks like an index may be a key: in ``d[0][1]`` the 0, if `d` is a dict.
    """
    found = _INDEXED.fullmatch(written)
    for index in _INDEX.finditer(written, found.start(2)) if found else ():
        path = written[: index.start()]
        item = part_at(value, path) if path else value
        if item is not NOTHING and _is_indexed(type(item)):
            return item, written[index.start() :]
    return NOTHING, ""


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
