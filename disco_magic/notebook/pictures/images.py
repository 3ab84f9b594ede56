"""The parts of a heat map: the image with indices along its sides, the colour bar, the captions."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from disco_magic.core.words import plural, shape_text
from disco_magic.notebook.pictures.axes import index_ticks, number, numbers, shown, width_of
from disco_magic.notebook.pictures.colours import (
    LEVELS,
    MINUS_SIGN,
    NAN_SIGN,
    PLUS_SIGN,
    css,
    css_colour,
)
from disco_magic.notebook.pictures.png import data_uri, png
from disco_magic.notebook.pictures.scales import PALETTE, common_limits, patterns

if TYPE_CHECKING:
    from disco_magic.notebook.pictures.scales import Scale
    from disco_magic.values.pictures import Indices, Picture

_CELL: Final = 24  # pixels: the largest side of an element
_THIN: Final = 40  # pixels: a picture of few lines is stretched to this size
_BAR: Final = 140  # pixels: the least width of a colour bar, for three numbers
TOP: Final = 16  # pixels above the image: the columns' indices
_END: Final = 8  # pixels after it, for half of the last index


def captions(picture: Picture) -> list[str]:
    """The captions of a heat map: the array, the shown part, elements without a colour."""
    return [subject(picture), part(picture), oddities(picture)]


def subject(picture: Picture) -> str:
    """``float32 4096x4096``."""
    return f"{picture.what} {shape_text(picture.shape)}"


def part(picture: Picture) -> str:
    """``every 8th row and every 4th column shown``; "" if all are."""
    rows, columns = picture.extents
    parts = [shown(picture.rows, rows, "row"), shown(picture.columns, columns, "column")]
    text = " and ".join(filter(None, parts))
    return f"{text} shown" if text else ""


def oddities(picture: Picture) -> str:
    """``3 NaN, 1 +Inf``, each with the sign of its pattern; "" if all values are finite."""
    values = picture.values
    counts = (
        (NAN_SIGN, int(np.isnan(values).sum()), "NaN"),
        (PLUS_SIGN, int(np.isposinf(values).sum()), "+Inf"),
        (MINUS_SIGN, int(np.isneginf(values).sum()), "-Inf"),
    )
    text = ", ".join(f"{sign} {count:,} {name}" for sign, count, name in counts if count)
    return f"{text} of {plural(values.size, 'value')}" if text else ""


def description(picture: Picture, name: str) -> str:
    """The picture in words, for screen readers."""
    limits = common_limits([picture])
    values = f"values from {' to '.join(numbers(*limits))}" if limits else "no finite value"
    words = [f"Heat map of {name}" if name else "Heat map", subject(picture), values]
    return ", ".join([*words, *filter(None, (oddities(picture), part(picture)))])


# --- the image -------------------------------------------------------------------------------------


def image_html(
    picture: Picture,
    scale: Scale,
    *,
    alt: str,
    width: int,
    ring: tuple[int, int] | None = None,
    most: int = 6,
) -> str:
    """The image with indices along its sides.

    Args:
        picture: the picture, not empty.
        scale: the colours.
        alt: description of the picture.
        width: largest width of the image in pixels.
        ring: an element, (row, column) of the whole array, to be marked by a ring; if its line is not shown,
            the line before it is used.
        most: largest number of indices along each side.
    """
    across, down = image_size(picture, width)
    left = gutter(picture)
    marks = _indices(picture, left, across, down, most)
    if ring is not None and _within(picture.rows, ring[0]) and _within(picture.columns, ring[1]):
        x = left + _middle_of(_line_of(picture.columns, ring[1]), picture.columns, across)
        y = TOP + _middle_of(_line_of(picture.rows, ring[0]), picture.rows, down)
        marks += f'<circle cx="{x:g}" cy="{y:g}" r="7" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    place = (
        f'width="{across}" height="{down}" style="left:{left - 1}px;top:{TOP - 1}px;'
        f'width:{across}px;height:{down}px!important"'
    )
    source = data_uri(png(scale.pixels(picture.values), scale.palette))
    images = f'<img class="disco-heat" src="{source}" alt="{escape(alt)}" {place}/>'
    over = patterns(picture.values)
    if over is not None:
        images += f'<img src="{data_uri(png(over, PALETTE))}" alt="" {place}/>'
    return (
        f'<div class="stage" style="width:{left + across + _END}px;height:{TOP + down + 6}px">{images}'
        f'<svg aria-hidden="true" style="left:0;top:0" width="{left + across}" height="{TOP + down}">'
        f"{marks}</svg></div>"
    )


def image_size(picture: Picture, width: int) -> tuple[int, int]:
    """Width and height of the image in pixels, at most about `width` each.

    Elements are squares of a whole number of pixels, unless that would make the picture a thin line.
    """
    rows, columns = picture.values.shape
    side = max(1, min(_CELL, width // max(rows, columns)))
    across = side if columns * side >= _THIN else min(_CELL, _THIN // columns)
    down = side if rows * side >= _THIN else min(_CELL, _THIN // rows)
    return columns * across, rows * down


def gutter(picture: Picture) -> int:
    """Width of the rows' indices left of the image, in pixels."""
    return width_of([str(picture.rows[-1])]) + 8


