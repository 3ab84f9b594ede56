"""What one worker wrote during a cell, for `CellResult.stdout`; of bounded size."""

from __future__ import annotations

from collections import deque

LIMIT = 1 << 20
"""Characters kept per worker and cell: of a longer text, the first half of this, and at least the last."""


class Transcript:
    """The text of one worker. The middle of a long text is dropped, which a line in its place says.

    Keeps the first half of `limit` and at least the last. Not locked: its writer holds a lock.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._half = limit // 2
        self._head: list[str] = []
        self._head_size = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._dropped = 0

    def add(self, text: str) -> None:
        """Append `text`."""
        room = self._half - self._head_size
        if room > 0:
            self._head.append(text[:room])
            self._head_size += len(self._head[-1])
            text = text[room:]
        if text:
            self._tail.append(text)
            self._tail_size += len(text)
            self._shrink()

    def _shrink(self) -> None:
        """Drop whole pieces from the front of the tail, then cut the next one if it is too long."""
        while self._tail_size - len(self._tail[0]) >= self._half:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._dropped += gone
        surplus = self._tail_size - 2 * self._half
        if surplus > 0:
            self._tail[0] = self._tail[0][surplus:]
            self._tail_size -= surplus
            self._dropped += surplus

    @property
    def text(self) -> str:
        """Everything that was kept."""
        gap = f"\n... {self._dropped:,} characters left out ...\n" if self._dropped else ""
        return "".join(self._head) + gap + "".join(self._tail)
