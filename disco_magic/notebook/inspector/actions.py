"""The buttons of an inspector, for actions on the selected register, and what it says of the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.notebook.inspector.acts import Acts
from disco_magic.notebook.live.controls import button, dropdown, show, text, worker_options, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    import ipywidgets as widgets

    from disco_magic.notebook.front import Front
    from disco_magic.notebook.inspector.watch import Watch
    from disco_magic.session.session import Session

    # Performs a button's action on the session's register of that name; returns a sentence.
    Act = Callable[[Session, str], str]

_EVERYBODY: Final = -1
_DELETE: Final = "Delete"


class ActionBar:
    """Buttons."""

    def __init__(
        self,
        front: Front,
        perform: Callable[[Act], None],
        watch: Watch,
        follow: Callable[[str], None],
    ) -> None:
        self._acts = Acts(front)
        self._perform = perform
        self._watch = watch
        self._follow = follow
        self._name = self._drawn = ""
        self._workers = 0
        self.pinned: set[str] = set()
        self._source = dropdown("value of", worker_options(1))
        self._text = text("as", "12em", placeholder="new name")
        self._notebook = button("To notebook", "copy it into the notebook variable named on the left")
        self._worker_0 = button("To worker 0", "copy it into this register on worker 0")
        self._broadcast = button("To all workers", "copy it into this register on every worker")
        self._rename = button("Rename", "give the register the name on the left")
        self._delete = button(_DELETE, "unbind the name on every worker")
        self._pin = button("Pin", "keep it on top of the table, whatever is searched for")
        self._watched = button("Watch", "note its statistics after every cell: see Over cells")
        self._victims = dropdown("stop", [("all workers", _EVERYBODY)])
        self._stop = button("Stop", "interrupt what they execute", button_style="danger")
        self._connect()
        self.of_register = wrapped(
            [
                self._source,
                self._text,
                self._notebook,
                self._rename,
                self._worker_0,
                self._broadcast,
                self._delete,
                self._pin,
                self._watched,
            ]
        )
        self.of_workers = (self._victims, self._stop)
        self.offer("", 0)

    def offer(self, name: str, num_workers: int, drawn: str = "") -> None:
        """Set the selected register, the number of workers, and the part that is drawn, to be watched."""
        if num_workers not in (0, self._workers):
            self._workers = num_workers
            each = worker_options(num_workers)
            self._source.options, self._source.value = each, 0
            self._victims.options = [("all workers", _EVERYBODY), *each]
            self._victims.value = _EVERYBODY
        if name != self._name:
            self._name = name
            self._text.value = "" if name.startswith("#") else name
            self._delete.description = _DELETE
        show((self.of_register,), shown=bool(name))
        show(self.of_workers, shown=True)
        self._pin.description = "Unpin" if name in self.pinned else "Pin"
        self._drawn = drawn
        self._watched.description = "Unwatch" if drawn in self._watch.names else "Watch"

    def freeze(self) -> None:
        """Hide all of it until the next `offer`: there are no workers to act on."""
        show((self.of_register, *self.of_workers), shown=False)

    def _connect(self) -> None:
        acts = self._acts
        table: dict[widgets.Button, Act] = {
            self._notebook: lambda session, name: acts.to_notebook(
                session, name, self._source.value, self._text.value.strip()
            ),
            self._worker_0: lambda session, name: acts.to_worker_0(session, name, self._source.value),
            self._broadcast: lambda session, name: acts.broadcast(session, name, self._source.value),
            self._rename: self._on_rename,
            self._delete: self._on_delete,
            self._pin: self._on_pin,
            self._watched: lambda *_: self._on_watch(self._drawn),
            self._stop: lambda session, _: acts.interrupt(session, self._chosen()),
        }
        for each, act in table.items():
            each.on_click(lambda _, act=act: self._perform(act))

    def _chosen(self) -> tuple[int, ...] | None:
        return None if self._victims.value == _EVERYBODY else (self._victims.value,)

    def _on_rename(self, session: Session, name: str) -> str:
        """Rename the register, and keep it pinned, watched and selected."""
        new = self._text.value.strip()
        said = self._acts.rename(session, name, new)
        if name in self.pinned:
            self.pinned.add(new)
        self._watch.rename(name, new)
        self._follow(new)
        return said

    def _on_delete(self, session: Session, name: str) -> str:
        """Delete the register at the second click, because it cannot be restored."""
        sure = f"Really delete {name}?"
        if self._delete.description != sure:
            self._delete.description = sure
            return f"click again to delete {name} on every worker"
        self._delete.description = _DELETE
        return self._acts.delete(session, name)

    def _on_pin(self, _: Session, name: str) -> str:
        self.pinned ^= {name}
        return f"{name} stays on top" if name in self.pinned else f"{name} is not pinned any more"

    def _on_watch(self, name: str) -> str:
        if name in self._watch.names:
            self._watch.remove(name)
            return f"{name} is not watched any more"
        self._watch.add(name)
        return f"the statistics of {name} are noted after every cell from now on: see Over cells"


class Remark:
    """What an inspector says of the last action, as long as that is about something that is still there."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self.text = ""
        self._then = self._now()

    def make(self, text: str) -> None:
        """Say that from now on."""
        self.text, self._then = text, self._now()

    def fade(self, *, asked: bool) -> None:
        """Let it fade in another life of the session, two cells later, or as the user asks for something."""
        (life, cell), (life_then, cell_then) = self._now(), self._then
        if asked or life is not life_then or cell > cell_then + 1:
            self.text = ""

    def _now(self) -> tuple[object, int]:
        session = self._front.sessions.find()
        return None if session is None else session.life, self._front.shell.execution_count
