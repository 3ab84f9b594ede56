"""``%disco timeline`` in a notebook: the picture with controls for the time window and the workers.

Only this module of the timeline needs ipywidgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from disco_magic.errors import DiscoError
from disco_magic.locks import new_rlock
from disco_magic.notebook.live.comms import answer_while_busy, everything_in
from disco_magic.notebook.live.stills import PANEL, Still, publish
from disco_magic.notebook.live.wrapping import wrapped
from disco_magic.notebook.timeline.picture import timeline_bundle, timeline_html

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.core.timeline import Timeline

STEPS: Final = 1000


class TimelineView:
    """A timeline with controls: time window, workers, refresh, save as a trace.

    Args:
        take: returns the current timeline.
        choose: returns the part of it that is shown at first; None: all.

    Attributes:
        timeline: the whole timeline that was taken last.
        shown: the selected part of it.
        box: the outermost widget.
        window, workers, refresh, path, save, picture, said: the widgets in it.

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
        names = [(f"worker {number}", number) for number in range(self.timeline.num_workers)]
        self.workers = widgets.SelectMultiple(
            options=names,
            value=self.timeline.workers,
            description="Show",
            rows=min(4, len(names)),
            layout=widgets.Layout(width="14em"),
        )
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
        controls = widgets.HBox([self.window, self.workers, buttons], layout=wrapped())
        self._still = Still()
        self.box = widgets.VBox([controls, self.picture, widgets.HTML(self._still.hiding)])
        self.box.add_class(PANEL)
        self._fill(self.timeline if choose is None else choose(self.timeline))
        self.window.observe(self._on_choice, "value")
        self.workers.observe(self._on_choice, "value")
        self.refresh.on_click(self._on_refresh)
        self.save.on_click(self._on_save)
        answer_while_busy(everything_in(self.box))

    def _fill(self, chosen: Timeline) -> None:
        """Set the slider's range to the whole timeline, and its window to `chosen`."""
        end = self.timeline.end_s
        self._filling = True
        try:
            self.window.max = end  # first, because the selection has to lie within
            self.window.step = max(end / STEPS, 1e-6)
            self.window.value = (chosen.start_s, chosen.end_s)
            self._filled = self.window.value
        finally:
            self._filling = False
        self._draw()

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

    def _on_refresh(self, _: object) -> None:
        with self._lock:
            start, end = self.window.value
            try:
                self.timeline = self._take()
            except DiscoError as error:  # the session was stopped
                self.said.value = str(error)
                return
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
