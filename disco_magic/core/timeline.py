"""Who did what when: what workers recorded, as plain data for pictures, traces and tests.

::

    Recorder, one per worker --> Record --> Timeline --> summary()    seconds per worker, who came last
                                                     --> named()      seconds per name of `worker.span`
                                                     --> to_chrome()  trace events, for Perfetto
                                                     --> str()        a picture for terminals
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from disco_magic.core.lanes import picture
from disco_magic.core.named_blocks import Named, named
from disco_magic.core.numbers import is_positive
from disco_magic.core.spending import Summary, summarize
from disco_magic.core.trace import trace_of, write_trace
from disco_magic.errors import UsageMistake
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import Any

Kind = Literal["cell", "call", "calls", "copy", "span", "collective", "waiting", "error"]
COMMANDS: Final = frozenset({"cell", "call", "calls", "copy"})
"""Kinds of spans that are commands; all others lie within one of these."""

FAILED: Final = "failed: "
"""How the detail of a failed collective begins."""
_DEPTHS: Final = {"span": 1, "collective": 2}

# Members, number of the command, and number of the collective in that command with those members.
Meeting = tuple[tuple[int, ...], int, int]


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took a worker some time.

    Attributes:
        worker: its id.
        kind: ``"cell"``, ``"call"`` (one command), ``"calls"`` (several small ones without a pause),
            ``"copy"`` (to or from the controller), ``"span"`` (what `WorkerContext.span` names),
            ``"collective"`` (all of it; also send and recv), ``"waiting"`` (the part of a collective asleep
            for others), ``"error"`` (a moment).
        label: what, e.g. ``Cell In[7]``, ``call demo.scale``, ``allreduce(float32 (3,), op=sum)``.
        start_s, end_s: seconds; in a `Timeline`, since its session's workers were started.
        site: the line of the user's code, if there is one.
        detail: more in words.
        unfinished: it was going on when the timeline was taken, at `end_s`.
        meeting: what a collective's spans on all members have in common; None if it is none, or of one.
        seq: number of the command, or of the one that failed; for several calls the last one's; else None.
        waited_s: for a command that has ended: seconds asleep in its collectives, for others; None if that
            was not kept. Complete even if the collectives' own spans were dropped.
        callers: for a collective of a cell with ``--check``: the lines that led to `site`, the nearest first.
        task: of the same: the name of the asyncio task that made the call, or "".
        source: for the waiting in a `recv` or `send`: the worker that was waited for.
    """

    worker: int
    kind: Kind
    label: str
    start_s: float
    end_s: float
    site: str = ""
    detail: str = ""
    unfinished: bool = False
    meeting: Meeting | None = None
    seq: int | None = None
    waited_s: float | None = None
    source: int | None = None
    callers: tuple[str, ...] = ()
    task: str = ""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end_s - self.start_s

    @property
    def failure(self) -> str:
        """Name of the exception that a collective raised; empty if none, or if it is no collective."""
        told = self.kind == "collective" and self.detail.startswith(FAILED)
        return self.detail.removeprefix(FAILED) if told else ""

    def since(self, origin_s: float) -> Span:
        """The same span with times relative to `origin_s`; `replace` takes three times as long."""
        return Span(
            self.worker,
            self.kind,
            self.label,
            self.start_s - origin_s,
            self.end_s - origin_s,
            self.site,
            self.detail,
            self.unfinished,
            self.meeting,
            self.seq,
            self.waited_s,
            self.source,
            self.callers,
            self.task,
        )

    def __str__(self) -> str:
        said = [self.label, self.site, self.detail, "unfinished" if self.unfinished else ""]
        return ", ".join(filter(None, said))


