"""The differences between two arrays, in one sentence and as a heat map."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from disco_magic.notebook.pictures.axes import number
from disco_magic.notebook.pictures.colours import PLUS_SIGN
from disco_magic.notebook.pictures.images import (
    colour_bar,
    gutter,
    image_html,
    image_size,
    part,
    subject,
)
from disco_magic.notebook.pictures.scales import Scale, common_limits
from disco_magic.notebook.pictures.tiles import figure

if TYPE_CHECKING:
    from disco_magic.values.differences import Difference
    from disco_magic.values.pictures import Picture

_WIDTH: Final = 320  # pixels, of the image at most


def difference_html(difference: Difference, a_label: str, b_label: str) -> str:
    """A figure of the distances between two arrays.

    Equal elements are transparent, and the smallest difference is a visible step away. A ring marks the
    largest one. The colours reach to the largest distance of all elements, including those not shown.

    Cost: as `heatmap_html`.
    """
    between = f"{a_label} and {b_label}"
    told = f'<div class="told">{escape(sentence(difference))}</div>'
    picture = difference.picture
    if picture is None or not picture.values.size or not difference.differing:
        return figure(between, told, [difference.note])
    scale = Scale.of_differences(_largest(difference, picture))
    alt = f"Heat map of |{a_label} - {b_label}|: {sentence(difference)}"
    body = image_html(picture, scale, alt=alt, width=_WIDTH, ring=difference.spot)
    body += colour_bar(scale, [picture], image_size(picture, _WIDTH)[0], indent=gutter(picture))
    shown = _tiles(picture) if picture.thinned else part(picture)
    captions = [f"|a-b| of {subject(picture)}", shown, _alone(picture), difference.note]
    return figure(between, told + body, captions)


def sentence(difference: Difference) -> str:
    """``max |a-b| 3.2e-05 at (12, 7): 0.123 vs 0.124 (max rel 0.001); 17 of 4,096 elements differ``."""
    told = [difference.reason] if difference.reason else []
    if difference.differing and difference.max_abs is not None:
        relative = "" if difference.max_rel is None else f" (max rel {number(difference.max_rel)})"
        told.append(f"max |a-b| {number(difference.max_abs)}{_place(difference)}{relative}")
        s = "s" if difference.differing == 1 else ""
        told.append(f"{difference.differing:,} of {difference.size:,} elements differ{s}")
    elif difference.differing and difference.where is not None:
        told.append(f"the first{_place(difference)}")
    elif not told:
        told.append(f"equal: all {difference.size:,} elements" if difference.size else "equal: no elements")
    return "; ".join(told)


def _place(difference: Difference) -> str:
    """The place of the largest difference, and the two values there."""
    where = "" if difference.where is None else f" at {difference.where}"
    return where if difference.values is None else f"{where}: {' vs '.join(difference.values)}"


def _largest(difference: Difference, picture: Picture) -> float:
    """The upper end of the scale: the largest distance, unless it is infinite."""
    if difference.max_abs is not None and np.isfinite(difference.max_abs):
        return difference.max_abs
    return (common_limits([picture]) or (0.0, 0.0))[1]


def _alone(picture: Picture) -> str:
    count = int(np.isinf(picture.values).sum())
    return f"{PLUS_SIGN} {count:,} where one alone is NaN or infinite" if count else ""


def _tiles(picture: Picture) -> str:
    """The number of elements per pixel, in words, if there are fewer pixels than elements."""
    height, width = (
        round((lines[-1] - lines[0]) / (len(lines) - 1)) if len(lines) > 1 else 1
        for lines in (picture.rows, picture.columns)
    )
    return f"each pixel the largest of about {height}\u00d7{width} elements"
