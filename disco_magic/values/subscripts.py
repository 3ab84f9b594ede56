"""Elements and slices of an array or a list, by an index as it is written: ``x[0:2]``, ``p['w'][:, -1]``."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import UsageMistake
from disco_magic.phrases import headline, words
from disco_magic.values.kinds import (
    is_all_elements,
    is_any_of,
    is_array_of_any,
    is_gpu_array,
    is_jax_array,
    is_of_framework,
    is_tensor,
)
from disco_magic.values.members import NOTHING
from disco_magic.values.parts import part_at

if TYPE_CHECKING:
    from collections.abc import Callable

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
    item, index_text = _divided(value, written, _is_indexed)
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


def _divided(value: Any, written: str, can_be: Callable[[Any], bool]) -> tuple[Any, str]:
    """The first thing on the path that `can_be` indexed, and what is written behind it; else `NOTHING`.

    What looks like an index may be a key: in ``d[0][1]`` the 0, if `d` is a dict.
    """
    found = _INDEXED.fullmatch(written)
    for index in _INDEX.finditer(written, found.start(2)) if found else ():
        path = written[: index.start()]
        item = part_at(value, path) if path else value
        if item is not NOTHING and can_be(item):
            return item, written[index.start() :]
    return NOTHING, ""


def _is_indexed(value: Any) -> bool:
    kind = type(value)
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


# --- for looks from outside of the workers: no code of the values runs -------------------------------------


def seen_at(value: Any, written: str) -> Any:
    """The part at that path, or what numbers and slices at its end select of an array; else `NOTHING`.

    That is a view: nothing is copied or computed.
    """
    part = part_at(value, written)
    if part is not NOTHING:
        return part
    item, index_text = _divided(value, written, _has_views)
    if item is NOTHING:
        return NOTHING
    with suppress(SyntaxError, *_REFUSED):
        indexes = _indexes(ast.parse(f"_{index_text}", mode="eval").body)
        if all(map(_selects_a_view, indexes)):
            item = item.detach() if is_tensor(type(item)) else item
            for index in indexes:
                if not _has_views(item):  # an element of an array of objects, which has code of its own
                    return NOTHING
                item = item[index]
            return item
    return NOTHING


def _has_views(value: Any) -> bool:
    kind = type(value)
    if is_tensor(kind):
        return str(value.layout) == "torch.strided"  # what is selected of a sparse one is computed
    return is_all_elements(kind) or is_gpu_array(kind)


def _selects_a_view(index: Any) -> bool:
    """Whether it is made of whole numbers, slices, ``...`` and None only; lists select a copy."""
    each = index if type(index) is tuple else (index,)
    return all(type(one) in (int, slice, type(...), type(None)) for one in each)


def on_part(written: str, function: Callable[..., Any], value: Any, *arguments: Any) -> Any:
    """Return ``function(part, *arguments)``; None if `value` has no such part."""
    part = seen_at(value, written)
    return None if part is NOTHING else function(part, *arguments)


def on_parts(written: str, function: Callable[..., Any], first: Any, second: Any, *arguments: Any) -> Any:
    """Return ``function(part, part, *arguments)`` for two values; None if one of them has no such part."""
    parts = seen_at(first, written), seen_at(second, written)
    return None if any(part is NOTHING for part in parts) else function(*parts, *arguments)


def has_part(value: Any, written: str) -> bool:
    """Whether `value` has a part at that path."""
    return seen_at(value, written) is not NOTHING
