"""The lower half of an inspector: a closer look at one register."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import ipywidgets as widgets

from disco_magic.notebook.inspector.curves import lines, over_cells
from disco_magic.notebook.inspector.faces import (
    Choice,
    difference,
    exact,
    heat_map,
    histogram,
    summary,
    values,
)
from disco_magic.notebook.inspector.longlook import LongLook
from disco_magic.notebook.inspector.pieces import PartPicker, RegisterPicker
from disco_magic.notebook.inspector.representation import represented
from disco_magic.notebook.inspector.slices import SlicePicker
from disco_magic.notebook.inspector.view import largest
from disco_magic.notebook.inspector.watch import MEASURES
from disco_magic.notebook.live.controls import Changes, button, dropdown, named, show, worker_options, wrapped
from disco_magic.values.parts import split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.snapshot import Row
    from disco_magic.notebook.inspector.longlook import Share
    from disco_magic.notebook.inspector.watch import Watch
    from disco_magic.session.session import Session

AT_ONCE: Final = 16 << 20
"""Up to so many bytes per worker, all elements are read at once, in about 40 ms; else in a thread."""

_ALL: Final = -1
_SCALES: Final = {"automatic": None, "min to max": False, "symmetric around 0": True}


class Face(NamedTuple):
    """One way to draw a register.

    Attributes:
        draw: returns the picture as HTML.
        tooltip: what it shows, in words.
        asks: the controls that it has; others are hidden.
        option: its name in ``%disco registers --as`` (`looking.FACE_OPTIONS`); "" if it has none.
    """

    draw: Callable[[Session, Row, Choice, Watch], str]
    tooltip: str
    asks: tuple[str, ...] = ()
    option: str = ""


FACES: Final = {
    "Summary": Face(summary, "type, shape, device and statistics per worker", ("exact",), "summary"),
    "Heat map": Face(
        heat_map, "a two-dimensional part as a picture, per worker", ("worker", "scale", "slice"), "heatmap"
    ),
    "Histogram": Face(
        histogram, "how the values are distributed, per worker", ("worker",), option="histogram"
    ),
    "Lines": Face(
        lines, "a list of numbers, or an array with one axis, as a line per worker", ("worker",), "lines"
    ),
    "Values": Face(values, "the elements themselves", ("one", "slice"), "values"),
    "Difference": Face(
        difference, "where two workers differ, and by how much", ("one", "other", "slice"), "difference"
    ),
    "Over cells": Face(over_cells, "statistics after each cell; watch the register first", ("measure",)),
}


class Detail:
    """Selects a register and draws it."""

    def __init__(self, changed: Callable[[], None], watch: Watch) -> None:
        self._changes = Changes(changed)
        self._watch = watch
        self._workers = 0
        self._drawn = ""
        self.row: Row | None = None
        self._given = False  # whether the workers to compare were given with the register
        self._chosen = RegisterPicker(self._changes)
        self.register = self._chosen.list
        self.part = PartPicker(self._changes)
        self.face = widgets.ToggleButtons(
            options=list(FACES),
            value="Summary",
            style={"button_width": "auto"},
            tooltips=[each.tooltip for each in FACES.values()],
        )
        self._worker = dropdown("on", [("all workers", _ALL)])
        self._one = dropdown("take", worker_options(1))
        self._other = dropdown("and", worker_options(1))
        self._scale = dropdown("scale", named(list(_SCALES)))
        self._measure = dropdown("of", named(MEASURES))
        self._slices = SlicePicker(self._changes)
        self._picture = widgets.HTML()
        self._long = LongLook(self._show)
        self._exact = button("Exact", "statistics of all elements, not of a sample")
        self._exact.on_click(self._on_exact)
        self._exact_asked = False
        self._long_key: object = None
        self._read_at = -1  # the session's last command when the long look began
        self._older = widgets.HTML(_OLDER, layout=widgets.Layout(display="none"))
        self._controls = {
            "exact": self._exact,
            "worker": self._worker,
            "one": self._one,
            "other": self._other,
            "scale": self._scale,
            "measure": self._measure,
            "slice": self._slices.box,
        }
        for control in (self.face, *self._controls.values()):
            if control not in (self._exact, self._slices.box):
                control.observe(self._changes, "value")
        lists = [control for name, control in self._controls.items() if name != "slice"]
        self._below = widgets.VBox(
            [
                faces := wrapped([self.face, *lists]),
                self._slices.box,
                self._long.box,
                self._older,
                self._picture,
            ]
        )
        chosen = wrapped([self.register, self.part.list])
        self.box = widgets.VBox([chosen, self._below])
        self._rows = (chosen, faces)
        self._arrange()

    @property
    def name(self) -> str:
        """The selected register; empty if none is."""
        return self.register.value or ""

    def offer(self, rows: Sequence[Row], num_workers: int) -> None:
        """Offer these registers and workers."""
        self._chosen.offer([row.name for row in rows])
        with self._changes.of_ours():
            if num_workers not in (0, self._workers):
                self._workers = num_workers
                each = worker_options(num_workers)
                self._worker.options = [("all workers", _ALL), *each]
                self._worker.value = _ALL
                for control, value in ((self._one, min(1, num_workers - 1)), (self._other, 0)):
                    control.options = each
                    control.value = value

    def follow(self, name: str) -> None:
        """Select `name` as soon as there is such a register: the selected one is being renamed."""
        self._chosen.follow(name)

    def choose(self, name: str, face: str, workers: Sequence[int]) -> None:
        """Select `name`, an offered register or a part of one, and a face; see `Inspector.look_at`."""
        register, written = split(name)
        self.part.follow(written)
        self._chosen.choose(register)
        with self._changes.of_ours():
            self.face.value = next(name for name, each in FACES.items() if each.option == face)
            self._given = bool(workers)
            if workers:
                self._worker.value = self._one.value = workers[0]
                self._other.value = workers[-1]
        self._changes()

    @property
    def drawn(self) -> str:
        """The name of the drawn register or part."""
        return self.row.name if self.row is not None else ""

    @property
    def html(self) -> str:
        """The current picture as HTML."""
        return str(self._picture.value)

    def freeze(self) -> None:
        """Keep what is drawn, and hide the controls until the next `draw`: there is no session to ask."""
        if self._long.stop():
            self._show("<div>the session ended before all elements were read</div>")
        self._older.value = _OLD
        show((*self._rows, self._slices.box), shown=False)

    def clear(self) -> None:
        """Draw nothing."""
        self._long.stop()
        self.row = None
        self._arrange()
        self._show("")

    def draw(self, session: Session, row: Row | None, *, asked: bool) -> None:
        """Show the current state of the selected register.

        Args:
            session: the session of the register.
            row: the register's row; None if it is gone, or none is selected.
            asked: whether the user asked for it; only then all elements of large arrays are read again.
        """
        self._arrange()
        if row is None:
            self.clear()
            return
        row = self.row = self.part.chosen(session, row)
        shape = next((info.shape for info in row.present if info.shape is not None), ())
        self._slices.fit(shape)
        if row.name != self._drawn:
            self._suggest(row)
        choice = self._choice()
        key = (session.life, row.name, self.face.value, choice)
        if not asked and key == self._long_key:
            self._older.layout.display = None if session.ledger.seq != self._read_at else "none"
            return
        self._older.layout.display = "none"
        self._read_at = session.ledger.seq
        self._long.stop()
        make = self._long_look(session, row, choice)
        self._long_key = None if make is None else key
        if make is not None:
            self._long.start(make)
            return
        drawn = FACES[self.face.value].draw(session, row, choice, self._watch)
        if not session.closed:  # else it ended meanwhile, and the picture before shows more
            self._show(drawn)

    def _long_look(self, session: Session, row: Row, choice: Choice) -> Callable[[Share], str] | None:
        """What makes the picture in a thread, because it may take long; None: it is drawn at once."""
        exactly, self._exact_asked = self._exact_asked, False
        face, one = self.face.value, row.cells[choice.one] if choice.one < len(row.cells) else None
        if face == "Summary" and exactly:
            return lambda share: exact(session, row, share)
        if face == "Values" and one is not None and one.shape is None:
            return lambda _: represented(session, row, choice.one)  # runs code of the value, only on request
        if face == "Difference" and largest(row) > AT_ONCE:
            return lambda share: difference(session, row, choice, self._watch, share)
        return None

    def close(self) -> None:
        """End a look in progress."""
        self._long.stop()

    def _on_exact(self, _: widgets.Button) -> None:
        self._exact_asked = True  # `draw` starts it, with the inspector's lock
        self._changes()

    def _show(self, html: str) -> None:
        self._picture.value = html

    def _choice(self) -> Choice:
        return Choice(
            worker=None if self._worker.value == _ALL else self._worker.value,
            one=self._one.value or 0,
            other=self._other.value or 0,
            symmetric=_SCALES[self._scale.value],
            measure=self._measure.value,
            window=self._slices.window(),
        )

    def _suggest(self, row: Row) -> None:
        """Select the workers to compare: one that differs and one it should agree with; else 0 and 1."""
        self._drawn = row.name
        pair = row.pair() if any(row.odd()) else None
        if self._given:
            self._given = False
        elif len(row.cells) > 1:
            with self._changes.of_ours():
                self._other.value, self._one.value = pair or (1, 0)

    def _arrange(self) -> None:
        show(self._rows, shown=True)
        show((self._below,), shown=bool(self.name))
        self._older.value = _OLDER
        asked = FACES[self.face.value].asks
        for name, control in self._controls.items():
            show((control,), shown=name in asked)


_OLD: Final = '<div role="status">commands were sent since this was read</div>'
_OLDER: Final = _OLD.replace("</div>", "; Refresh reads it again</div>")
