"""``%disco timeline`` in a notebook: the picture with controls for the time window and the workers.

Only this module of the timeline needs ipywidgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import ipywidgets as widgets

from disco_magic.errors import DiscoError
from disco_magic.notebook.live.controls import Changes, button, text, worker_options, wrapped
from disco_magic.notebook.live.views import LiveView, answer_while_busy, everything_in
from disco_magic.notebook.timeline.picture import timeline_bundle, timeline_html

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


class TimelineView(LiveView):
    """A timeline with controls: time window, workers, refresh, save as a trace."""

    def __init__(
        self, take: Callable[[], Timeline], choose: Callable[[Timeline], Timeline] | None = None
    ) -> None:
        super().__init__(widgets.VBox())
        self._take = take
        self._choose = choose
        self._changes = Changes(self._on_choice)
        self.timeline = self.shown = take()
        self.window = widgets.FloatRangeSlider(
            description="Seconds",
            continuous_update=False,
            readout_format=".3f",
            layout=widgets.Layout(width="34em"),
        )
        self.closer = button("", "let the slider cover what is shown", icon="search-plus")
        self.wider = button("", "let the slider cover more", icon="search-minus")
        self.cell = button("Last cell", "show the time of the last cell, as --cell does")
        self.all = button("All", "show all of the timeline")
        for each in (self.closer, self.wider, self.cell, self.all):
            each.layout.flex = "none"
        self.closer.layout.width = self.wider.layout.width = "2.6em"
        self.workers = widgets.SelectMultiple(description="Show", layout=widgets.Layout(width="14em"))
        self._offer_workers()
        self.refresh = widgets.Button(description="Refresh", icon="refresh", tooltip="look again")
        self.path = text("file", "14em", value="trace.json")
        self.save = widgets.Button(
            description="Save trace", icon="save", tooltip="what is shown, for https://ui.perfetto.dev"
        )
        self.picture, self.said = widgets.HTML(), widgets.Label()
        buttons = wrapped([self.refresh, self.path, self.save, self.said])
        time = wrapped([self.window, self.closer, self.wider, self.cell, self.all])
        # The list of workers is tall: beside both rows, it moves neither of them.
        rows = widgets.VBox([time, buttons], layout=widgets.Layout(max_width="100%"))
        controls = wrapped([rows, self.workers]).add_class(_CONTROLS)
        controls.layout.align_items = "flex-start"
        self.widget.children = (controls, self.picture, widgets.HTML(self.hiding + _STYLE))
        self._fill(self.timeline if choose is None else choose(self.timeline))
        self.window.observe(self._changes, "value")
        self.closer.on_click(self._on_closer)
        self.wider.on_click(self._on_wider)
        self.cell.on_click(lambda _: self._show(lambda timeline: timeline.of_cell()))
        self.all.on_click(lambda _: self._show(None))
        self.workers.observe(self._changes, "value")
        self.refresh.on_click(self._on_refresh)
        self.save.on_click(self._on_save)
        answer_while_busy(everything_in(self.widget))

    def _offer_workers(self) -> None:
        """Offer all workers of the session, and choose all; unless it still is one of as many."""
        numbers = range(self.timeline.num_workers)
        if len(numbers) != len(self.workers.options):
            self.workers.options = worker_options(len(numbers))
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
        # The window has to lie within the range, always.
        with self._changes.of_ours(), self.window.hold_trait_notifications():
            self.window.min, self.window.max, self.window.value = start_s, end_s, window
            self.window.step = max((end_s - start_s) / STEPS, 1e-6)

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

    def _on_choice(self) -> None:
        with self._lock:
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
            with self._changes.of_ours():  # no picture of new workers in the old window
                self._offer_workers()
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

    def _still(self) -> dict[str, str]:
        return timeline_bundle(self.shown)
