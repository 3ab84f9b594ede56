"""Arrays as heat maps: one, or the same register of several workers side by side on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from disco_magic.notebook.pictures.images import (
    TOP,
    captions,
    colour_bar,
    description,
    gutter,
    image_html,
    image_size,
    oddities,
    part,
    sides,
    subject,
)
from disco_magic.notebook.pictures.scales import Scale, common_limits
from disco_magic.notebook.pictures.tiles import GAP, dim, figure, likeness, same_text, tiles_html
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from disco_magic.values.pictures import Picture

_CAPTION: Final = 140
"""Pixels: the least width of a caption below an image."""


def heatmap_html(
    picture: Picture,
    *,
    symmetric: bool = False,
    title: str = "",
    width: int = 320,
) -> str:
    """A figure of one array.

    Args:
        picture: at most 128 x 128 numbers, with their positions in the array.
        symmetric: use two colours around zero instead of one map from dark to light.
        title: text above the picture and in its description.
        width: largest width in pixels; elements get a whole number of pixels, at most 24.

    Returns:
        HTML, at most 30 kB. The ends of the colours are the smallest and the largest finite value shown.

    Cost: 1 to 2 ms for 128 x 128.
    """
    scale = Scale.of(common_limits([picture]), symmetric=symmetric)
    if not picture.values.size:
        return figure(title, "", [f"{subject(picture)}: no elements"])
    return figure(title, _with_bar(picture, scale, title, width), captions(picture))


def multiples_html(
    pictures: Mapping[int, Picture | str],
    *,
    symmetric: bool = False,
    title: str = "",
    width: int = 160,
    circles: Sequence[Sequence[int]] = (),
) -> str:
    """A figure of one array per worker, all on one scale.

    Equal pictures are drawn once; what differs from the most frequent one is marked. With `circles`, so it is
    in each of them. Only the shown elements are compared, so a thinned picture may
    hide a difference.

    Cost: 1 to 2 ms for each different picture of 128 x 128.
    """
    things = {
        worker: each if isinstance(each, str) or each.values.size else f"{subject(each)}: no elements"
        for worker, each in pictures.items()
    }
    drawn = [each for each in things.values() if not isinstance(each, str)]
    alike = likeness({worker: _content(each) for worker, each in things.items()}, circles)
    if none := same_text(title, things, alike):
        return none
    scale = Scale.of(common_limits(drawn), symmetric=symmetric)
    if drawn and alike.is_one:
        one, far = drawn[0], ", as far as shown" if drawn[0].thinned else ""
        same = f"the same on workers {ranges(list(things))}{far}"
        return figure(title, _with_bar(one, scale, title, width), [same, *captions(one)])
    sizes = [image_size(each, width) for each in drawn] or [(width, 0)]
    widest, highest = max(size[0] for size in sizes), max(size[1] for size in sizes)
    one_subject = len({subject(each) for each in drawn}) == 1

    def draw(who: str, picture: Picture) -> str:
        name = f"{title} on {who}" if title else who
        image = image_html(picture, scale, alt=description(picture, name), width=width, most=3)
        said = dim("" if one_subject else subject(picture)) + dim(oddities(picture))
        room = max(sides(picture) + image_size(picture, width)[0], _CAPTION)
        return image + (said and f'<div style="max-width:{room}px">{said}</div>')

    body = tiles_html(things, alike, draw, (widest, highest), TOP)
    if drawn:
        body += colour_bar(scale, drawn, widest, indent=gutter(drawn[0]))
    return figure(title, body, [subject(drawn[0]), part(drawn[0])] if one_subject else [])


def width_beside(pictures: Sequence[Picture], tiles: int, room: int) -> int:
    """The `width` for `multiples_html` with which so many tiles fit side by side into `room` pixels."""
    widest = max((sides(each) for each in pictures if each.values.size), default=0)
    return room // tiles - widest - GAP


def _with_bar(picture: Picture, scale: Scale, name: str, width: int) -> str:
    image = image_html(picture, scale, alt=description(picture, name), width=width)
    return image + colour_bar(scale, [picture], image_size(picture, width)[0], indent=gutter(picture))


def _content(picture: Picture | str) -> Hashable:
    """A key that is equal for pictures that look the same and are of the same kind of array."""
    if isinstance(picture, str):
        return picture
    axes = picture.rows.tobytes(), picture.columns.tobytes()
    # By value, because different NaNs, and the two zeros, look the same.
    values = np.where(np.isnan(picture.values), np.nan, picture.values) + 0.0
    return picture.shape, picture.what, axes, values.tobytes()
