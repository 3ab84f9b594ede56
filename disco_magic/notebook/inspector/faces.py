"""The faces of an inspector: functions that show one register as HTML, and only read its values."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import MARK, TableLook, head_cells
from disco_magic.core.register_values import columns_of, lines_of
from disco_magic.core.words import human_bytes
from disco_magic.errors import UnknownName
from disco_magic.notebook.inspector.reasons import or_reason, present, sentence
from disco_magic.notebook.inspector.table import parts_html
from disco_magic.notebook.inspector.view import FEW_NBYTES
from disco_magic.notebook.pictures.blocks import block_html
from disco_magic.notebook.pictures.charts import histogram_html, histograms_html, spark_html
from disco_magic.notebook.pictures.differences import difference_html
from disco_magic.notebook.pictures.heatmap import heatmap_html, multiples_html, width_beside
from disco_magic.notebook.pictures.scales import common_limits
from disco_magic.phrases import ranges
from disco_magic.values.describe import describe
from disco_magic.values.fingerprint import PLAIN
from disco_magic.values.parts import list_parts
from disco_magic.values.peek import (
    BINS,
    Histogram,
    Window,
    block_of,
    difference_of,
    histogram_of,
    picture_of,
    shared_ends,
    statistics_of,
)
from disco_magic.values.samples import SAMPLE
from disco_magic.values.totals import describe_wholly

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.register_parts import RegisterParts
    from disco_magic.core.register_values import Held
    from disco_magic.core.snapshot import RegisterInfo, Row
    from disco_magic.notebook.inspector.longlook import Share
    from disco_magic.notebook.inspector.watch import Watch
    from disco_magic.session.session import Session
    from disco_magic.values.peek import Picture

_LOOK: Final = TableLook("disco-summary", "{} td.n{text-align:right!important}")
_SPREAD: Final = "how the values are distributed"
_PLAIN: Final = frozenset(kind.__name__ for kind in PLAIN)
# Sampled elements of each part of a large register that has many parts.
_SAMPLE: Final = 2048
# So many are read in all, at most, to see more of each.
_BUDGET: Final = 1 << 23
_SMALL: Final = 160
_LARGE: Final = 320
_ALONE: Final = 460
_ROOM: Final = 1000
"""Pixels: least and most of a picture, of a single picture, and of all that are side by side with their
indices and gaps: so much JupyterLab has in a window of 1200 pixels."""

_HEADS: Final = ("worker", "type", "device", "bytes")
_MEASURED: Final = ("min", "mean", "max", "NaN", "Inf", "from min to max")
"""Of these a text or an object has none: it has no columns for them either."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The settings of the lower half's controls.

    Attributes:
        worker: the only worker to show, or None for all side by side.
        one, other: the two workers that are compared; `one` is also the one whose elements are listed.
        symmetric: whether the scale reaches as far below 0 as above; None: if the values roughly do.
        measure: the statistic that is drawn over cells, one of `watch.MEASURES`.
        window: the visible part of the array.
    """

    worker: int | None
    one: int
    other: int
    symmetric: bool | None
    measure: str
    window: Window


def summary(session: Session, row: Row, _: Choice, __: Watch) -> str:
    """A line per worker: type, device, statistics on 65,536 elements; and a line per part, if any.

    Of more than eight workers, those that hold the same have one line.
    """
    parts = parts_of(session, row)
    if parts is not None:
        return _parts_table(session, parts)
    infos: Sequence[RegisterInfo | None] = row.cells
    if any(info is not None and info.sampled for info in infos):
        infos = session.examine(row.name, describe)  # only then, because each look at busy workers is slow
    measured = any(map(_is_measured, infos))
    told = any(info.text for info in row.present)  # a large array has no text
    heads = [*_HEADS, *(_MEASURED if measured else ()), *(["value"] if told else [])]
    body = "".join(
        _line(each, measured=measured, told=told) for each in lines_of(replace(row, cells=tuple(infos)))
    )
    sampled = any(info is not None and info.sampled for info in infos)
    note = "statistics of a sample of 65,536 elements" if sampled else "statistics of all elements"
    return _table(f"{row.name}: {note}" if measured else row.name, heads, body)


def _is_measured(info: RegisterInfo | None) -> bool:
    """Whether it has elements, or NaN somewhere in it; an object without arrays has none, counted as 0."""
    return info is not None and info.nans is not None and bool(info.dtype or info.nans or info.infs)


def parts_of(session: Session, row: Row) -> RegisterParts | None:
    """The parts of a register, of which all elements are read if they are few; None if it has no parts."""
    if all(info.dtype is not None or info.type in _PLAIN for info in row.present):
        return None
    sample = None
    with suppress(UnknownName):  # a cell may have dropped it since
        if sum(info.nbytes for info in row.present) > FEW_NBYTES:
            count = sum(len(each.parts) for each in session.examine(row.name, list_parts) if each is not None)
            sample = SAMPLE if count * SAMPLE <= _BUDGET else _SAMPLE
        parts = session.look_into(row.name, sample=sample)
        return parts if parts.rows else None
    return None


def _parts_table(session: Session, parts: RegisterParts) -> str:
    return parts_html(parts, columns_of(parts.num_workers), session.mesh.places() if session.mesh else ())


def _line(line: Held, *, measured: bool, told: bool) -> str:
    info = line.info
    label = f"{ranges(line.workers)}{f' <span class=mark>{MARK}</span>' if line.is_odd else ''}"
    if info is None:
        width = len(_HEADS) - 1 + len(_MEASURED) * measured + told
        return f'<tr><th scope="row">{label}</th><td colspan="{width}" class="dim">no value</td></tr>'
    numbers = [
        _number(info.minimum),
        _number(info.mean),
        _number(info.maximum),
        _count(info.nans),
        _count(info.infs),
    ]
    cells = [escape(info.kind), escape(info.device or ""), human_bytes(info.nbytes) if info.nbytes else ""]
    plain = "".join(f"<td>{cell}</td>" for cell in cells)
    right = "".join(f'<td class="n">{number}</td>' for number in numbers)
    statistics = f"{right}<td>{spark_html(info.histogram, _SPREAD)}</td>" if measured else ""
    value = f"<td>{escape(info.text)}</td>" if told else ""
    return f'<tr><th scope="row">{label}</th>{plain}{statistics}{value}</tr>'


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def heat_map(session: Session, row: Row, choice: Choice, _: Watch) -> str:
    """A two-dimensional part as pictures: of all workers side by side, or of one worker, larger."""
    workers = None if choice.worker is None else (choice.worker,)
    pictures = session.examine(row.name, or_reason(picture_of), choice.window, workers=workers)
    if choice.worker is None:
        shown = {worker: present(picture) for worker, picture in enumerate(pictures)}
        drawn = [picture for picture in shown.values() if not isinstance(picture, str)]
        width = max(_SMALL, min(_LARGE, width_beside(drawn, len(pictures), _ROOM)))
        symmetric = _symmetric(choice, drawn)
        return multiples_html(shown, symmetric=symmetric, title=row.name, width=width, circles=row.circles)
    picture = present(pictures[0])
    if isinstance(picture, str):
        return sentence(f"{row.name} on {ranges((choice.worker,))}: {picture}")
    title = f"{row.name} on {ranges((choice.worker,))}"
    return heatmap_html(picture, symmetric=_symmetric(choice, [picture]), title=title, width=_ALONE)


def _symmetric(choice: Choice, pictures: Sequence[Picture]) -> bool:
    if choice.symmetric is not None:
        return choice.symmetric
    limits = common_limits(pictures)
    if limits is None:
        return False
    low, high = limits
    return min(-low, high) > max(-low, high) / 4


def histogram(session: Session, row: Row, choice: Choice, _: Watch) -> str:
    """Histograms of all workers, with the same bins, or that of one worker, larger."""
    examine = partial(session.examine, row.name, or_reason(histogram_of))
    if choice.worker is not None:
        (alone,) = map(present, examine(workers=(choice.worker,)))
        title = f"{row.name} on {ranges((choice.worker,))}"
        return sentence(f"{title}: {alone}") if isinstance(alone, str) else histogram_html(alone, title)
    found = examine()
    ends = shared_ends([each for each in found if isinstance(each, Histogram)])
    if ends:
        found = examine(BINS, SAMPLE, ends)
    shown = {worker: present(each) for worker, each in enumerate(found)}
    return histograms_html(shown, title=row.name, circles=row.circles)


def values(session: Session, row: Row, choice: Choice, _: Watch) -> str:
    """The elements of a block, from the corner that the sliders select."""
    (block,) = session.examine(row.name, or_reason(block_of), choice.window, workers=(choice.one,))
    where = f"{row.name} on {ranges((choice.one,))}"
    if block is None or isinstance(block, str):
        return sentence(f"{where}: {present(block)}")
    return block_html(block, title=where)


def difference(session: Session, row: Row, choice: Choice, _: Watch, share: Share | None = None) -> str:
    """A map of the differences between two workers; reads all elements, and reports progress."""
    labels = f"{row.name} {ranges((choice.one,))}", f"{row.name} {ranges((choice.other,))}"
    if choice.one == choice.other:
        return sentence("choose two different workers")
    pair = (choice.one, choice.other)
    compare = partial(difference_of, progress=None if share is None else _shares(share, 0, 1))
    found = session.examine_pair(row.name, or_reason(compare), choice.window, workers=pair)
    if found is None or isinstance(found, str):
        return sentence(found or "no value on one of them")
    return difference_html(found, *labels)


def _shares(share: Share, before: int, parts: int) -> Callable[[int, int], bool]:
    """A progress function for one of several parts that reports the share of all of them."""
    return lambda done, total: share((before + done / max(total, 1)) / parts)


def exact(session: Session, row: Row, share: Share) -> str:
    """A line per worker with statistics of all elements."""
    parts = parts_of(session, row)
    if parts is not None:
        return _exact_parts(session, parts, share)
    heads = ("worker", "min", "mean", "std", "max", "NaN", "Inf", "zeros", "elements")
    count = len(row.cells)
    lines = []
    for worker in range(count):
        progress = _shares(share, worker, count)
        (found,) = session.examine(row.name, or_reason(statistics_of), progress, workers=(worker,))
        label = f'<th scope="row">{ranges((worker,))}</th>'
        if found is None or isinstance(found, str):
            lines.append(f'<tr>{label}<td colspan="8">{escape(present(found))}</td></tr>')
            continue
        numbers = [_number(each) for each in (found.minimum, found.mean, found.std, found.maximum)]
        counts = [_count(each) for each in (found.nans, found.infs, found.zeros, found.size)]
        cells = "".join(f'<td class="n">{text}</td>' for text in (*numbers, *counts))
        lines.append(f"<tr>{label}{cells}</tr>")
    return _table(f"{row.name}: statistics of all elements, when they were read", heads, "".join(lines))


def _exact_parts(session: Session, parts: RegisterParts, share: Share) -> str:
    """The table of all parts, of whose arrays all elements are read."""
    count, rows = parts.num_workers, []
    for number, part in enumerate(parts.rows):
        cells: list[RegisterInfo | None] = []
        for worker in range(count):
            progress = _shares(share, number * count + worker, len(parts.rows) * count)
            cells += session.examine(part.name, describe_wholly, progress, workers=(worker,))
        rows.append(replace(part, cells=tuple(cells)))
    whole = replace(parts, row=_whole(parts.row, rows), rows=tuple(rows), gaps={})
    return _parts_table(session, whole)


def _whole(row: Row, parts: Sequence[Row]) -> Row:
    """The row of a container, as far as its parts say more than the sample of it that was seen."""

    def of_all(worker: int, info: RegisterInfo) -> RegisterInfo:
        cells = [cell for part in parts if (cell := part.cells[worker]) is not None]
        nans, infs = sum(cell.nans or 0 for cell in cells), sum(cell.infs or 0 for cell in cells)
        seen = b"".join(cell.fingerprint for cell in cells)
        return replace(info, fingerprint=info.fingerprint + seen, nans=nans, infs=infs, sampled=False)

    cells = tuple(info and of_all(worker, info) for worker, info in enumerate(row.cells))
    return replace(row, cells=cells)


def _table(caption: str, heads: Sequence[str], body: str) -> str:
    return _LOOK.html(escape(caption), head_cells(heads), body)