def sides(picture: Picture) -> int:
    """Width of what is left and right of the image, in pixels."""
    return gutter(picture) + _END


def _within(indices: Indices, index: int) -> bool:
    """Whether an index lies between the shown ones, or after the last one by less than their distance."""
    first, last = int(indices[0]), int(indices[-1])
    step = last - int(indices[-2]) if len(indices) > 1 else 1
    return first <= index < last + step


def _line_of(indices: Indices, index: int) -> int:
    return int(np.searchsorted(indices, index, side="right")) - 1


def _middle_of(line: int, lines: Indices, pixels: int) -> float:
    return (line + 0.5) * pixels / len(lines)


def _indices(picture: Picture, left: int, across: int, down: int, most: int) -> str:
    """Ticks at the left and at the top."""
    marks, texts = "", ""
    for line, index in index_ticks(picture.rows, min(most, max(2, down // 14))):
        y = TOP + _middle_of(line, picture.rows, down)
        marks += f"M{left - 4} {y:g}h3"
        texts += f'<text x="{left - 6}" y="{y + 3.5:g}" text-anchor="end">{index}</text> '
    widest = width_of([str(picture.columns[-1])])
    for line, index in index_ticks(picture.columns, min(most, max(2, across // (widest + 10)))):
        x = left + _middle_of(line, picture.columns, across)
        marks += f"M{x:g} {TOP - 4}v3"
        texts += f'<text x="{x:g}" y="{TOP - 6}" text-anchor="middle">{index}</text> '
    return f'<path d="{marks}" stroke="currentColor"/>{texts}'


# --- the colour bar --------------------------------------------------------------------------------


def colour_bar(scale: Scale, pictures: list[Picture], width: int, *, indent: int = 0) -> str:
    """The colour bar with values at the ends and in the middle, at least `width` pixels wide."""
    together = np.concatenate([each.values.ravel() for each in pictures])
    finite = together[np.isfinite(together)]
    if not finite.size:
        return ""
    booleans = all(each.what == "bool" for each in pictures)
    if scale.low == scale.high:
        value = str(bool(scale.low)) if booleans else number(scale.low)
        which = "values" if finite.size == together.size else "finite values"
        return f'<div style="margin-left:{indent}px">all {which} shown are {value}</div>'
    if booleans:
        off, on = (css_colour(colour) for colour in scale.palette[[0, LEVELS - 1]])
        paint, labels = f"linear-gradient(90deg,{off} 50%,{on} 50%)", ["False", "True"]
    else:
        labels = numbers(scale.low, _middle(scale), scale.high)
        paint = css(scale.palette)
    spans = " ".join(f"<span>{label}</span>" for label in labels)
    return (
        f'<div style="margin-left:{indent}px;width:{max(width, _BAR) + 2}px">'
        f'<div class="bar" style="background:{paint}"></div><div class="ends">{spans}</div></div>'
    )


def _middle(scale: Scale) -> float:
    """The middle of the scale; 0 if it differs from 0 only by rounding."""
    return scale.middle if abs(scale.middle) > (scale.high / 2 - scale.low / 2) * 1e-3 else 0.0
