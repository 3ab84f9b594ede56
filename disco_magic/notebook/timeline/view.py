"""``%disco timeline`` in a notebook: the picture with controls for the time window and the workers.

Only this module of the timeline needs ipywidgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from disco_magic.errors import DiscoError
from disco_magic.notebook.live.comms import answer_while_busy, everything_in
from disco_magic.notebook.live.stills import PANEL, Still, publish
from disco_magic.notebook.live.wrapping import wrapped
from disco_magic.notebook.timeline.picture import timeline_bundle, timeline_html
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.core.timeline import Timeline

STEPS: Final = 1000
# If less than this share of the time is shown at first, the slider covers only so many times as much of it.
_NARROW: Final = 0.05
_AROUND: Final = 2.0
_WIDER: Final = 4.0
_MOST_ROWS: Final = 8
_CONTROLS: Final = "disco-timeline-controls"
# The list of workers begins with a blank of half a row, as ipywidgets has it, and its end is cut off as much;
# the numbers beside the slider would touch the frame that they get when they are long.
_STYLE: Final = (
    f"<style>.{_CONTROLS} select[multiple]{{padding-top:0}}"
    f".{_CONTROLS} .widget-readout{{padding:0 6px;box-sizing:content-box}}</style>"
)


class TimelineView:
    """A timeline with controls: time window, workers, refresh, save as a trace.

    Clicks arrive in threads of the kernel, even while a cell runs; a lock lets one thread at a time draw.
    """

    def __init__(
        self, take: Callable[[], Timeline], choose: Callable[[Timeline], Timeline] | None = None
    ) -> None:
        self._take = take
        self._choose = choose
        self._lock = new_rlock()
        self._filling = self._closed = False
        self.timeline = self.shown = take()
        self.window = widgets.FloatRangeSlider(
            description="Seconds",
            continuous_update=False,
            readout_format=".3f",
            layout=widgets.Layout(width="34em"),
        )
        small = widgets.Layout(width="2.6em", flex="none")
        self.closer = widgets.Button(
            icon="search-plus", tooltip="let the slider cover what is shown", layout=small
        )
        self.wider = widgets.Button(icon="search-minus", tooltip="let the slider cover more", layout=small)
        part = widgets.Layout(width="auto", flex="none")
        self.cell = widgets.Button(
            description="Last cell", tooltip="show the time of the last cell, as --cell does", layout=part
        )
        self.all = widgets.Button(description="All", tooltip="show all of the timeline", layout=part)
        self.workers = widgets.SelectMultiple(description="Show", layout=widgets.Layout(width="14em"))
        self._offer_workers()
        self.refresh = widgets.Button(description="Refresh", icon="refresh", tooltip="look again")
        self.path = widgets.Text(
            value="trace.json",
            description="file",
            layout=widgets.Layout(width="14em"),
            style={"description_width": "initial"},
        )
        self.save = widgets.Button(
            description="Save trace", icon="save", tooltip="what is shown, for https://ui.perfetto.dev"
        )
        self.picture, self.said = widgets.HTML(), widgets.Label()
        buttons = widgets.HBox([self.refresh, self.path, self.save, self.said], layout=wrapped())
        time = widgets.HBox([self.window, self.closer, self.wider, self.cell, self.all], layout=wrapped())
        controls = widgets.HBox([time, self.workers, buttons], layout=wrapped())
        self._still = Still()
        controls.add_class(_CONTROLS)
        self.box = widgets.VBox([controls, self.picture, widgets.HTML(self._still.hiding + _STYLE)])
        self.box.add_class(PANEL)
        self._fill(self.timeline if choose is None else choose(self.timeline))
        self.window.observe(self._on_choice, "value")
        self.closer.on_click(self._on_closer)
        self.wider.on_click(self._on_wider)
        self.cell.on_click(lambda _: self._show(lambda timeline: timeline.of_cell()))
        self.all.on_click(lambda _: self._show(None))
        self.workers.observe(self._on_choice, "value")
        self.refresh.on_click(self._on_refresh)
        self.save.on_click(self._on_save)
        answer_while_busy(everything_in(self.box))

    def _offer_workers(self) -> None:
        """Offer all workers of the session, and choose all; unless it still is one of as many."""
        numbers = range(self.timeline.num_workers)
        if len(numbers) != len(self.workers.options):
            self.workers.options = [(f"worker {number}", number) for number in numbers]
            self.workers.value, self.workers.rows = self.timeline.workers, min(_MOST_ROWS, len(numbers))

    def _show(self, choose: Callable[[Timeline], Timeline] | None) -> None:
        """Show this part of the timeline, and after `refresh` the same part of the next; None: all."""
        with self._lock:
            try:
                chosen = self.timeline if choose is None else choose(self.timeline)
            except DiscoError as error:  # there was no cell
                self.said.value = str(error)
                return
            self._choose = choose
            self._fill(chosen)

    def _fill(self, chosen: Timeline) -> None:
        """Set the slider's window to `chosen`, and its range to the whole timeline, or to what is around."""
        length, end = chosen.end_s - chosen.start_s, self.timeline.end_s
        around = _AROUND * length if length < _NARROW * end else end
        self._cover(chosen.start_s - around, chosen.end_s + around, (chosen.start_s, chosen.end_s))
        self._filled = self.window.value
        self._draw()

    def _cover(self, start_s: float, end_s: float, window: tuple[float, float]) -> None:
        """Set the slider's range, as far as there is a timeline, and its window."""
        start_s, end_s = max(0.0, start_s), min(self.timeline.end_s, end_s)
        self._filling = True
        try:
            with self.window.hold_trait_notifications():  # the window has to lie within the range, always
                self.window.min, self.window.max, self.window.value = start_s, end_s, window
                self.window.step = max((end_s - start_s) / STEPS, 1e-6)
        finally:
            self._filling = False

    def _draw(self) -> None:
        start, end = self.window.value
        chosen = self.workers.value or self.timeline.workers
        try:
            self.shown = self.timeline.of(chosen).between(start, end)
        except DiscoError as error:  # both ends of the slider are at the same place
            self.said.value = str(error)
            return
        self.said.value = ""
        self.picture.value = timeline_html(self.shown)

    def _on_choice(self, _: object) -> None:
        with self._lock:
            if not self._filling:
                self._draw()

    def _on_closer(self, _: object) -> None:
        with self._lock:
            start, end = self.window.value
            if start < end:
                self._cover(start, end, (start, end))

    def _on_wider(self, _: object) -> None:
        with self._lock:
            more = (self.window.max - self.window.min) * (_WIDER - 1) / 2
            self._cover(self.window.min - more, self.window.max + more, self.window.value)

    def _on_refresh(self, _: object) -> None:
        with self._lock:
            start, end = self.window.value
            try:
                self.timeline = self._take()
            except DiscoError as error:  # the session was stopped
                self.said.value = str(error)
                return
            self._filling = True  # no picture of new workers in the old window
            try:
                self._offer_workers()
            finally:
                self._filling = False
            self._fill(self._again(start, end))

    def _again(self, start_s: float, end_s: float) -> Timeline:
        """The part of a new timeline to show: the same choice, the whole, or as many of the last seconds."""
        if self._choose is not None and (start_s, end_s) == self._filled:
            return self._choose(self.timeline)
        return self.timeline if start_s <= 0.0 else self.timeline.last(end_s - start_s)

    def _on_save(self, _: object) -> None:
        try:
            self.shown.save(self.path.value)
        except DiscoError as error:
            self.said.value = str(error)
        else:
            self.said.value = f"saved in {self.path.value}"

    def close(self) -> None:
        """Close all its comms. Idempotent."""
        with self._lock:
            self._closed = True
            for widget in reversed(everything_in(self.box)):
                widget.close()

    def _ipython_display_(self) -> None:
        publish(self.bundles())

    def bundles(self) -> list[dict[str, Any]]:
        """The outputs: a still, and the widgets, which hide it (`stills.py`)."""
        return self._still.bundles(timeline_bundle(self.shown), None if self._closed else self.box)
