"""What a timeline adds up to: seconds per worker, and which worker keeps the others waiting."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from disco_magic.core.charging import Charges, last_of
from disco_magic.core.gathered import gathered
from disco_magic.core.missed import missed
from disco_magic.core.register_values import FEW_WORKERS
from disco_magic.core.words import from_to, human_seconds
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disco_magic.core.missed import Group, Missed
    from disco_magic.core.timeline import Meeting, Span, Timeline

HEADER: Final = ("worker", "running", "waiting", "idle", "errors", "came last", "others waited")
# Of many workers, those that differ by no more than this share of the window, or as little, are one row.
_NOISE: Final = 0.05
_NOISE_S: Final = 5e-3


@dataclass(frozen=True, slots=True)
class Spent:
    """One worker in a timeline's window.

    Attributes:
        worker: its id.
        running_s: seconds in commands and not waiting.
        waiting_s: seconds asleep in collectives, `recv` and `send`, for others.
        idle_s: the rest. Commands too short to be recorded count as idle; `session.stats()` has them all.
        errors: commands that failed.
        came_last: in how many collectives it was the last member to come.
        others_waited_s: how long the others waited because of it, in total; see `charging`.
        messages_s: the part of that in `recv` and `send`.
        missed_s: how long the others waited for it, and maybe for further ones, in collectives to which it
            did not come.
    """

    worker: int
    running_s: float
    waiting_s: float
    idle_s: float
    errors: int
    came_last: int
    others_waited_s: float
    messages_s: float = 0.0
    missed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    """What a timeline's window adds up to.

    Attributes:
        workers: one per worker that is shown.
        collectives: how many collectives of several workers all members came to.
        missed: collectives that workers did not come to, those with the longest waits first.
        messages: what else they waited in: ``send and recv``.
    """

    workers: tuple[Spent, ...]
    collectives: int
    missed: tuple[Missed, ...] = ()
    messages: str = "recv"

    @property
    def sentence(self) -> str:
        """Which worker keeps the others waiting; empty if none had to wait."""
        missed = str(self.missed[0]) if self.missed else ""
        return "; ".join(filter(None, [missed, self._of_the_longest]))

    @property
    def _of_the_longest(self) -> str:
        worst = max(self.workers, key=lambda each: each.others_waited_s)
        if not worst.others_waited_s:
            return ""
        of = f"{self.collectives:,} collective{'' if self.collectives == 1 else 's'}"
        met = [of] if self.collectives else []
        sent = [self.messages] if any(each.messages_s for each in self.workers) else []
        where = " and ".join(met + sent) or of
        total = sum(each.others_waited_s for each in self.workers)
        if not stands_out(each.others_waited_s for each in self.workers):
            most = f"{human_seconds(worst.others_waited_s)} of it for worker {worst.worker}"
            return (
                f"no worker stands out: in {where} they waited {human_seconds(total)} for each other, "
                f"all together; {most}"
            )
        waited = f"waited {human_seconds(worst.others_waited_s)} for"
        if not worst.came_last:
            only = f" in {self.messages}" if worst.messages_s == worst.others_waited_s else ""
            return f"the others {waited} worker {worst.worker}{only}, all together"
        of_it = f", {human_seconds(worst.messages_s)} of it in {self.messages}" if worst.messages_s else ""
        came = f"worker {worst.worker} came last to {worst.came_last:,} of {of}"
        return f"{came}; the others {waited} it, all together{of_it}"

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells as text; see `HEADER`. Of many workers, those that hardly differ are one row."""
        return [self._row(group) for group in self._rows()]

    def _rows(self) -> list[list[Spent]]:
        window_s = max(each.running_s + each.waiting_s + each.idle_s for each in self.workers)
        limit_s = max(_NOISE_S, _NOISE * window_s)
        worst = max(self.workers, key=_others_waited)
        # One more error is more than any noise.
        return gathered(
            self.workers,
            lambda each: (
                each.errors * 2 * limit_s,
                each.running_s,
                each.waiting_s,
                each.idle_s,
                _others_waited(each),
            ),
            limit_s,
            worst if _others_waited(worst) > limit_s else None,
        )

    def _row(self, group: Sequence[Spent]) -> tuple[str, ...]:
        ids = [each.worker for each in group]
        times = [[each.running_s, each.waiting_s, each.idle_s, _others_waited(each)] for each in group]
        running, waiting, idle, others = (
            from_to(human_seconds(min(column)), human_seconds(max(column)))
            for column in zip(*times, strict=True)
        )
        last = sorted({each.came_last for each in group})
        came = f"{last[0]:,}" if len(last) == 1 else f"{last[0]:,}-{last[-1]:,}"
        return (
            ranges(ids) if len(self.workers) > FEW_WORKERS else str(ids[0]),
            running,
            waiting,
            idle,
            f"{group[0].errors:,}",
            f"{came} of {self.collectives:,}",
            others,
        )


