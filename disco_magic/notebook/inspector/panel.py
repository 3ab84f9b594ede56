"""``%disco registers``: the inspector as one widget that stays up to date."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from disco_magic.core.doctor import Diagnosis
from disco_magic.core.register_parts import MOST_PARTS
from disco_magic.core.snapshot import SessionSnapshot
from disco_magic.errors import DiscoError, UnknownName
from disco_magic.notebook.inspector.actions import ActionBar, Remark
from disco_magic.notebook.inspector.detail import Detail
from disco_magic.notebook.inspector.faces import parts_of
from disco_magic.notebook.inspector.holders import holders
from disco_magic.notebook.inspector.table import DOT, status, table_html
from disco_magic.notebook.inspector.toolbar import Toolbar
from disco_magic.notebook.inspector.view import FEW_NBYTES
from disco_magic.notebook.inspector.watch import Watch
from disco_magic.notebook.live.controls import wrapped
from disco_magic.notebook.live.views import LiveView, answer_while_busy, everything_in
from disco_magic.notebook.pictures.kept import kept
from disco_magic.notebook.tables.registers import listing_bundle, row_bundle
from disco_magic.notebook.tables.reports import diagnosis_html
from disco_magic.values.describe import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disco_magic.core.snapshot import RegisterInfo, Row
    from disco_magic.notebook.front import Front
    from disco_magic.notebook.inspector.actions import Act
    from disco_magic.session.session import Session

FEW: Final = 400
FEW_ITEMS: Final = 10_000
"""Up to so many values, with so many items in containers, all elements are read, if the values had at most
`FEW_NBYTES` in all at the last look."""

MOST_ROWS: Final = MOST_PARTS
LEAST: Final = 512
MOST: Final = 65_536
BUDGET: Final = 1 << 20
"""Elements that one look reads in all; it is divided among the values, within the least and the most."""


class Inspector(LiveView):
    """A table of registers that stays up to date, and a closer look at one of them.

    Args:
        front: the notebook's side, whose refresher keeps the inspector up to date until `close`; it shows
            whatever session is the current one.

    Attributes:
        snapshot: the registers at the last look.
        live: whether it looks again every second.
        is_busy: whether workers were executing something at the last look.

    Threads: refreshes come in the refresher's. Errors are shown here, never raised into a user's cell.
    Cost of a refresh: 15 us per register and worker, and 6 to 20 ns per element that is read (see `BUDGET`).
    """

    def __init__(self, front: Front) -> None:
        super().__init__(widgets.VBox())
        self._front = front
        self._refresher = front.refresher
        self._remark = Remark(front)
        self._watch = Watch()
        self._noted = -1
        self.live = self.is_busy = False
        self._held: dict[str, str] = {}
        self._diagnosis = Diagnosis(0, ())
        self.snapshot = SessionSnapshot(0, 0, ())
        self._toolbar = Toolbar(lambda: self._redraw(asked=False))  # it selects rows; nothing is read again
        self._detail = Detail(lambda: self._redraw(asked=True), self._watch)
        self._actions = ActionBar(front, self._act, self._watch, self._detail.follow)
        self._head, self._doctor, self._table = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._message = widgets.HTML()
        self._toolbar.refresh.on_click(lambda _: self._refresh(asked=True))
        self._toolbar.live.observe(self._on_live, "value")
        tools = wrapped([*self._toolbar.controls, *self._actions.of_workers])
        self._all = widgets.VBox([tools, self._table])
        self._one = widgets.VBox([self._detail.box, self._actions.of_register, self._message])
        self._hiding = widgets.HTML(self.hiding)
        self._arrange(self._all, self._one)
        self.widget.add_class("disco-inspector-panel")
        answer_while_busy(everything_in(self.widget))
        self.refresh()
        self._refresher.add(self)

    def refresh(self) -> None:
        """Look at the session and show its current state."""
        self._refresh(asked=False)

    def cell_ended(self) -> None:
        """Note the statistics of watched registers, before the next cell changes them."""
        with self._complaining():
            session = self._front.sessions.find()
            if session is None or not self._watch.names:
                return
            if session.ledger.seq == self._noted:
                return  # nothing was sent: a plain cell, or a click, which IPython takes for one
            self._noted = session.ledger.seq
            label = f"[{self._front.shell.execution_count - 1}]"
            for name in tuple(self._watch.names):
                self._watch.note(name, label, _held(session, name))

    def look_at(self, name: str | None, face: str, workers: Sequence[int] = ()) -> None:
        """Select a register and a face."""
        with self._lock:
            if name:
                self._arrange(self._one, self._all)  # the selected register on top, without scrolling
            self._detail.choose(name or "", face, workers)

    def set_live(self, live: bool) -> None:  # noqa: FBT001 - what the switch says
        """Look again every second, or only after cells and now and then within long ones."""
        self._toolbar.live.value = live

    def close(self) -> None:
        """Close all its comms and threads. Idempotent."""
        with self._lock:
            self._refresher.remove(self)
            self._detail.close()
            super().close()

    def _still(self) -> dict[str, str]:
        row = self._detail.row
        listing = listing_bundle(self.snapshot, self._shown(), self._held, self._places())
        bundle = listing if row is None else row_bundle(row)
        bundle["text/html"] += kept(self._detail.html)
        if row is not None and (session := self._front.sessions.find()) is not None:
            with suppress(DiscoError):  # it may be gone: the row is what was seen last
                bundle["text/plain"] = repr(parts_of(session, row) or row)
        if self._detail.face.value != "Summary":
            bundle["text/plain"] += f"\n({self._detail.face.value}: shown where there is HTML)"
        return bundle

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self.snapshot.rows)} registers"
        return f"<Inspector of Disco session {self.snapshot.session_id}: {state}>"

    def _arrange(self, *parts: widgets.VBox) -> None:
        """Set the order of the table and the closer look, from the top.

        What the workers do is last: it comes and goes with each cell, and would move what somebody looks at.
        """
        self.widget.children = (self._head, *parts, self._doctor, self._hiding)

    # --- drawing ---------------------------------------------------------------------------------------

    def _refresh(self, *, asked: bool) -> None:
        with self._lock, self._complaining():
            if not self._closed:
                self._remark.fade(asked=asked)
                self._look()
                self._draw(asked=asked)

    def _look(self) -> None:
        session = self._front.sessions.find()
        if session is None:  # keep the last state, which the user may still read
            self.is_busy = False
        else:
            self._diagnosis = session.doctor()  # before anything is sent to the workers, which would show
            self.is_busy = any(position.state != "idle" for position in self._diagnosis.positions)
            self._held = holders(session, self._front.shell.user_ns)
            known = max(len(session.names()) + session.ledger.live_registers, len(self.snapshot.rows))
            values = max(1, known * session.num_workers)  # without what a running cell has bound since
            few = values <= FEW and sum(self.snapshot.nbytes) <= FEW_NBYTES
            items = sum(cell.items or 0 for row in self.snapshot.rows for cell in row.present)
            few = few and items <= FEW_ITEMS
            sample = None if few else min(MOST, max(LEAST, BUDGET // values))
            snapshot = session.registers(numbered=self._toolbar.numbered.value, sample=sample)
            if session.closed:  # meanwhile: the look before is the last one of all its registers
                return
            rows = [row for row in snapshot.rows if not row.name.startswith("#") or self._is_worth_it(row)]
            self.snapshot = replace(snapshot, rows=tuple(rows))

    def _is_worth_it(self, numbered: Row) -> bool:
        """Not if nothing refers to it, so that the workers will drop it soon, or if it is None everywhere.

        The results of functions and of failed cells are that: nothing to look at.
        """
        return numbered.name in self._held and not numbered.is_none

    def _draw(self, *, asked: bool) -> None:
        session, snapshot = self._front.sessions.find(), self.snapshot
        rows = self._shown()
        self._toolbar.offer(snapshot, asking=session is not None)
        if session is None:
            self._head.value = f"<i>{_ended(snapshot)}</i>"
            self._doctor.value = ""
            self._detail.freeze()  # with the picture that was drawn last
            self._actions.freeze()
        else:
            self._detail.offer(snapshot.rows, snapshot.num_workers)
            told = self.is_busy or self._diagnosis.given_up  # "idle" would stay there as the next cell runs
            self._head.value = _head(session, snapshot, len(rows), self._diagnosis if told else None)
            self._doctor.value = diagnosis_html(self._diagnosis) if self.is_busy else ""
        table = table_html(
            rows[:MOST_ROWS],
            self._toolbar.columns,
            snapshot.nbytes,
            rest=f"and {len(rows) - MOST_ROWS:,} more; search for a name" if len(rows) > MOST_ROWS else "",
            selected=self._detail.name,
            pinned=frozenset(self._actions.pinned),
            held=self._held,
            places=self._places(),
        )
        self._table.value = table if snapshot.num_workers else ""
        if session is not None:
            self._detail.draw(session, snapshot.find(self._detail.name), asked=asked)
            self._actions.offer(self._detail.name, snapshot.num_workers, self._detail.drawn)

    def _places(self) -> Sequence[str]:
        session = self._front.sessions.find()
        return session.mesh.places() if session is not None and session.mesh else ()

    def _shown(self) -> list[Row]:
        return self._toolbar.view(frozenset(self._actions.pinned)).rows(self.snapshot)

    def _redraw(self, *, asked: bool) -> None:
        """Draw the last state again, after the user has changed a control."""
        with self._lock, self._complaining():
            if not self._closed:
                self._remark.fade(asked=asked)
                self._draw(asked=asked)

    def _act(self, act: Act) -> None:
        """Perform the action of a button, and look again."""
        # Without the lock, so that Stop does not wait for a table that is drawn beside busy workers.
        try:
            said = act(self._front.sessions.require(), self._detail.name)
        except Exception as error:  # noqa: BLE001 - as in _complaining
            said = _in_words(error)
        with self._lock:
            self._remark.make(said)
        self._refresh(asked=False)
        self._refresher.soon()  # when the workers have executed it

    def _on_live(self, change: dict[str, Any]) -> None:
        self.live = bool(change["new"])
        self._refresher.changed()

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        """Show errors of this block instead of raising them, until one succeeds.

        A traceback would not be seen: this runs in a click's thread, or in the refresher's, which must go on.
        """
        complaint = ""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - even a bug of ours should be shown and end nothing
            complaint = _in_words(error)
        said = [f"<div>{escape(text)}</div>" for text in (self._remark.text, complaint) if text]
        self._message.value = f'<div role="status">{"".join(said)}</div>' if said else ""


def _in_words(error: Exception) -> str:
    said = str(error) if isinstance(error, DiscoError) else f"{type(error).__name__}: {error}".rstrip(": ")
    return f"\u26a0 {said}"


def _held(session: Session, name: str) -> list[RegisterInfo | None]:
    """A watched register on every worker; None if it is unbound, which makes a gap in its lines."""
    try:
        return session.examine(name, describe)
    except UnknownName:
        return [None] * session.num_workers


def _ended(snapshot: SessionSnapshot) -> str:
    if not snapshot.num_workers:
        return "no session is running; %disco start makes one"
    ended = f"session {snapshot.session_id} has ended; its registers as last seen"
    return f"{ended}. %disco start makes a new one"


def _head(session: Session, snapshot: SessionSnapshot, shown: int, diagnosis: Diagnosis | None) -> str:
    said = [f"<b>{escape(repr(session))}</b>", escape(status(snapshot, shown))]
    if diagnosis is not None:
        said.append(escape(diagnosis.sentence))
    return DOT.join(said)
