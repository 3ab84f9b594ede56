"""What a cell that takes long shows of its workers: who is where, who waits for whom, who is done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from disco_magic.core.doctor import Diagnosis
from disco_magic.core.words import human_seconds
from disco_magic.notebook.output.livearea import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.doctor import Position
    from disco_magic.notebook.output.livearea import LiveArea
    from disco_magic.notebook.output.page import Page
    from disco_magic.session.pending import PendingCell

PERIOD_S: Final = 0.5
"""How often the workers are looked at."""


class Progress:
    """Looks at the workers of one cell, for the thread that waits for it.

    Args:
        page: the cell's.
        area: the page's.
        workers: those that run the cell.
        diagnose: `Session.doctor`.
        after_s: how long the workers must have shown nothing before a line per group of them appears. From
            then on it stays: lines that come and go would move what stands below them.
        ending: when the cell will end, if somebody has asked it to: shown at once, below the others.
        seq: of the cell; None: not known. Who is at an earlier command keeps it waiting, which is said below.
        spares: the cells before it that the stop button leaves alone, see `PendingCell.spares`.

    Attributes:
        failure: why it does not look any more; the cell goes on without.
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
        self.failure: Exception | None = None
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
        """Nothing has come for a while: show where the workers are, if it is time."""
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
        except Exception as failure:  # noqa: BLE001 - e.g. SessionClosed in another thread; not the cell's failure
            self.failure = failure
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
        """What it comes after on workers that have not begun it, and what the stop button means for that."""
        before = [] if self._seq is None else diagnosis.before(self._seq, self._workers)
        if not before:
            return None
        earlier = list(dict.fromkeys(each.command for each in before))
        ends = "this cell only" if self._spares(diagnosis) else "both" if len(earlier) == 1 else "all of them"
        text = f"comes after {', '.join(earlier)} \u00b7 the stop button ends {ends}"
        return Row(tuple(each.worker for each in before), text, status=True)

    def finished(self, diagnosis: Diagnosis) -> frozenset[int]:  # noqa: ARG002 - of others than cells it says so
        """Who has done what is waited for."""
        return self._page.finished


def look_at(
    pending: PendingCell, page: Page, workers: Sequence[int], after_s: float | None
) -> Callable[[], None] | None:
    """What to call while nothing comes of a cell; None if its page has no place for it.

    `after_s` as in `Progress`, None: nothing is shown but when it will end.
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
    """A row per group of `workers` that do the same; those in `finished` have ended the cell."""
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
    """How long the one that does it longest has been doing it; in tenths only as long as they matter."""
    longest = max(group, key=lambda each: each.seconds or 0.0)
    seconds = longest.seconds
    if seconds is None:
        return ""
    digits = 1 if seconds < 9.95 else 0
    text = f"{seconds:.{digits}f} s" if seconds < 59.5 else human_seconds(seconds)
    return f"{'<= ' if longest.at_most else ''}{text}"
