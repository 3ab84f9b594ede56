"""Numbers as charts: the bars of histograms, lines over cells, sparks."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from disco_magic.core.words import plural
from disco_magic.notebook.pictures.axes import axes_svg, number, number_ticks, width_of
from disco_magic.notebook.pictures.colours import LINES, MINUS_SIGN, NAN_SIGN, PLUS_SIGN
from disco_magic.notebook.pictures.plots import Plot, cells_of, lines_of, said
from disco_magic.notebook.pictures.tiles import dim, figure, likeness, same_text, tiles_html
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from disco_magic.notebook.pictures.plots import Point
    from disco_magic.values.pictures import Floats, Histogram, Indices

_MOST: Final = 50  # more bins are drawn in groups, because a bar needs a few pixels to point at
_TOP, _BOTTOM = 8, 18  # pixels: space above the bars, numbers below them


def grouped(histogram: Histogram) -> tuple[Floats, Indices]:
    """Edges and counts of at most 50 bars."""
    edges = np.asarray(histogram.edges, np.float64)
    counts = np.asarray(histogram.counts, np.int64)[: max(0, len(edges) - 1)]
    if len(counts) <= _MOST:
        return edges, counts
    starts = np.arange(0, len(counts), math.ceil(len(counts) / _MOST))
    return np.append(edges[starts], edges[-1]), np.add.reduceat(counts, starts)


def amount(histogram: Histogram) -> str:
    """``65,536 elements``, ``sample of 65,536 of 1,000,000 elements``."""
    whole = plural(histogram.size, "element") if histogram.size else "no elements"
    counted = int(np.sum(histogram.counts)) + histogram.nans + histogram.infs
    return f"sample of {counted:,} of {whole}" if histogram.sampled else whole


def missing(histogram: Histogram) -> str:
    """``3 NaN, 1 infinite``, with their signs in heat maps; "" if all are finite."""
    words = [f"{NAN_SIGN} {histogram.nans:,} NaN"] if histogram.nans else []
    words += [f"{PLUS_SIGN}{MINUS_SIGN} {histogram.infs:,} infinite"] if histogram.infs else []
    return ", ".join(words)


def _said(histogram: Histogram) -> str:
    return ", ".join(filter(None, (amount(histogram), missing(histogram))))


class Bars:
    """The bars of one histogram in `width` x `height` pixels; a count of `most` has the full height."""

    def __init__(self, histogram: Histogram, width: int, height: int, most: int | None) -> None:
        self._edges, self._counts = grouped(histogram)
        self._most = max(1, int(self._counts.max(initial=0)) if most is None else most)
        whole = [count for count, _ in number_ticks(0, self._most, 3) if count == round(count) and count > 0]
        self._ticks = [(round(count), f"{round(count):,}") for count in whole]
        self._left = width_of([text for _, text in self._ticks]) + 8
        self._width = width - self._left - 12
        self._bottom = height - _BOTTOM
        self._ends = [self._x(float(edge)) for edge in self._edges]

    def _x(self, value: float) -> float:
        # Halves, because the difference of two doubles may overflow.
        low, high = float(self._edges[0]) / 2, float(self._edges[-1]) / 2
        part = (value / 2 - low) / (high - low) if high > low else 0.5
        return round(self._left + part * self._width, 1)

    def _y(self, count: int) -> int:
        # At least one pixel, so that one element among a million is visible.
        return self._bottom - (max(round((self._bottom - _TOP) * count / self._most), 1) if count else 0)

    def axes(self) -> str:
        """Counts at the left, values below."""
        rows = ((self._y(count), text) for count, text in self._ticks)
        columns = ((self._x(value), text) for value, text in self._values())
        return axes_svg(self._left, self._left + self._width, self._bottom, rows, columns)

    def _values(self) -> list[tuple[float, str]]:
        """The labels of as many round values as fit."""
        if not len(self._edges):
            return []
        low, high = float(self._edges[0]), float(self._edges[-1])
        for most in range(7, 1, -1):
            ticks = number_ticks(low, high, most)
            if len(ticks) * (width_of([text for _, text in ticks]) + 12) <= self._width:
                break
        return ticks

    def outline(self) -> str:
        """All bars as one path."""
        return "".join(
            f"M{left:g} {self._bottom}V{self._y(count)}H{max(right - 1, left + 1):g}V{self._bottom}z"
            for left, right, count, _ in self._columns()
            if count
        )

    def targets(self) -> str:
        """Invisible lines over the full height with the range and count of each bar as tooltip."""
        columns = self._columns()
        width = min((right - left for left, right, _, _ in columns), default=0)
        lines = (
            f'<path d="M{(left + right) / 2:.1f} {_TOP}V{self._bottom}"><title>{said}</title></path>'
            for left, right, _, said in columns
        )
        return f'<g stroke="transparent" stroke-width="{width:.1f}">{"".join(lines)}</g>'

    def _columns(self) -> list[tuple[float, float, int, str]]:
        """Left and right end, count and words of every bar."""
        columns = []
        for i, count in enumerate(self._counts.tolist()):
            bin_text = _bin_text(float(self._edges[i]), float(self._edges[i + 1]))
            left, right = self._ends[i], self._ends[i + 1]
            if left == right:  # a bin without width: all elements are equal
                left, right = left - self._width / 20, right + self._width / 20
            columns.append((left, right, count, f"{bin_text}: {count:,}"))
        return columns


def _bin_text(low: float, high: float) -> str:
    """``0.25 to 0.5``: with one digit more than distinguishes the ends."""
    halves = high / 2 - low / 2  # the difference of two doubles may overflow
    if halves <= 0:
        return number(low)
    digits = math.floor(math.log10(max(abs(low), abs(high)))) - math.floor(math.log10(halves)) + 2
    ends = (0.0 if abs(end) < halves * 1e-6 else end for end in (low, high))
    return " to ".join(f"{end:.{min(digits, 15)}g}" for end in ends)


def _svg(kind: str, label: str, width: int, height: int, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="disco-{kind}" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" font-size="10"'
        f' font-family="var(--jp-ui-font-family,sans-serif)" fill="currentColor"'
        f' style="overflow:visible;color:var(--jp-ui-font-color1,inherit)">{content}</svg>'
    )


# --- histograms ------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _ALONE = 220, 100, 460  # pixels


def histogram_svg(
    histogram: Histogram,
    *,
    most: int | None = None,
    label: str = "",
    width: int = _WIDTH,
    height: int = _HEIGHT,
) -> str:
    """Bars as SVG, with numbers along both axes; pointing at one shows its range and count.

    Args:
        histogram: `k` bins; more than 50 are drawn in groups of equally many.
        most: the count that a bar of full height has; None for the largest.
        label: what is counted, for screen readers; any text.
        width: in pixels.
        height: in pixels.

    Returns:
        SVG of at most 6 kB. Where any element is there is a bar of a pixel at least.

    Cost: about 0.5 ms for 50 bars.
    """
    bars = Bars(histogram, width, height, most)
    content = f'{bars.axes()}<path fill="{LINES[0]}" d="{bars.outline()}"/>{bars.targets()}'
    return _svg("histogram", f"{label or 'histogram'}, {_said(histogram)}", width, height, content)


def histogram_html(histogram: Histogram, title: str) -> str:
    """A figure of one histogram, larger than beside others."""
    if not histogram.edges:
        return figure(title, "", [_said(histogram)])
    svg = histogram_svg(histogram, label=f"histogram of {title}", width=_ALONE, height=2 * _HEIGHT)
    return figure(title, f"<div>{svg}</div>", [_said(histogram)])


def histograms_html(
    histograms: Mapping[int, Histogram | str], *, title: str = "", circles: Sequence[Sequence[int]] = ()
) -> str:
    """A figure of one histogram per worker, side by side; equal bins are drawn with equal heights.

    Equal histograms are drawn once; those that differ from the most frequent one are marked. With `circles`,
    so it is in each of them.

    Cost: about 0.5 ms for each different histogram.
    """
    things = {
        worker: each if isinstance(each, str) or each.size else "no elements"
        for worker, each in histograms.items()
    }
    drawn = [each for each in things.values() if not isinstance(each, str)]
    alike = likeness({worker: _content(each) for worker, each in things.items()}, circles)
    if none := same_text(title, things, alike):
        return none
    same_bins = len({np.asarray(each.edges, np.float64).tobytes() for each in drawn}) == 1
    most = max(int(grouped(each)[1].max(initial=0)) for each in drawn) if same_bins else None
    of = f"histogram of {title}" if title else "histogram"

    def draw(who: str, histogram: Histogram) -> str:
        label = f"{of} on {who}"
        svg = histogram_svg(histogram, most=most, label=label)
        return f'<div style="width:{_WIDTH}px">{svg}{dim(_said(histogram))}</div>'

    if drawn and alike.is_one:
        body = f"<div>{histogram_svg(drawn[0], label=of)}</div>" if drawn[0].edges else ""
        return figure(title, body, [f"the same on workers {ranges(list(things))}", _said(drawn[0])])
    bins = "same bins and heights" if same_bins else "bins and heights differ from worker to worker"
    body = tiles_html(things, alike, draw, (_WIDTH, _HEIGHT))
    return figure(title, body, [bins if len(drawn) > 1 else ""])


def _content(histogram: Histogram | str) -> Hashable:
    if isinstance(histogram, str):
        return histogram
    edges = np.asarray(histogram.edges, np.float64).tobytes()
    counts = np.asarray(histogram.counts, np.int64).tobytes()
    # With the own ends: beside a worker whose numbers are far larger, those of others fill one bin.
    return edges, counts, histogram.ends, histogram.nans, histogram.infs, histogram.size


# --- lines -----------------------------------------------------------------------------------------

_RATIO: Final = 1000  # numbers further apart than this are drawn logarithmically
_LINES_WIDTH, _LINES_HEIGHT = 600, 220


def lines_svg(series: Mapping[int, Sequence[Point]], title: str = "") -> str:
    """Lines as SVG; workers with equal numbers share one.

    Args:
        series: worker -> (label of the cell, number) in the order of time. A missing number (None, or a cell
            that it has no point for) is a gap; NaN is a cross below, an infinity an arrow at the edge.
        title: above the lines; any text.

    Numbers are logarithmic where all are positive and the largest is more than 1,000 times the smallest.

    Cost: about 10 us per point.
    """
    lines = lines_of(series)
    finite = [y for _, line in lines for y in line.values() if y is not None and math.isfinite(y)]
    log = bool(finite) and min(finite) > 0 and max(finite) / min(finite) > _RATIO
    names = [name for name, _ in lines]
    plot = Plot(cells_of(lines), finite, names, _LINES_WIDTH, _LINES_HEIGHT, log=log)
    head = f'<text y="11" font-size="12" font-weight="bold">{escape(title)}</text> ' if title else ""
    drawn = "".join(plot.line(index, name, line) for index, (name, line) in enumerate(lines))
    label = f"{title or 'lines'}: {said(lines) or 'nothing yet'}"
    svg = _svg("lines", label, _LINES_WIDTH, _LINES_HEIGHT, f"{head}{plot.axes()}{drawn}{plot.names()}")
    return svg.replace('style="', 'style="max-width:100%;height:auto;', 1)  # in a narrow window, it shrinks


# --- sparks ----------------------------------------------------------------------------------------

_BLOCKS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def spark(counts: Sequence[float]) -> str:
    """One block character per count, as high as its share of the largest, for tables and terminals.

    The lowest block is only for zero, so that one element among a million is visible. NaN is a space.
    """
    largest = max([count for count in counts if count > 0], default=0)
    # Optimised, because a table has 1,600 of them and is drawn every second.
    return "".join(
        [
            _BLOCKS[1 + min(6, int(count / largest * 7))] if count > 0 else _BLOCKS[0] if count == 0 else " "
            for count in counts
        ]
    )


def spark_html(counts: Sequence[float], label: str) -> str:
    """A `spark` as an HTML element with `label` as its tooltip and text for screen readers."""
    words = escape(label)
    return f'<span class="disco-spark" role="img" aria-label="{words}" title="{words}">{spark(counts)}</span>'
