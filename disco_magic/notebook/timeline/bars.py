"""The bars of a timeline's picture, and the look of each kind of span."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.core.named_blocks import without_number
from disco_magic.core.timeline import COMMANDS
from disco_magic.core.words import TIMES, human_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from disco_magic.core.timeline import Span


class Look(NamedTuple):
    """The look of one kind of span: colour, fill (a pattern's name, or an opacity), and its name."""

    colour: str
    fill: str | float
    said: str


LOOKS: Final[dict[str, Look]] = {
    "cell": Look("#2e8b57", 0.30, "cell"),
    "call": Look("#2e8b57", "bars", "call"),
    "calls": Look("#2e8b57", "bars", "calls"),
    "copy": Look("#8a5cc2", "dots", "copy"),
    "span": Look("#7d6fb0", 0.5, "named by worker.span"),
    "collective": Look("#3b7dd8", 0.75, "collective, working"),
    "waiting": Look("#d08a2c", "hatch", "waiting for others"),
    "error": Look("#d0452c", 1.0, "error"),
}


@dataclass(slots=True)
class Bar:
    """A span, or several neighbouring spans that are too narrow to draw apart.

    Attributes:
        first: the first span.
        start_s, end_s: from the start of the first span to the end of the last.
        sum_s: duration of the spans, without the gaps between them.
        count: number of spans.
        names: of named blocks, the seconds of each name, with ``#`` in place of numbers.
    """

    first: Span
    start_s: float
    end_s: float
    sum_s: float
    count: int = 1
    names: dict[str, float] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """What a bar of several spans is of: ``12 x collective, working``, ``24 x forward, backward``."""
        what = ", ".join(self.names) or LOOKS[self.first.kind].said
        return f"{self.count:,} {TIMES} {what}"

    @property
    def title(self) -> str:
        """The tooltip."""
        took = human_seconds(self.end_s - self.start_s)
        when = f"{took} from {self.start_s:.4f} s"
        if self.count > 1:
            each = "".join(f"\n{name}: {human_seconds(took_s)}" for name, took_s in self.names.items())
            return f"{self.said}, {human_seconds(self.sum_s)} in {when}{each}\nthe first: {self.first}"
        span = self.first
        if span.kind == "error":
            return f"{span} (at {span.start_s:.4f} s)"
        return f"{LOOKS[span.kind].said}: {span}\n{when}"


def lane_bars(spans: Sequence[Span], narrow_s: float) -> list[Bar]:
    """The bars of a lane in drawing order: commands first, errors on top."""
    levels = (
        [span for span in spans if span.kind in COMMANDS],
        [span for span in spans if span.kind == "span"],
        list(_working(spans)),
        [span for span in spans if span.kind == "waiting"],
        [span for span in spans if span.kind == "error"],
    )
    return [bar for level in levels for bar in merged(level, narrow_s)]


def _working(spans: Sequence[Span]) -> Iterator[Span]:
    """The collectives without their waiting time, which is at the start, or, if unfinished, at the end."""
    waiting = {
        (span.end_s if span.unfinished else span.start_s): span for span in spans if span.kind == "waiting"
    }
    for span in spans:
        if span.kind == "collective":
            wait = waiting.get(span.end_s if span.unfinished else span.start_s)
            if wait is None:
                yield span
            elif span.unfinished:
                yield replace(span, end_s=wait.start_s)
            elif wait.end_s < span.end_s:
                yield replace(span, start_s=wait.end_s)


def merged(spans: Iterable[Span], narrow_s: float) -> list[Bar]:
    """One bar per span; neighbours of the same kind are merged if they and the gap are below `narrow_s`."""
    bars: list[Bar] = []
    for span in spans:
        last = bars[-1] if bars else None
        is_narrow = span.seconds < narrow_s
        if (
            last is not None
            and is_narrow
            and last.first.kind == span.kind
            and (last.count > 1 or last.first.seconds < narrow_s)
            and span.start_s - last.end_s < narrow_s
        ):
            last.end_s = max(last.end_s, span.end_s)
            last.sum_s += span.seconds
            last.count += 1
        else:
            last = Bar(span, span.start_s, span.end_s, span.seconds)
            bars.append(last)
        if span.kind == "span":
            name = without_number(span.label)
            last.names[name] = last.names.get(name, 0.0) + span.seconds
    return bars
