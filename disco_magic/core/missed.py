"""Which workers, in a timeline, did not come to collectives in which others waited."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from disco_magic.core.words import human_seconds, plural
from disco_magic.phrases import people, people_who

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from disco_magic.core.timeline import Span, Timeline

    Group = tuple[tuple[int, ...], list[Span]]


@dataclass(frozen=True, slots=True)
class Missed:
    """Collectives that the same workers did not come to.

    Attributes:
        workers: ids. In place of a worker that itself waited until the end: those that it waited for.
        count: how many collectives.
        waited_s: how long the others were in them, in total.
        is_over: whether no worker waits in them any more.
    """

    workers: tuple[int, ...]
    count: int
    waited_s: float
    is_over: bool

    def __str__(self) -> str:
        not_yet = f"{people_who(self.workers, 'has', 'have')} not come yet"
        came = f"{people(self.workers)} never came" if self.is_over else not_yet
        return (
            f"{came} to {plural(self.count, 'collective')}, in which the others waited "
            f"{human_seconds(self.waited_s)}, all together"
        )


class _Stuck(NamedTuple):
    """A wait that did not end by itself."""

    start_s: float
    end_s: float
    others: tuple[int, ...]  # the workers it waited for


def missed(timeline: Timeline, groups: Sequence[Group]) -> tuple[Missed, ...]:
    """Collect `Missed` for a timeline's window, as far as it is fully known; longest waits first."""
    unmet = [(absent, spans) for members, spans in groups if (absent := _absent(members, spans))]
    # Not all of a call that fails is a wait: the first error of a session takes tenths of a second to make.
    waited = {(span.worker, span.start_s): span.seconds for span in timeline.spans if span.kind == "waiting"}
    stuck = _stuck(timeline, unmet)
    found: defaultdict[tuple[tuple[int, ...], bool], list[float]] = defaultdict(list)
    for absent, spans in unmet:
        begun_s = min(span.start_s for span in spans)
        known = all(each in timeline.workers and timeline.known_from_s(each) <= begun_s for each in absent)
        if known and timeline.start_s <= begun_s:
            roots = _roots(absent, begun_s, max(span.end_s for span in spans), stuck, frozenset())
            is_over = not any(span.unfinished for span in spans)
            # Without roots all wait for each other: take the absent ones.
            times = (
                span.seconds if span.unfinished else waited.get((span.worker, span.start_s), 0.0)
                for span in spans
            )
            found[tuple(sorted(roots)) or absent, is_over].append(sum(times))
    made = (Missed(who, len(waits), sum(waits), over) for (who, over), waits in found.items())
    return tuple(sorted(made, key=lambda each: -each.waited_s))


def _absent(members: Sequence[int], spans: Iterable[Span]) -> tuple[int, ...]:
    return tuple(sorted({*members} - {span.worker for span in spans}))


def _stuck(
    timeline: Timeline, unmet: Iterable[tuple[tuple[int, ...], list[Span]]]
) -> Mapping[int, list[_Stuck]]:
    found: defaultdict[int, list[_Stuck]] = defaultdict(list)
    for absent, spans in unmet:
        for span in spans:
            found[span.worker].append(_Stuck(span.start_s, span.end_s, absent))
    sources = {(span.worker, span.start_s): span.source for span in timeline.spans if span.source is not None}
    for span in timeline.spans:  # a wait for a message that has not ended began when the call did
        source = sources.get((span.worker, span.start_s))
        if source is not None and span.kind == "collective" and (span.unfinished or span.failure):
            found[span.worker].append(_Stuck(span.start_s, span.end_s, (source,)))
    return found


def _roots(
    absent: Iterable[int],
    begin_s: float,
    end_s: float,
    stuck: Mapping[int, list[_Stuck]],
    passed: frozenset[int],
) -> set[int]:
    """The workers that kept `absent` ones away between two moments, at the ends of chains of waits."""
    roots = set[int]()
    for worker in absent:
        if worker not in passed:
            further = [
                each for each in stuck.get(worker, []) if each.start_s < end_s and begin_s < each.end_s
            ]
            others = further[-1].others if further else ()
            roots |= _roots(others, begin_s, end_s, stuck, passed | {worker}) if others else {worker}
    return roots
