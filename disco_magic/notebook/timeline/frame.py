"""What a timeline's picture has around its bars: times above, and each lane's name and line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.core.time_scale import TimeScale
from disco_magic.core.words import human_seconds

if TYPE_CHECKING:
    from disco_magic.core.timeline import Timeline

WIDTH: Final = 960
"""Pixels of the picture; in a narrower window it shrinks by up to a fifth, then scrolls."""
LEFT: Final = 76
TOP: Final = 20
PAUSED: Final = "//&#160;a pause, shortened"
"""What the legend says of pauses, in HTML."""

_PAUSE: Final = 22
_LEAST: Final = 12
_CHARACTER: Final = 6.0  # of the times above the picture


class Frame(NamedTuple):
    """The frame of one picture.

    Attributes:
        scale: where each time is, from the left edge of the lanes.
        extra: additional height of each lane, between commands and collectives.
    """

    scale: TimeScale
    extra: int

    @classmethod
    def of(cls, timeline: Timeline, extra: int) -> Frame:
        """The frame of a timeline; long pauses in which nobody works are narrow."""
        return cls(TimeScale.of(timeline, WIDTH - LEFT - 4, pause=_PAUSE, least=_LEAST), extra)

    @property
    def step_s(self) -> float:
        """Seconds per pixel."""
        return self.scale.step_s or 1e-9

    def x(self, time_s: float) -> float:
        """The x coordinate of a time; at the edge if it lies outside."""
        return LEFT + self.scale.place(time_s)

    def axis(self, height: int) -> str:
        """Times above, with a line down to `height`, and what each pause was."""
        places = [(LEFT + place, text) for place, text in self.scale.ticks(WIDTH // 110, _CHARACTER)]
        marks = "".join(f'<path d="M{x:.1f} {TOP - 4}V{height}"/>' for x, _ in places)
        texts = "".join(
            f'<text x="{x:.1f}" y="{TOP - 8}" text-anchor="middle">{text}</text> '
            for x, text in places
            if x + _CHARACTER * len(text) / 2 < WIDTH
        )
        return (
            f'<g stroke="currentColor" stroke-opacity=".18">{marks}</g>'
            f'<g fill="currentColor" fill-opacity=".75">{texts}</g>'
            f"{''.join(self._pause(pause, height) for pause in sorted(self.scale.pauses))}"
        )

    def _pause(self, pause: tuple[float, float], height: int) -> str:
        """What is told of a pause, wherever the pointer is in it."""
        start_s, end_s = pause
        took = human_seconds(end_s - start_s)
        return (
            f'<path d="M{self.x(start_s):.1f} {TOP}V{height}H{self.x(end_s):.1f}V{TOP}z" fill="transparent">'
            f"<title>nobody worked: {took} from {start_s:.4f} s</title></path>"
        )

    def rail(self, timeline: Timeline, worker: int, top: int) -> str:
        """A lane's name and line, which is dashed where the oldest spans were dropped."""
        known_s, middle = timeline.known_from_s(worker), top + 21 + self.extra
        known, dashed = self.x(known_s), ""
        if known > LEFT + 1:
            dashed = (
                f'<path d="M{LEFT} {middle}H{known:.1f}" stroke="currentColor" stroke-dasharray="2 5">'
                "<title>older spans were dropped</title></path>"
            )
        lines = "".join(
            f"M{max(self.x(first), known):.1f} {middle}H{self.x(last):.1f}"
            for first, last in self.scale.even
            if last > known_s or first == last
        )
        for first, _ in sorted(self.scale.pauses):
            left = self.x(first) + _PAUSE / 2 - 5
            lines += "".join(f"M{left + more:.1f} {middle + 5}l5 -10" for more in (0, 5))
        return (
            f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end" fill="currentColor">'
            f"worker {worker}</text> "
            f'{dashed}<path d="{lines}" stroke="currentColor" stroke-opacity=".45"/>'
        )
