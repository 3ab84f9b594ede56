"""The last commands of every worker in words: what, when, how long, and how it ended.

Made from a timeline, in which an error is a separate span; its `Span.seq` says which command it ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from disco_magic.core.timeline import COMMANDS
from disco_magic.core.words import aligned, coarse_seconds, from_to, human_seconds
from disco_magic.errors import INTERRUPTED
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from disco_magic.core.timeline import Span, Timeline

State = Literal["ok", "failed", "interrupted", "diverged", "running", "queued"]
HEADER: Final = ("workers", "command", "took", "began", "ended")
LONGEST: Final = 72
"""Characters of an error that are shown."""

# Also what other workers have done of a command that is listed.
_SHORT: Final = "not listed: calls and copies that took a worker less than 1 ms"
_INTERRUPT: Final = "WorkerInterrupt"
_BROKEN: Final = "Plane"


@dataclass(frozen=True, slots=True)
class Entry:
    """One command, on the workers on which it ended in the same way.

    Attributes:
        workers: their ids.
        command: what, e.g. ``Cell In[7]``, ``call demo.scale``, ``1,200 calls, the first: call f``.
        state: whether it ended, and how.
        reason: the error's summary, or what the interrupt struck, or what differed between the workers when
            the cell was checked; if it ended well, the error of a collective that it caught; else empty.
        began_s: when the first of them began it, in seconds before the look; None if it has not begun, or if
            only its end is known.
        took_s: the shortest and longest time that it has taken one of them so far; None as for `began_s`.
    """

    workers: tuple[int, ...]
    command: str
    state: State
    reason: str = ""
    began_s: float | None = None
    took_s: tuple[float, float] | None = None

    @property
    def ended(self) -> str:
        """How it ended, in words."""
        reason = self.reason if len(self.reason) <= LONGEST else f"{self.reason[: LONGEST - 1]}…"
        return f"{self.state}: {reason}" if reason else self.state

    def row(self) -> tuple[str, ...]:
        """The table's cells as text; see `HEADER`."""
        began = "" if self.began_s is None else f"{human_seconds(self.began_s)} ago"
        return ranges(self.workers), self.command, self._took(), began, self.ended

    def _took(self) -> str:
        if self.took_s is None:
            return "" if self.state == "queued" else coarse_seconds(0.0)  # short commands are not recorded
        least, most = self.took_s
        return from_to(coarse_seconds(least), coarse_seconds(most))


