"""How well text can be told from what is behind it, by the rule of WCAG 2."""

from __future__ import annotations

DARK = (17, 17, 17)
"""The background of notebooks in JupyterLab's dark theme."""

Colour = tuple[float, ...]


def contrast(one: Colour, other: Colour) -> float:
    """From 1, the same, to 21, black and white."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(colour: Colour, percent: float, rest: Colour) -> Colour:
    """What `color-mix(in srgb, ...)` makes."""
    return tuple((percent * a + (100 - percent) * b) / 100 for a, b in zip(colour, rest, strict=True))


def _luminance(colour: Colour) -> float:
    shares = [part / 255 for part in colour]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
