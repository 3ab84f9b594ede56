"""Names and paths in an expression, such as ``x``, ``self.scale`` and ``batch['x']``, and their values.

Nothing here runs code of the values.
"""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.values.fingerprint import PLAIN_IDS
from disco_magic.values.kinds import home_of, is_any_of, is_array_of_any
from disco_magic.values.members import NOTHING, Member, attribute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HELD: Final = (dict, list, tuple)


class Read(NamedTuple):
    """A path, as Python writes it, and what it leads to."""

    path: str
    value: Any


def chains_in(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield names that are read, and chains of attributes and items that begin with one: the longest ones."""
    bound = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    for each in ast.walk(tree):
        if isinstance(each, ast.comprehension):
            bound |= names_in(each.target)
    rest: list[ast.AST] = [tree]
    while rest:
        node = rest.pop()
        root = _root(node)
        if root is None:
            rest += reversed(list(ast.iter_child_nodes(node)))
            continue
        # What a statement binds is not read, but the object whose item it sets is.
        if root.id not in bound and (root is not node or isinstance(root.ctx, ast.Load)):
            yield node  # type: ignore[misc]  # it has a root
        while isinstance(node, ast.Attribute | ast.Subscript):
            if isinstance(node, ast.Subscript):
                rest.append(node.slice)
            node = node.value


def names_in(tree: ast.AST) -> set[str]:
    """All names in a tree."""
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}


def bound_within(tree: ast.AST) -> set[str]:
    """Names that an expression binds itself, ``(n := f(n))``, apart from its arguments and comprehensions."""
    return {each.target.id for each in ast.walk(tree) if isinstance(each, ast.NamedExpr)}


def _root(node: ast.AST) -> ast.Name | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def follow(path: ast.expr, value_of: Callable[[str], Any]) -> Iterator[Read]:
    """Yield what the path's name and each longer part of it lead to, as far as it can be followed."""
    nodes: list[Any] = [path]
    while not isinstance(nodes[-1], ast.Name):
        nodes.append(nodes[-1].value)
    value = value_of(nodes[-1].id)
    for node in reversed(nodes):
        if not isinstance(node, ast.Name):
            value = _further(value, node, value_of)
        if value is NOTHING or type(value) is property:
            return
        yield Read(ast.unparse(node), value)


def _further(value: Any, node: ast.expr, value_of: Callable[[str], Any]) -> Any:
    kind = type(value)
    if is_array_of_any(kind):
        return NOTHING  # their shapes say more than their parts
    if isinstance(node, ast.Attribute):
        return attribute(value, node.attr)
    key = _key(node.slice, value_of) if isinstance(node, ast.Subscript) and is_any_of(kind, _HELD) else None
    if not is_any_of(type(key), (int, str)):
        return NOTHING
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        return NOTHING


def _key(node: ast.expr, value_of: Callable[[str], Any]) -> Any:
    if isinstance(node, ast.Name):
        return value_of(node.id)
    with suppress(ValueError):
        return ast.literal_eval(node)
    return None


def is_data(value: Any) -> bool:
    """Whether it is a number, a text, a container, an array or a table."""
    kind = type(value)
    return is_array_of_any(kind) or id(kind) in PLAIN_IDS or is_any_of(kind, (*_HELD, set))


def is_same_everywhere(value: Any) -> bool:
    """Whether it is a function, a class, a module, or of this package."""
    return Member(value).is_definition or home_of(type(value)) == __name__.partition(".")[0]
