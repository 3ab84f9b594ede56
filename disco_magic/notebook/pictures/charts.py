"""Numbers as charts: histograms, lines over cells, sparks."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from disco_magic.notebook.pictures.bars import Bars, amount, grouped, in_words, missing
from disco_magic.notebook.pictures.colours import LINES
from disco_magic.notebook.pictures.plots import Plot, cells_of, lines_of, said
from disco_magic.notebook.pictures.tiles import dim, figure, likeness, tiles_html
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from disco_magic.notebook.pictures.plots import Point
    from disco_magic.values.pictures import Histogram


def _svg(kind: str, label: str, width: int, height: int, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="disco-{kind}" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" font-size="10"'
        f' font-family="var(--jp-ui-font-family,sans-serif)" fill="currentColor"'
        f' style="overflow:visible;color:var(--jp-ui-font-color1,inherit)">{content}</svg>'
    )


# --- histograms ------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 220, 100  # pixels


def histogram_svg(histogram: Histogram, *, most: int | None = None, label: str = "") -> str:
    """Bars as SVG, with numbers along both axes; pointing at one shows its range and count.

    Args:
        histogram: `k` bins; more than 50 are drawn in groups of equally many.
        most: the count that a bar of full height has; None for the largest.
        label: what is counted, for screen readers; any text.

    Returns:
        SVG of at most 6 kB. Where any element is there is a bar of a pixel at least.

    Cost: about 0.5 ms for 50 bars.
    """
    bars = Bars(histogram, _WIDTH, _HEIGHT, most)
    corner = f'<text x="{_WIDTH}" y="10" text-anchor="end">{missing(histogram)}</text> '
    content = f'{bars.axes()}{corner}<path fill="{LINES[0]}" d="{bars.outline()}"/>{bars.targets()}'
    return _svg("histogram", f"{label or 'histogram'}, {in_words(histogram)}", _WIDTH, _HEIGHT, content)


def histograms_html(
    histograms: Mapping[int, Histogram | str], *, title: str = "", circles: Sequence[Sequence[int]] = ()
) -> str:
    """A figure of one histogram per worker, side by side; equal bins are drawn with equal heights.

    The most frequent histogram is drawn once; workers with an equal one refer to it, those that differ
    from it are marked. With `circles`, so it is in each of them.

    Cost: about 0.5 ms for each different histogram.
    """
    drawn = [each for each in histograms.values() if not isinstance(each, str)]
    alike = likeness({worker: _content(each) for worker, each in histograms.items()}, circles)
    same_bins = len({np.asarray(each.edges, np.float64).tobytes() for each in drawn}) == 1
    most = max(int(grouped(each)[1].max(initial=0)) for each in drawn) if same_bins else None
    of = f"histogram of {title}" if title else "histogram"

    def draw(worker: int, histogram: Histogram) -> str:
        label = f"{of} on worker {worker}"
        svg = histogram_svg(histogram, most=most, label=label)
        return f'<div style="width:{_WIDTH}px">{svg}{dim(amount(histogram))}</div>'

    if drawn and alike.is_one:
        body = f"<div>{histogram_svg(drawn[0], label=of)}</div>"
        return figure(title, body, [f"the same on workers {ranges(list(histograms))}", amount(drawn[0])])
    bins = "same bins and heights" if same_bins else "bins and heights differ from worker to worker"
    body = tiles_html(histograms, alike, draw, (_WIDTH, _HEIGHT))
    return figure(title, body, [bins if len(drawn) > 1 else ""])


def _content(histogram: Histogram | str) -> Hashable:
    if isinstance(histogram, str):
        return histogram
    edges = np.asarray(histogram.edges, np.float64).tobytes()
    counts = np.asarray(histogram.counts, np.int64).tobytes()
    return edges, counts, histogram.nans, histogram.infs, histogram.size


# --- lines -----------------------------------------------------------------------------------------

_RATIO: Final = 1000  # numbers further apart than this are drawn logarithmically
_LINES_WIDTH, _LINES_HEIGHT = 480, 180


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
    return _svg("lines", label, _LINES_WIDTH, _LINES_HEIGHT, f"{head}{plot.axes()}{drawn}{plot.names()}")


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
