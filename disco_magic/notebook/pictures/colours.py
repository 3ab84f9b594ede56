"""Perceptually uniform colour maps made from a few anchors, and the colours of NaN and infinities.

Each map is a Bezier curve in CIELAB (lightness, red-green, blue-yellow; D65) with constant speed: the
distance of two colours is proportional to that of their values, everywhere on the scale.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from disco_magic.notebook.pictures.png import Bytes
    from disco_magic.values.pictures import Floats

LEVELS: Final = 253  # of a map; the other three entries of a palette are the inks below
INK, PAPER, PAINT = 253, 254, 255
_INKS: Final = np.array([(0, 0, 0), (255, 255, 255), (230, 0, 160)], np.uint8)

# Characters for captions that look like the pixels of the patterns.
NAN_SIGN, PLUS_SIGN, MINUS_SIGN = "\u259a", "\u2580", "\u2584"

# Colours of series with enough contrast on white and on black. Callers also give each a dash pattern.
LINES: Final = ("#2f80c8", "#c8641e", "#2e8b57", "#a95fc4", "#8c7a14", "#d0487a")


_STOPS: Final = 17


def css(palette: Bytes) -> str:
    """A palette's map, `(n, 3)` or `(n, 4)`, as a CSS gradient from left to right."""
    chosen = palette[np.linspace(0, LEVELS - 1, _STOPS).round().astype(int)]
    return f"linear-gradient(90deg,{','.join(map(css_colour, chosen))})"


def css_colour(colour: Bytes) -> str:
    """``#1a2b3c``, or ``#1a2b3c80`` with an opacity."""
    return f"#{colour.tobytes().hex()}"


# --- from CIELAB to sRGB ---------------------------------------------------------------------------

_WHITE: Final = np.array([0.95047, 1.0, 1.08883])  # of D65
_TO_RGB: Final = np.array(
    [
        [3.2404542, -1.5371385, -0.4985314],
        [-0.9692660, 1.8760108, 0.0415560],
        [0.0556434, -0.2040259, 1.0572252],
    ]
)


def _srgb(lab: Floats) -> Bytes:
    """Convert CIELAB colours `(n, 3)` to sRGB, clipped to what a screen can show."""
    y = (lab[:, 0] + 16) / 116
    f = np.stack([y + lab[:, 1] / 500, y, y - lab[:, 2] / 200], axis=1)
    xyz = np.where(f > 6 / 29, f**3, 3 * (6 / 29) ** 2 * (f - 4 / 29)) * _WHITE
    linear = np.clip(xyz @ _TO_RGB.T, 0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    colours: Bytes = (srgb * 255).round().astype(np.uint8)
    return colours


def _curve(*anchors: tuple[float, float, float]) -> Floats:
    """Points of the Bezier curve with these anchors."""
    t = np.linspace(0, 1, 1000)[:, None]
    last = len(anchors) - 1
    weights = [comb(last, i) * (1 - t) ** (last - i) * t**i for i in range(last + 1)]
    curve: Floats = np.sum([w * np.array(anchor) for w, anchor in zip(weights, anchors, strict=True)], axis=0)
    return curve


def _even(curve: Floats, count: int) -> Floats:
    """Equidistant points of a curve."""
    steps = np.linalg.norm(np.diff(curve, axis=0), axis=1)
    gone = np.concatenate([[0], steps.cumsum()])
    wanted = np.linspace(0, gone[-1], count)
    return np.stack([np.interp(wanted, gone, axis) for axis in curve.T], axis=1)


def _palette(points: Floats) -> Bytes:
    return np.concatenate([_srgb(points), _INKS])


def _difference() -> Bytes:
    """One colour from transparent to opaque, so that the background shows where nothing differs."""
    alpha = np.linspace(72, 255, LEVELS).round()
    alpha[0] = 0  # equal; the smallest difference is a visible step away
    colour = np.repeat(_srgb(np.array([[56.0, 66.0, 46.0]])), LEVELS, axis=0)
    inks = np.concatenate([_INKS, np.full((3, 1), 255, np.uint8)], axis=1)
    return np.concatenate([np.concatenate([colour, alpha.astype(np.uint8)[:, None]], axis=1), inks])


# Dark to light, readable in grey: indigo, blue, teal, green, straw.
SEQUENTIAL: Final = _palette(
    _even(_curve((13, 20, -36), (34, 8, -44), (56, -46, -4), (80, -38, 46), (95, -4, 34)), LEVELS)
)
_HALF: Final = LEVELS // 2 + 1
# Blue below zero, red above, equally dark at equal distances. `LEVELS` is odd, so zero has its own level.
DIVERGING: Final = _palette(
    np.concatenate(
        [
            _even(_curve((33, 14, -52), (58, -4, -44), (82, -10, -18), (95, 0, 0)), _HALF),
            _even(_curve((95, 0, 0), (80, 12, 20), (54, 30, 36), (33, 46, 40)), _HALF)[1:],
        ]
    )
)
# Red, green, blue and opacity.
DIFFERENCE: Final = _difference()
