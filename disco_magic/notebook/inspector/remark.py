"""What an inspector says of the last action, as long as that is about something that is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disco_magic.notebook.front import Front


class Remark:
    """A sentence that fades."""

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