@dataclass(frozen=True, slots=True, repr=False)
class History:
    """The last commands of a session's workers, the oldest first; its repr is a table.

    All cells are listed; another command that took a worker less than 1 ms only if it failed, or was
    executed with others without a pause.

    Attributes:
        session_id: number of the session.
        entries: in order; a command that ended in several ways has several.
        remark: what is missing, in words; empty if nothing is.
    """

    session_id: int
    entries: tuple[Entry, ...]
    remark: str = ""

    @property
    def title(self) -> str:
        """The line above the table."""
        if not self.entries:
            return f"Disco session {self.session_id}: the workers have done nothing yet"
        return f"Disco session {self.session_id}: the workers' last commands"

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells as text; see `HEADER`."""
        return [entry.row() for entry in self.entries]

    def __repr__(self) -> str:
        lines = [self.title]
        if self.entries:
            # An error may be long, so it is the last column, which needs no padding.
            rows = [HEADER, *self.rows()]
            left = aligned([row[:4] for row in rows], words=2)
            width = max(map(len, left))
            lines += [f"{text:{width}}  {row[4]}".rstrip() for text, row in zip(left, rows, strict=True)]
        return "\n".join(filter(None, [*lines, self.remark]))


def history_of(
    timeline: Timeline,
    last: int | None = None,
    queued: Iterable[Entry] = (),
    diverged: Mapping[int, str] = MappingProxyType({}),
) -> History:
    """Return what the workers of a timeline did.

    Args:
        timeline: of the workers and the time that are wanted.
        last: how many of each worker's latest commands, on all that executed them; None: all that are kept.
        queued: entries of commands that were sent and have not begun.
        diverged: the numbers of cells after which registers differed, with what did.
    """
    groups: dict[tuple[object, ...], list[_Did]] = {}
    commands = [_commands(timeline.lane(worker), diverged) for worker in timeline.workers]
    latest = {did.span.seq for each in commands for did in each[-last if last else None :]}
    for did in (did for each in commands for did in each if did.span.seq in latest):
        groups.setdefault((did.span.seq, did.command, did.state, did.reason), []).append(did)
    first: dict[tuple[object, ...], float] = {}
    for key, members in groups.items():
        begun = min(did.span.start_s for did in members)
        first[key[:2]] = min(begun, first.get(key[:2], begun))
    # Keep the rows of a command together.
    order = sorted(groups, key=lambda key: (first[key[:2]], groups[key][0].span.worker))
    entries = [_entry(groups[key], timeline.end_s) for key in order]
    remarks = [timeline.remark, _SHORT if _lacks_workers(groups.values(), timeline) else ""]
    return History(timeline.session_id, (*entries, *queued), "\n".join(filter(None, remarks)))


def _lacks_workers(groups: Iterable[Sequence[_Did]], timeline: Timeline) -> bool:
    """Whether a row of calls or copies lacks workers: others may have done the same in less time."""
    return any(
        len(group) < len(timeline.workers) and group[0].span.kind not in ("cell", "error") for group in groups
    )


@dataclass(frozen=True, slots=True)
class _Did:
    """A command on one worker; `span` is its error if nothing else is known of it."""

    span: Span
    command: str
    state: State
    reason: str = ""


def _commands(lane: Sequence[Span], diverged: Mapping[int, str]) -> list[_Did]:
    """The commands in a lane, in the order in which they began."""
    did: list[_Did] = []
    known: dict[int | None, int] = {}
    for span in lane:
        if span.kind in COMMANDS:
            if span.kind != "calls":  # calls that failed have entries of their own
                known[span.seq] = len(did)
            did.append(_Did(span, _words(span), "running" if span.unfinished else "ok"))
        elif span.meeting is not None and span.failure.startswith(_BROKEN):
            place = known.get(span.meeting[1])
            if place is not None and did[place].state == "ok":
                did[place] = replace(did[place], reason=f"caught {span.failure}")
        elif span.kind == "error":
            state, reason = _ending(span)
            place = known.pop(span.seq, None)
            if place is None:
                did.append(_Did(span, _words(span), state, reason))
            else:
                did[place] = replace(did[place], state=state, reason=reason)
    return [_as_checked(each, diverged) for each in did]


def _as_checked(did: _Did, diverged: Mapping[int, str]) -> _Did:
    what = "" if did.span.seq is None else diverged.get(did.span.seq, "")
    return replace(did, state="diverged", reason=what) if what and did.state == "ok" else did


def _words(span: Span) -> str:
    if span.kind == "error":
        return f"{span.detail.removeprefix('in ')}{', several times' if span.seconds else ''}"
    if span.kind == "calls":
        _, _, more = span.detail.partition(", ")
        return f"{span.label}, {more}" if more else span.label
    return span.label


def _ending(error: Span) -> tuple[State, str]:
    name, _, words = error.label.partition(": ")
    if name != _INTERRUPT:
        return "failed", error.label
    if words in ("", INTERRUPTED):
        return "interrupted", ""
    return "interrupted", words.removeprefix("interrupted ")


def _entry(members: Sequence[_Did], now_s: float) -> Entry:
    workers = tuple(did.span.worker for did in members)
    first = members[0]
    began_s = now_s - min(did.span.start_s for did in members)
    if first.span.kind == "error":
        return Entry(workers, first.command, first.state, first.reason, began_s)
    times = [did.span.seconds for did in members]
    return Entry(workers, first.command, first.state, first.reason, began_s, (min(times), max(times)))
