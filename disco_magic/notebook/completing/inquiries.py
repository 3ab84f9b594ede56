"""Questions of cells about names, ``x?``: noted on the workers, answered when the cell has ended."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

_MOST: Final = 1000
DETAILS: Final = {"pinfo": 0, "pinfo2": 1, "psearch": 0}
"""The magics for ``x?``, ``x??`` and ``x*?``, and the level of detail that each asks for."""


def is_question(magic: str, line: str) -> bool:
    """Whether ``%magic line`` asks for a name; ``%psearch -c name`` has options, which are not known here."""
    return magic in DETAILS and " " not in line.strip()


class Inquiry(NamedTuple):
    """One question.

    Attributes:
        name: a dotted name, ``model.weight``, or a pattern for names, ``model.w*``.
        detail: 1 includes the source.
    """

    name: str
    detail: int


class Inquiries:
    """The unanswered questions of all sessions; any thread may ask."""

    def __init__(self) -> None:
        self._asked: deque[tuple[int, int, Inquiry]] = deque(maxlen=_MOST)

    def ask(self, session_id: int, worker: int, inquiry: Inquiry) -> None:
        """Note a question of a cell on one worker."""
        self._asked.append((session_id, worker, inquiry))

    def __bool__(self) -> bool:
        return bool(self._asked)

    def take(self, session_id: int) -> dict[Inquiry, list[int]]:
        """Remove and return a session's questions: each once, with the workers that ask it."""
        found: dict[Inquiry, list[int]] = {}
        others = []
        while self._asked:
            asked = self._asked.popleft()
            if asked[0] == session_id:
                found.setdefault(asked[2], []).append(asked[1])
            else:
                others.append(asked)
        self._asked.extend(others)
        return {inquiry: sorted(workers) for inquiry, workers in found.items()}


INQUIRIES: Final = Inquiries()