@dataclass(frozen=True, slots=True)
class Record:
    """What a launcher knows of one worker; times in seconds of the performance counter.

    Attributes:
        spans: what is kept.
        began_s: when the worker began.
        until_s: when the record was taken, or the worker ended.
        whole_from_s: everything since then is kept.
        dropped: how many spans were dropped.
    """

    spans: tuple[Span, ...] = ()
    began_s: float = 0.0
    until_s: float = 0.0
    whole_from_s: float = 0.0
    dropped: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Timeline:
    """What the workers of a session did and when; ``session.timeline()`` makes it.

    Its repr has a lane per worker; `summary` has the numbers, `save` writes a trace for Perfetto.

    Attributes:
        session_id: number of the session.
        num_workers: how many workers it has.
        spans: of all workers, also of those that are not shown, in the order in which they began.
        start_s, end_s: the window that is shown, seconds since the workers were started.
        whole_from_s: per worker, since when everything is kept; before, the oldest spans were dropped.
        dropped: per worker, how many spans were dropped.
        workers: ids of those that are shown.
    """

    session_id: int
    num_workers: int
    spans: tuple[Span, ...]
    start_s: float
    end_s: float
    whole_from_s: tuple[float, ...]
    dropped: tuple[int, ...]
    workers: tuple[int, ...]
    # `spans` by worker, once a lane was asked for.
    _lanes: dict[int, list[Span]] = field(default_factory=dict, init=False, compare=False)

    @classmethod
    def of_records(cls, session_id: int, records: Sequence[Record]) -> Timeline:
        """Combine the records of all workers; time begins when the first worker did."""
        origin = min(record.began_s for record in records)
        spans = [span.since(origin) for record in records for span in record.spans]
        return cls(
            session_id,
            len(records),
            tuple(sorted(spans, key=_order)),
            0.0,
            max(record.until_s for record in records) - origin,
            tuple(record.whole_from_s - origin for record in records),
            tuple(record.dropped for record in records),
            tuple(range(len(records))),
        )

    def between(self, start_s: float, end_s: float) -> Timeline:
        """The part of this timeline from `start_s` to `end_s`, seconds since the workers were started.

        Raises:
            UsageMistake: it ends before it begins, or nothing of it was recorded.
        """
        if not start_s < end_s:
            expected = "expected two times in seconds, the earlier one first"
            raise UsageMistake(f"timeline: from {start_s} s to {end_s} s is empty; {expected}")
        if end_s <= self.start_s or start_s >= self.end_s:
            raise UsageMistake(
                f"timeline: nothing was recorded from {start_s:g} s to {end_s:g} s; this one is from "
                f"{self.start_s:g} s to {self.end_s:g} s"
            )
        return self._cut(max(start_s, self.start_s), min(end_s, self.end_s))

    def last(self, seconds: float) -> Timeline:
        """The last `seconds` of this timeline.

        Raises:
            UsageMistake: `seconds` is not above 0.
        """
        if not is_positive(seconds):
            raise UsageMistake(f"timeline: the last {seconds} seconds are empty; expected a number above 0")
        return self._cut(max(self.start_s, self.end_s - seconds), self.end_s)

    def of_cell(self) -> Timeline:
        """The time of the last cell, on the workers that executed it or are executing it.

        Raises:
            UsageMistake: no cell is kept.
        """
        cells = [span for span in self.spans if span.kind == "cell"]
        if not cells:
            raise UsageMistake("timeline: no cell has been executed, or its record was dropped")
        latest = max((span.seq for span in cells if span.seq is not None), default=None)
        last = [span for span in cells if span.seq == latest]
        seqs = {span.seq for span in last if span.seq is not None}
        errors = [span for span in self.spans if span.kind == "error" and span.seq in seqs]
        start = min(span.start_s for span in last)
        end = max(span.end_s for span in [*last, *errors])  # a failure is noted after the cell has ended
        return self._cut(start, max(end, start + 1e-6))

    def _cut(self, start_s: float, end_s: float) -> Timeline:
        """Return a part, with spans outside it only if they belong to collectives that reach into it.

        The rest is dropped: a notebook's output history keeps every timeline that was shown.
        """
        inside = [span.start_s <= end_s and span.end_s >= start_s for span in self.spans]
        met = {span.meeting for span, is_in in zip(self.spans, inside, strict=True) if is_in} - {None}
        kept = zip(self.spans, inside, strict=True)
        spans = tuple(span for span, is_in in kept if is_in or span.meeting in met)
        return replace(self, spans=spans, start_s=start_s, end_s=end_s)

    def of(self, workers: Iterable[int]) -> Timeline:
        """The lanes of these workers only; it is still known who kept them waiting.

        Raises:
            UsageMistake: one of them does not exist, or there is none.
        """
        chosen = tuple(sorted(set(workers)))
        if not chosen or not set(chosen) <= set(range(self.num_workers)):
            raise UsageMistake(
                f"timeline: workers {list(chosen)} were asked for; expected some of "
                f"{ranges(range(self.num_workers))}"
            )
        return replace(self, workers=chosen)

    def lane(self, worker: int) -> list[Span]:
        """What one worker did in the window, in order; spans that are partly inside are complete."""
        if not self._lanes:
            lanes: dict[int, list[Span]] = {}
            for span in self.spans:
                lanes.setdefault(span.worker, []).append(span)
            self._lanes.update(lanes)  # in one step: another thread may ask, too
        mine = self._lanes.get(worker, ())
        return [span for span in mine if span.start_s <= self.end_s and span.end_s >= self.start_s]

    def known_from_s(self, worker: int) -> float:
        """Since when a worker is known in the window; the window's start, unless something was dropped."""
        return min(max(self.start_s, self.whole_from_s[worker]), self.end_s)

    @property
    def remark(self) -> str:
        """What is missing in the window, in words; empty if nothing is."""
        lost = [worker for worker in self.workers if self.known_from_s(worker) > self.start_s]
        lost = [worker for worker in lost if self.dropped[worker]]
        if not lost:
            return ""
        count = sum(self.dropped[worker] for worker in lost)
        since = max(self.known_from_s(worker) for worker in lost)
        return (
            f"{count:,} older spans of workers {ranges(lost)} were dropped; all is kept since {since:.3f} s"
        )

    def summary(self) -> Summary:
        """Seconds running, waiting and idle per worker, and who keeps the others waiting, in the window."""
        return summarize(self)

    def named(self) -> tuple[Named, ...]:
        """How often and how long each block named by `worker.span` ran in the window, the longest first."""
        return named(self)

    def to_chrome(self) -> dict[str, Any]:
        """The window as trace events: what chrome://tracing and https://ui.perfetto.dev open."""
        return trace_of(self)

    def save(self, path: str | Path) -> None:
        """Write `to_chrome` as JSON to a file; an existing file is replaced.

        Raises:
            UsageMistake: `path` is a directory, or its directory does not exist or cannot be written to.
        """
        write_trace(self, path)

    def __repr__(self) -> str:
        return picture(self)


def _order(span: Span) -> tuple[float, float, int]:
    """By beginning; of spans that begin together, the one that contains the other comes first."""
    depth = 0 if span.kind in COMMANDS else _DEPTHS.get(span.kind, 3)
    return span.start_s, -span.end_s, depth
