"""Status lines of a long-running cell: where each worker is, for whom it waits, which are done."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from disco_magic.core.doctor import Diagnosis, longest_of
from disco_magic.core.words import human_seconds
from disco_magic.notebook.output.livearea import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.doctor import Position
    from disco_magic.notebook.output.livearea import LiveArea
    from disco_magic.notebook.output.page import Page
    from disco_magic.session.pending import PendingCell

_LOG: Final = logging.getLogger("disco_magic")
PERIOD_S: Final = 0.5
"""Interval of looks at the workers."""


class Progress:
    """Looks at the workers of one cell, for the thread that waits for it.

    Args:
        page: the cell's page.
        area: the page's live area.
        workers: the workers that run the cell.
        diagnose: `Session.doctor`.
        after_s: seconds without output before a line per group of workers appears. From then on the lines
            stay: lines that come and go would move the output below them.
        ending: when the cell will end, if it was asked to; shown at once, below the other lines.
        seq: the cell's sequence number, or None. A line tells which earlier commands delay the cell.
        spares: the cells before it that the stop button leaves alone, see `PendingCell.spares`.
    """

    def __init__(
        self,
        page: Page,
        area: LiveArea,
        workers: Sequence[int],
        diagnose: Callable[[], Diagnosis],
        *,
        after_s: float,
        ending: Callable[[], str] = str,
        seq: int | None = None,
        spares: Callable[[Diagnosis], Sequence[str]] = lambda _: (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._page = page
        self._area = area
        self._workers = frozenset(workers)
        self._diagnose = diagnose
        self._after_s = after_s
        self._ending = ending
        self._seq = seq
        self._spares = spares
        self._clock = clock
        self._due = float("-inf")

    def look(self) -> None:
        """Show where the workers are, if it is time; called while nothing else happens."""
        self._page.look(self._rows() if self._is_due() else None)

    def _is_due(self) -> bool:
        now = self._clock()
        if self._after_s < float("inf") and self._ending():
            self._after_s = 0.0
        if now < self._due or now - self._area.quiet_since < self._after_s:
            return False
        self._due = now + PERIOD_S
        self._after_s = 0.0 if self._after_s < float("inf") else self._after_s
        return True

    def _rows(self) -> list[Row]:
        try:
            diagnosis = self._diagnose()
        except Exception:  # noqa: BLE001 - e.g. SessionClosed in another thread; not the cell's failure
            _LOG.debug("progress of a cell cannot be told any more", exc_info=True)
            self._due = float("inf")
            return []
        finished = self.finished(diagnosis)
        rows = status_rows(diagnosis, self._workers, finished)
        ending = self._ending()
        if ending:
            rows.append(Row(tuple(sorted(self._workers - finished)), ending, status=True))
        elif (behind := self._behind(diagnosis)) is not None:
            rows.append(behind)
        return rows

    def _behind(self, diagnosis: Diagnosis) -> Row | None:
        """The line about earlier commands that delay the cell, and what the stop button does to them."""
        before = [] if self._seq is None else diagnosis.before(self._seq, self._workers)
        if not before:
            return None
        earlier = list(dict.fromkeys(each.command for each in before))
        ends = "this cell only" if self._spares(diagnosis) else "both" if len(earlier) == 1 else "all of them"
        text = f"comes after {', '.join(earlier)} \u00b7 {self._area.stopped_by} ends {ends}"
        return Row(tuple(each.worker for each in before), text, status=True)

    def finished(self, diagnosis: Diagnosis) -> frozenset[int]:  # noqa: ARG002 - of others than cells it says so
        """The workers that are done."""
        return self._page.finished


def look_at(
    pending: PendingCell, page: Page, workers: Sequence[int], after_s: float | None
) -> Callable[[], None] | None:
    """The function to call while a cell is waited for; None if its page has no live area.

    `after_s` as in `Progress`; None shows only when the cell will end.
    """
    if page.area is None:
        return None
    return Progress(
        page,
        page.area,
        workers,
        pending.session.doctor,
        after_s=float("inf") if after_s is None else after_s,
        ending=pending.ending,
        seq=pending.seq,
        spares=pending.spares,
    ).look


def status_rows(diagnosis: Diagnosis, workers: frozenset[int], finished: frozenset[int]) -> list[Row]:
    """One row per group of `workers` that do the same, and one for those that have `finished`."""
    busy = Diagnosis(
        diagnosis.session_id,
        tuple(each for each in diagnosis.positions if each.worker in workers - finished),
    )
    rows = [Row(tuple(each.worker for each in group), _text(group), status=True) for group in busy.groups()]
    if finished:
        rows.append(Row(tuple(sorted(finished)), "done", status=True))
    return sorted(rows)


def _text(group: Sequence[Position]) -> str:
    first = group[0]
    if first.state in ("idle", "queued"):
        return "about to begin"
    where = first.site if first.state == "executing" and first.site else first.doing
    parts = [where, first.site if first.site != where else "", _duration(group)]
    return " \u00b7 ".join(filter(None, parts))


def _duration(group: Sequence[Position]) -> str:
    """The longest duration in the group; in tenths only while they matter."""
    longest = longest_of(group)
    seconds = longest.seconds
    if seconds is None:
        return ""
    digits = 1 if seconds < 9.95 else 0
    text = f"{seconds:.{digits}f} s" if seconds < 59.5 else human_seconds(max(seconds, 60.0))
    return f"{'<= ' if longest.at_most else ''}{text}"
