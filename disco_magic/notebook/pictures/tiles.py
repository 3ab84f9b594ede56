"""The frame of a picture, and tiles of several workers in it: equal contents once, differing ones marked."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, TypeVar

from disco_magic.core.markup import MARK, MARK_RULES
from disco_magic.core.register_values import FEW_WORKERS
from disco_magic.phrases import people, ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

# `!important`, because JupyterLab sets margins and widths by more specific selectors.
_RULES: Final = (
    (
        "{}{display:inline-block;vertical-align:top;margin:0 16px 8px 0!important;"
        "font:12px/1.4 var(--jp-ui-font-family,sans-serif);color:var(--jp-ui-font-color1,inherit)}"
    ),
    "{} .told{max-width:34em;overflow-wrap:anywhere}",
    "{} figcaption{max-width:34em;margin:0;padding:0;text-align:left}",
    "{} .dim{color:var(--jp-ui-font-color2,inherit)}",
    *MARK_RULES,
    "{} .stage{position:relative;overflow:visible}",
    "{} .stage>*{position:absolute;margin:0!important;max-width:none!important}",
    (
        "{} img{box-sizing:content-box!important;image-rendering:pixelated;"
        "border:1px solid var(--jp-border-color0,rgba(128,128,128,.6))}"
    ),
    "{} svg{overflow:visible;font-size:10px}",
    "{} .stage svg text{fill:currentColor}",
    "{} .bar{box-sizing:border-box;height:9px;border:1px solid var(--jp-border-color0,rgba(128,128,128,.6))}",
    "{} .ends{display:flex;justify-content:space-between;font-size:10px}",
    "{} .tiles{margin:4px 0}",
    (
        "{} .note{display:flex;align-items:center;justify-content:center;text-align:center;"
        "box-sizing:border-box;padding:4px;border:1px dashed var(--jp-border-color0,rgba(128,128,128,.6))}"
    ),
)
_STYLE: Final = f"<style>{''.join(rule.replace('{}', '.disco-picture') for rule in _RULES)}</style>"


def figure(title: str, body: str, captions: Iterable[str] = ()) -> str:
    """A figure with trusted HTML `body`; title and captions are escaped, empty ones left out."""
    head = f'<div class="told"><b>{escape(title)}</b></div>' if title else ""
    lines = "<br/>".join(escape(line) for line in captions if line)
    foot = f'<figcaption class="dim">{lines}</figcaption>' if lines else ""
    return f'{_STYLE}<figure class="disco-picture">{head}{body}{foot}</figure>'


def note(text: str, width: int, height: int, top: int = 0) -> str:
    """A box with text in the place of a picture."""
    style = f"width:{width}px;min-height:{height}px;margin-top:{top}px"
    return f'<div class="note dim" style="{style}">{escape(text)}</div>'


def dim(text: str) -> str:
    """A line in a dim colour; "" stays empty."""
    return f'<div class="dim">{escape(text)}</div>' if text else ""


def same_text(title: str, things: Mapping[int, object], alike: Likeness) -> str:
    """A figure that says once why no worker has anything to draw; "" unless all have the same reason."""
    if not alike.is_one or not isinstance(text := next(iter(things.values())), str):
        return ""
    return figure(title, "", [f"on {ranges(list(things))}: {text}"])


_Thing = TypeVar("_Thing")

_NAME: Final = 120  # pixels that the workers of a tile have at least, before their numbers take two lines

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
        for each in groups:
            same_as |= dict.fromkeys(each, drawn.setdefault(contents[each[0]], each[0]))
        if len(usual) > 1:
            # As in tables: of several contents that equally many of many workers have, none is the right one.
            fewer = len(usual) if len(contents) > FEW_WORKERS and not circles else len(mine)
            marked.update(*(each for each in groups if each is not usual and len(each) < fewer))
        elif circles and len(groups) > 1:  # they are no shards
            marked |= mine.keys()
    return Likeness(same_as, frozenset(marked))


def tiles_html(
    things: Mapping[int, _Thing | str],
    alike: Likeness,
    draw: Callable[[str, _Thing], str],
    size: tuple[int, int],
    top: int = 0,
) -> str:
    """A tile per worker, with HTML from `draw`; a text, why there is nothing to draw, is shown in a box.

    Content that several workers have is drawn for the first of them, and the others refer to it; of more than
    eight workers, those that have the same share a tile. Boxes have `size` (width and height in pixels) and
    begin `top` pixels below the worker's name. `draw` gets whose tile it is, ``worker 2``.
    """
    tiles = []
    for workers in _sharing(list(things), alike):
        one = workers[0]
        thing, first, differs = things[one], alike.same_as[one], one in alike.marked
        if isinstance(thing, str):
            body = note(thing, *size, top)
        elif one == first:
            body = draw(people(workers), thing)
        else:
            body = note(f"same as [{first}]", *size, top)
        mark = f' <span class="mark" title="differs from the other workers">{MARK}</span>' if differs else ""
        name = f'<div style="max-width:{max(size[0], _NAME)}px"><b>{ranges(workers)}</b>{mark}</div>'
        tiles.append(f'<div style="{_BESIDE}">{name}{body}</div>')
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _sharing(workers: Sequence[int], alike: Likeness) -> list[list[int]]:
    """The workers of each tile."""
    if len(workers) <= FEW_WORKERS:
        return [[worker] for worker in workers]
    tiles = ((worker, (alike.same_as[worker], worker in alike.marked)) for worker in workers)
    return list(who_has(tiles).values())
