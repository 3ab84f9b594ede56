"""All that is in a value, part by part, for a table: weights of a model, contents of a dict or object."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.values.content import is_plain
from disco_magic.values.describe import describe_all
from disco_magic.values.inside import content_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.values.content import Content

MOST: Final = 1000
"""How many parts of a value are listed at most."""

_DEPTH: Final = 8


class PartList(NamedTuple):
    """What is in a value.

    Attributes:
        parts: path of each part, as written after the value's name -> its type, shape and bytes.
        is_all: whether there are no more.
    """

    parts: dict[str, RegisterInfo]
    is_all: bool


def list_parts(value: Any) -> PartList:
    """List what is in a value, in its order, 1,000 parts at most; nothing for a value without parts.

    Parts are arrays, numbers and texts, objects that are not looked into, and what lies in more than 8
    containers; a list of numbers, or a set, is one part.
    """
    found = list(islice(_leaves("", value, ()), MOST + 1))
    shown = found[:MOST]
    infos = describe_all([part for _, part in shown], 0)
    return PartList(dict(zip([path for path, _ in shown], infos, strict=True)), len(found) <= MOST)


def _leaves(path: str, value: Any, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each part; `above`: ids of the containers that `value` is in."""
    content = content_of(value) if len(above) < _DEPTH else None
    if content is None or content.places is None or not content.items or _is_series(value, content):
        if path:
            yield path, value
        return
    inside = (*above, id(value))
    for place, item in zip(content.places, content.items, strict=True):
        label = f"{path}{content.written(place)}"
        if is_plain(type(item)):
            yield label, item
        elif id(item) not in inside:  # a value that contains itself has no end
            yield from _leaves(label, item, inside)


def _is_series(value: Any, content: Content) -> bool:
    """Whether it is a list or tuple of numbers and texts, which is shown as one part."""
    return content.is_plain and (type(value) is list or type(value) is tuple)
