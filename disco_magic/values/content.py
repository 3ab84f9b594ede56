"""What is in a value, told as places and items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.core.held import Held
from disco_magic.values.fingerprint import PLAIN, fingerprint, number_text
from disco_magic.values.kinds import home_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_LONG: Final = 100
# Compared by identity: ``in`` asks a metaclass, which may have an ``__eq__`` or a ``__hash__`` of its own.
PLAIN_IDS: Final = frozenset(map(id, PLAIN))


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a value.

    Attributes:
        items: all of it.
        places: of each a key, number or name; None where nothing could be written for it: a set, a dict whose
            keys are objects.
        written: how a place is written behind the value's name: ``['a']``, ``[0]`` or ``.a``.
        shape: the number of items; of a data frame, rows and columns; None for an object with fields.
        in_order: whether the order of the items is part of the value.
    """

    items: list[Any]
    places: Sequence[Any] | None
    written: Callable[[Any], str]
    shape: tuple[int, ...] | None
    in_order: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether all of it are numbers or text."""
        return all(map(is_plain, kinds_of(self.items)))

    def parts(self, *, plain: bool) -> Iterator[tuple[str, Any]]:
        """How each of the `plain` ones is written, or of the others, and what it is."""
        if self.places is not None:
            for place, item in zip(self.places, self.items, strict=True):
                if is_plain(type(item)) is plain:
                    yield self.written(place), item


class Above(NamedTuple):
    """In place of a part that is one of those which it is in: what refers to itself has no end."""

    path: str

    def held(self) -> Held:
        """It is compared by where it refers to."""
        return Held("itself", text=self.path, digest=fingerprint(self.path))


def kinds_of(items: Iterable[Any]) -> list[type]:
    """The types of `items`, each once."""
    kinds = list(map(type, items))
    # By identity: a metaclass may have a __hash__ of its own.
    return [kinds[-1]] if len(set(map(id, kinds))) == 1 else list({id(kind): kind for kind in kinds}.values())


def subscript(place: object) -> str:
    """``['a']``."""
    written = number_text(place)
    if type(place) is int and len(written) > _LONG:  # as many digits as tell it, most likely, from others
        written = f"{written[:20]}…{written[-20:]}"
    return f"[{written}]"


def attribute(place: object) -> str:
    """``.a``; of a name that is no text to be shown, its escapes."""
    name = str(place)
    return f".{name if name.isprintable() else name.encode('unicode_escape').decode()}"


def tells_all(kind: type) -> bool:
    """Whether the repr of a value of that type is all that there is to it, and runs nobody's code."""
    own = home_of(kind) == "numpy" and issubclass(kind, np.generic)
    return id(kind) in PLAIN_IDS or (own and not issubclass(kind, np.void | np.object_))


def is_plain(kind: type) -> bool:
    """Whether values of this type are numbers or text, that have no parts."""
    return id(kind) in PLAIN_IDS or issubclass(kind, np.generic)
