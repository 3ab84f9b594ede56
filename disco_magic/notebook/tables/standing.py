"""The state of a cell in words: where each worker is in it and for how long, or how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import FAILED, NUMBERS, TableLook, head_cells
from disco_magic.core.words import aligned, coarse_seconds
from disco_magic.errors import SessionClosed, WorkerError, WorkerInterrupt
from disco_magic.errors.summaries import grouped
from disco_magic.phrases import class_name, ranges, who_has, words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disco_magic.core.doctor import Position
    from disco_magic.notebook.handle import CellHandle

HEADER: Final = ("cell", "workers", "state", "time")
_STOPPING: Final = "being stopped with its session"
MOST: Final = 10
"""Most ended cells in a list; the last ones are shown."""

_LOOK: Final = TableLook("disco-cells", NUMBERS, FAILED)


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one cell.

    Attributes:
        label: ``Cell In[7]``.
        workers: the workers that run it.
        state: ``"queued"``: no worker has begun it; ``"running"``, ``"done"``, ``"failed"``,
            ``"cancelled"``, ``"interrupted"``.
        groups: workers in the same state, with that state in words.
        seconds: time since it was sent; of an ended cell, the time of the slowest worker, None if unknown.
        queued: workers that have not begun it.
    """

    label: str
    workers: tuple[int, ...]
    state: str
    groups: tuple[tuple[tuple[int, ...], str], ...]
    seconds: float | None
    queued: tuple[int, ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether all workers have ended the cell."""
        return self.state in ("done", "failed", "cancelled", "interrupted")

    @property
    def sentence(self) -> str:
        """``Cell In[7] on workers [0-3]: running for 3.20 s``."""
        told = self.state
        if self.seconds is not None:
            told += f" {'after' if self.has_ended else 'for'} {coarse_seconds(self.seconds)}"
        return f"{self.label} on workers {ranges(self.workers)}: {told}"

    def rows(self) -> list[tuple[str, ...]]:
        """A row per group; see `HEADER`."""
        times = "" if self.seconds is None else coarse_seconds(self.seconds)
        firsts = [(self.label, f"{'took' if self.has_ended else 'for'} {times}" if times else "")]
        firsts += [("", "")] * (len(self.groups) - 1)
        return [
            (label, ranges(workers), said, took)
            for (label, took), (workers, said) in zip(firsts, self.groups, strict=True)
        ]


@dataclass(frozen=True, slots=True, repr=False)
class Standings:
    """The states of several cells, the oldest first; shows itself as a table."""

    title: str
    cells: tuple[Standing, ...]

    def __repr__(self) -> str:
        table = aligned([row for cell in self.cells for row in cell.rows()], words=3)
        return "\n".join([self.title, *(f"  {line}" for line in table)] if self.title else table)

    def _repr_mimebundle_(self, *_: object, **__: object) -> dict[str, str]:
        html = _LOOK.html(escape(self.title), head_cells(HEADER), "".join(map(_cell_html, self.cells)))
        return {"text/plain": repr(self), "text/html": html}


def _cell_html(cell: Standing) -> str:
    span = f' rowspan="{len(cell.groups)}"'
    rows = []
    for number, (label, workers, said, took) in enumerate(cell.rows()):
        head = f'<th scope="row"{span}>{escape(label)}</th>' if not number else ""
        tail = f'<td class="number"{span}>{escape(took)}</td>' if not number else ""
        rows.append(f'<tr class="{cell.state}">{head}<td>{workers}</td><td>{escape(said)}</td>{tail}</tr>')
    return "".join(rows)


def standings_of(handles: Iterable[CellHandle]) -> Standings | None:
    """The running cells, and ended ones whose outcome was not asked for; None if there are none."""
    found = [(standing_of(handle), handle.asked) for handle in sorted(handles, key=lambda each: each.sent_s)]
    running = [cell for cell, _ in found if not cell.has_ended]
    ended = [cell for cell, asked in found if cell.has_ended and not asked]
    if not running and not ended:
        return None
    told = ["cells on their way"] if running else []
    if ended:
        told.append("ended, and nobody has asked how (.wait(), .result())")
    if len(ended) > MOST:
        told.append(f"{len(ended) - MOST} more of those")
    return Standings("; ".join(told), (*ended[-MOST:], *running))


def standing_of(handle: CellHandle) -> Standing:
    """The current state of one cell. Waits for no worker."""
    if handle.done():
        return _ended(handle)
    pending = handle.pending
    for_s = time.perf_counter() - handle.sent_s
    try:
        positions = () if pending.is_outlived else pending.session.doctor().positions
    except SessionClosed:  # the session ended just now
        positions = ()
    if not positions:
        return Standing(pending.label, pending.workers, "running", ((pending.workers, _STOPPING),), for_s)
    places = [positions[worker] for worker in pending.workers]
    groups = _alike((place.worker, _where(handle, place)) for place in places)
    queued = tuple(place.worker for place in places if _is_behind(handle, place))
    state = "queued" if queued == pending.workers else "running"
    return Standing(pending.label, pending.workers, state, groups, for_s, queued)


def _is_behind(handle: CellHandle, position: Position) -> bool:
    """Whether a worker has not begun the cell."""
    if position.worker in handle.finished:
        return False
    # Not by its label: all cells that one cell of the notebook sends have the same one.
    return position.state in ("idle", "queued") or position.seq != handle.pending.seq


def _where(handle: CellHandle, position: Position) -> str:
    if position.worker in handle.finished:
        return "done"
    if _is_behind(handle, position):
        return f"queued behind {position.command}" if position.command else "about to begin"
    if position.state == "executing":
        return f"at {position.site}" if position.site else "running"
    return ", ".join(filter(None, (position.doing, position.site)))


def _ended(handle: CellHandle) -> Standing:
    pending, error = handle.pending, handle.error
    outcome = pending.outcome
    result = getattr(outcome, "result", None) if isinstance(outcome, BaseException) else outcome
    took = max(result.elapsed.values(), default=None) if result is not None else None
    groups: tuple[tuple[tuple[int, ...], str], ...] = ((pending.workers, "done"),)
    stopped = error.stopped if isinstance(error, WorkerError) else ""
    if isinstance(error, WorkerError):
        texts = grouped(error.failures).items()
        told = {worker: _failed(text) for text, ids in texts for worker in ids}
        if stopped == "cancelled":
            told = dict.fromkeys(told, stopped)
        groups = _alike((worker, told.get(worker, "done")) for worker in pending.workers)
    elif error is not None:
        line = words(error).partition("\n")[0]
        if isinstance(error, KeyboardInterrupt):  # its message, with all positions, is shown when raised
            line = line.partition(". ")[0]
        groups = ((pending.workers, f"{class_name(error)}: {line}"),)
    state = "done" if error is None else stopped or "failed"
    return Standing(pending.label, pending.workers, state, groups, took)


def _failed(text: str) -> str:
    """The failure in words; an intended stop is not called a failure."""
    kind, _, why = text.partition(": ")
    if kind != WorkerInterrupt.__name__:
        return f"failed: {text}"
    return why if why.startswith("stopped") else f"stopped: {why}"


def _alike(states: Iterable[tuple[int, str]]) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Group workers by state, in the order of their first one."""
    return tuple((tuple(ids), said) for said, ids in who_has(states).items())
