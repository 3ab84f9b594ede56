"""Tiles of several workers side by side: equal contents once, differing ones marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from disco_magic.core.markup import MARK
from disco_magic.notebook.pictures.frames import note
from disco_magic.phrases import who_has

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

_Thing = TypeVar("_Thing")

GAP: Final = 18
"""Pixels between two tiles."""

# Inline, because front ends remove style elements and SVG tags from notebooks that are not trusted yet. That
# is also why every text of a drawing ends with a blank: numbers would run together.
_BESIDE: Final = f"display:inline-block;vertical-align:top;margin:0 {GAP}px 6px 0"


@dataclass(frozen=True, slots=True)
class Likeness:
    """Which workers have equal content.

    Attributes:
        same_as: worker -> the worker whose tile shows its content, too; itself for those that are drawn.
        marked: the workers that stand out: they differ from others that they are meant to agree with.
    """

    same_as: Mapping[int, int]
    marked: frozenset[int]

    @property
    def is_one(self) -> bool:
        """Whether several workers have the same content, and no worker has any other."""
        return len(self.same_as) > 1 and len(set(self.same_as.values())) == 1


def likeness(contents: Mapping[int, Hashable], circles: Sequence[Sequence[int]] = ()) -> Likeness:
    """Compare workers by the rule of the table of registers, see `Row.odd`.

    The usual content is the most frequent one, the first of equally frequent ones. If each worker has its own
    shard, none stands out.

    Args:
        contents: worker -> its content; not empty.
        circles: the sets of workers that are meant to agree with each other; none: all workers.
    """
    same_as = {worker: worker for worker in contents}
    drawn: dict[Hashable, int] = {}
    marked: set[int] = set()
    for circle in circles or (tuple(contents),):
        mine = {worker: contents[worker] for worker in circle if worker in contents}
        groups = list(who_has(mine.items()).values())
        if not groups:
            continue
        usual = max(groups, key=len)
        first = drawn.setdefault(contents[usual[0]], usual[0])
        same_as |= dict.fromkeys(usual, first)
        if len(usual) > 1:
            marked |= mine.keys() - set(usual)
        elif circles and len(groups) > 1:  # they are no shards
            marked |= mine.keys()
    return Likeness(same_as, frozenset(marked))


def tiles_html(
    things: Mapping[int, _Thing | str],
    alike: Likeness,
    draw: Callable[[int, _Thing], str],
    size: tuple[int, int],
    top: int = 0,
) -> str:
    """A tile per worker, with HTML from `draw`; a text, why there is nothing to draw, is shown in a box.

    Content that several workers have is drawn for the first of them, and the others refer to it. Boxes have
    `size` (width and height in pixels) and begin `top` pixels below the worker's name.
    """
    tiles = []
    for worker, thing in things.items():
        first = alike.same_as[worker]
        if isinstance(thing, str):
            body = note(thing, *size, top)
        elif worker == first:
            body = draw(worker, thing)
        else:
            body = note(f"same as [{first}]", *size, top)
        differs = worker in alike.marked
        mark = f' <span class="mark" title="differs from the other workers">{MARK}</span>' if differs else ""
        tiles.append(f'<div style="{_BESIDE}"><b>[{worker}]</b>{mark}{body}</div>')
    return f'<div class="tiles">{"".join(tiles)}</div>'
