"""Tiles of several workers side by side: equal contents once, differing ones marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from disco_magic.core.markup import MARK
from disco_magic.notebook.pictures.frames import note
from disco_magic.phrases import who_has

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

_Thing = TypeVar("_Thing")

# Inline, because front ends remove style elements and SVG tags from notebooks that are not trusted yet. That
# is also why every text of a drawing ends with a blank: numbers would run together.
_BESIDE: Final = "display:inline-block;vertical-align:top;margin:0 18px 6px 0"


@dataclass(frozen=True, slots=True)
class Likeness:
    """Workers in groups of equal content.

    Attributes:
        groups: content -> its workers, in the order of first appearance.
        first: the first worker of the most frequent content (of the first of equally frequent ones).
        odd: the workers with other content.
    """

    groups: dict[Hashable, list[int]]
    first: int
    odd: frozenset[int]

    @property
    def marked(self) -> frozenset[int]:
        """The odd workers, if any two workers agree; if each has its own shard, none stands out."""
        return self.odd if len(self.groups) < sum(map(len, self.groups.values())) else frozenset()


def likeness(contents: Mapping[int, Hashable]) -> Likeness:
    """Group workers by content, by the rule of the table of registers; `contents` is not empty."""
    groups = who_has(contents.items())
    usual = max(groups.values(), key=len)
    return Likeness(groups, usual[0], frozenset(contents) - frozenset(usual))


def tiles_html(
    things: Mapping[int, _Thing | str],
    alike: Likeness,
    draw: Callable[[int, _Thing], str],
    size: tuple[int, int],
    top: int = 0,
) -> str:
    """A tile per worker, with HTML from `draw`; a text, why there is nothing to draw, is shown in a box.

    The content that most workers have is drawn for the first of them, and the others refer to it. Boxes have
    `size` (width and height in pixels) and begin `top` pixels below the worker's name.
    """
    tiles = []
    for worker, thing in things.items():
        odd = worker in alike.odd
        if isinstance(thing, str):
            body = note(thing, *size, top)
        elif odd or worker == alike.first:
            body = draw(worker, thing)
        else:
            body = note(f"same as [{alike.first}]", *size, top)
        differs = worker in alike.marked
        mark = f' <span class="mark" title="differs from the other workers">{MARK}</span>' if differs else ""
        tiles.append(f'<div style="{_BESIDE}"><b>[{worker}]</b>{mark}{body}</div>')
    return f'<div class="tiles">{"".join(tiles)}</div>'
