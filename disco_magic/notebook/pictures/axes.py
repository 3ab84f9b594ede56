"""Axes, their ticks and labels: round numbers, and which indices of an array are shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from disco_magic.values.pictures import Indices


_DIGIT: Final = 6.2  # pixels: the width of a digit in the size of the tick labels
_MANY: Final = 4  # lines per tick
_SMALLEST: Final = 1e-300  # no ticks between closer values, because the steps would be subnormal


def number(value: float, digits: int = 4) -> str:
    """``12``, ``0.1235``, ``1.2e-07``: whole numbers below a million in full, others rounded to `digits`."""
    return str(int(value)) if abs(value) < 1e6 and value == int(value) else f"{value:.{digits}g}"


def numbers(*values: float) -> list[str]:
    """Each value with four digits, or as many more as distinguish them."""
    texts = [number(value) for value in values]
    for digits in range(5, 18):
        if len(set(texts)) == len(set(values)):
            break
        texts = [number(value, digits) for value in values]
    return texts


def width_of(labels: Sequence[str]) -> int:
    """The approximate width of the widest tick label, in pixels."""
    return math.ceil(_DIGIT * max(map(len, labels), default=0))


def axes_svg(
    left: int,
    right: int,
    bottom: int,
    rows: Iterable[tuple[float, str]],
    columns: Iterable[tuple[float, str]],
) -> str:
    """Axes with ticks: heights with their labels, and places along the bottom with theirs, which are HTML."""
    grid, marks, texts = "", "", ""
    for y, text in rows:
        grid += f"M{left} {y:g}H{right}"
        texts += f'<text x="{left - 5}" y="{y + 3.5:g}" text-anchor="end">{text}</text> '
    for x, text in columns:
        marks += f"M{x:g} {bottom}v4"
        texts += f'<text x="{x:g}" y="{bottom + 15}" text-anchor="middle">{text}</text> '
    return (
        f'<path d="{grid}" stroke="currentColor" opacity=".2"/>'
        f'<path d="M{left} {bottom}H{right}{marks}" stroke="currentColor" fill="none"/>{texts}'
    )


# --- axes of numbers -------------------------------------------------------------------------------


def number_ticks(low: float, high: float, most: int = 5) -> list[tuple[float, str]]:
    """At most `most` round numbers from `low` to `high` with their labels; the ends where there are none."""
    halves = high / 2 - low / 2  # the difference of two doubles may overflow
    if halves > _SMALLEST:
        steps = _round_steps(halves / most)
        step = next(step for step in steps if math.floor(high / step) - math.ceil(low / step) < most)
        first, last = math.ceil(low / step), math.floor(high / step)
        if last > first:
            ticks = [index * step for index in range(first, last + 1)]
            return list(zip(ticks, _labels(ticks, step), strict=True))
    return [(end, number(end)) for end in dict.fromkeys((low, high))]


def _round_steps(least: float) -> Iterator[float]:
    """1, 2 and 5 times powers of ten, upwards from about `least`."""
    exponent = math.floor(math.log10(least))
    while True:
        yield from (float(f"{digit}e{exponent}") for digit in (1, 2, 5))
        exponent += 1


def _labels(ticks: Sequence[float], step: float) -> list[str]:
    """As many digits as distinguish the ticks, with exponents where plain numbers would be long."""
    largest = max(map(abs, ticks))
    power, step_power = math.floor(math.log10(largest)), math.floor(math.log10(step))
    if -4 < power < 5:
        return [f"{tick:.{max(0, -step_power)}f}" for tick in ticks]
    digits = min(15, max(0, power - step_power))
    return [_exponential(f"{tick:.{digits}e}") if tick else "0" for tick in ticks]


def _exponential(text: str) -> str:
    """``1.5e+07`` as ``1.5e7``."""
    digits, exponent = text.split("e")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}e{int(exponent)}"


# --- axes of indices -------------------------------------------------------------------------------


def index_ticks(indices: Indices, most: int) -> list[tuple[int, int]]:
    """The lines of a picture that get a tick: (line, index of the array), evenly spaced, at most `most`.

    Round indices (1, 2, 5 times a power of ten, or a power of two) if these are shown, else any.
    """
    count = len(indices)
    if count <= most:
        return list(enumerate(indices.tolist()))
    first, last = int(indices[0]), int(indices[-1])
    decimal = (digit * 10**power for power in range(len(str(last))) for digit in (1, 2, 5))
    for step in sorted({*decimal, *(1 << k for k in range(last.bit_length()))}):
        wanted = np.arange(-(-first // step) * step, last + 1, step)
        lines = np.minimum(np.searchsorted(indices, wanted), count - 1)
        if max(2, most // 2) < len(wanted) <= most and np.array_equal(indices[lines], wanted):
            return list(zip(lines.tolist(), wanted.tolist(), strict=True))
    lines = np.linspace(0, count - 1, most).round().astype(int)
    if count < _MANY * most:  # after rounding, the distances would differ visibly
        lines = np.arange(0, count, -(-count // most))
    return list(zip(lines.tolist(), indices[lines].tolist(), strict=True))


def shown(indices: Indices, length: int, noun: str) -> str:
    """``every 8th row``, ``about every 3rd row``, ``rows 100 to 227``; "" if all of `length` are shown."""
    count = len(indices)
    if count in (0, length):
        return ""
    first, last = int(indices[0]), int(indices[-1])
    length = max(length, last + 1)
    if count == 1:
        return f"{noun} {first:,}"
    step = round((last - first) / (count - 1))
    even = bool((np.diff(indices) == step).all())
    if even and step == 1:
        return f"{noun}s {first:,} to {last:,}"
    every = f"{'' if even else 'about '}every {ordinal(step)} {noun}" if step > 1 else f"{count:,} {noun}s"
    whole = first < step and last + step >= length
    return every if whole else f"{every} from {first:,} to {last:,}"


def ordinal(count: int) -> str:
    """``2nd``, ``3rd``, ``11th``, ``21st``."""
    ending = "th" if count // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count:,}{ending}"