def _others_waited(each: Spent) -> float:
    return each.others_waited_s + each.missed_s


def stands_out(waits_s: Iterable[float]) -> bool:
    """Whether the worker that the others waited for longest is a straggler: some worker is always last.

    It is if they waited for it at least twice as long as for any other one.
    """
    longest, second = sorted((*waits_s, 0.0), reverse=True)[:2]
    return longest >= 2 * second


def summarize(timeline: Timeline) -> Summary:
    """Add up a timeline's window."""
    groups = _groups(timeline)
    meetings = _meetings(timeline, groups)
    came_last = Counter(last_of(spans).worker for spans in meetings)
    charges = Charges(timeline, [spans for members, spans in groups if len(spans) == len(members)])
    waited, received = charges.of_collectives(meetings), charges.of_messages()
    lost = missed(timeline, groups)
    in_vain: defaultdict[int, float] = defaultdict(float)
    for each in lost:
        for worker in each.workers:
            in_vain[worker] += each.waited_s
    return Summary(
        tuple(
            replace(
                _alone(timeline, worker),
                came_last=came_last[worker],
                others_waited_s=waited.get(worker, 0.0) + received.get(worker, 0.0),
                messages_s=received.get(worker, 0.0),
                missed_s=in_vain[worker],
            )
            for worker in timeline.workers
        ),
        len(meetings),
        lost,
        _messages(timeline),
    )


def _groups(timeline: Timeline) -> list[Group]:
    """Collectives of several workers: members, and spans of those that have come."""
    groups: defaultdict[Meeting, list[Span]] = defaultdict(list)
    for span in timeline.spans:
        if span.kind == "collective" and span.meeting is not None:
            groups[span.meeting].append(span)
    return [(members, spans) for (members, _, _), spans in groups.items()]


def _meetings(timeline: Timeline, groups: Sequence[Group]) -> list[list[Span]]:
    """The collectives that all members came to, the last of them within the window."""
    return [
        spans
        for members, spans in groups
        if len(spans) == len(members)
        and timeline.start_s <= max(span.start_s for span in spans) <= timeline.end_s
    ]


def _messages(timeline: Timeline) -> str:
    """The verbs of the messages in which workers waited."""
    labels = [span.label for spans in _waits(timeline).values() for span in spans if span.source is not None]
    verbs = (label.partition("(")[0].replace("recv's probe", "recv") for label in labels)
    called = {verb.rpartition(" ")[2] for verb in verbs}
    return " and ".join(sorted(called, reverse=True)) or "recv"


def _waits(timeline: Timeline) -> dict[int, list[Span]]:
    """Each worker's waits, in order."""
    found: dict[int, list[Span]] = {worker: [] for worker in timeline.workers}
    for span in timeline.spans:
        if span.kind == "waiting" and span.worker in found:
            found[span.worker].append(span)
    return found


def _alone(timeline: Timeline, worker: int) -> Spent:
    """What one worker did, without how long others waited for it."""
    start, end = timeline.known_from_s(worker), timeline.end_s
    lane = timeline.lane(worker)
    busy_s = covered([span for span in lane if span.kind != "error"], start, end)
    waiting_s = covered([span for span in lane if span.kind == "waiting"], start, end)
    errors = sum(span.kind == "error" and start <= span.start_s for span in lane)
    return Spent(worker, busy_s - waiting_s, waiting_s, end - start - busy_s, errors, 0, 0.0)


def covered(spans: Iterable[Span], start_s: float, end_s: float) -> float:
    """Seconds between two moments in which at least one of the spans goes on."""
    return sum(end - start for start, end in stretches(spans, start_s, end_s))


def stretches(spans: Iterable[Span], start_s: float, end_s: float) -> Sequence[tuple[float, float]]:
    """All intervals between two moments in which at least one of the spans goes on, in order."""
    found: list[tuple[float, float]] = []
    for span in sorted(spans, key=lambda span: span.start_s):
        start, end = max(span.start_s, start_s), min(span.end_s, end_s)
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found
