"""Whom a waiting worker can hope for, and what it has not received."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MOST: Final = 4
_LINES: Final = 10


def hopes(wait: Any, left: Sequence[int]) -> list[int]:
    """The missing workers of a plane's wait that can still come."""
    return [worker for worker in wait.missing() if left[worker] < wait.scope]


def unread_in(mail: Mapping[Any, Any], scope: int) -> tuple[str, ...]:
    """The first messages that a worker has not received in a command, in words, and how many more there are.

    From any thread, without a lock.

    Args:
        mail: of the worker, see `Plane.mail`.
        scope: the command.
    """
    if not mail:
        return ()
    # Copied first: other threads change both, and in CPython these copies are atomic.
    there = [message for key, box in list(mail.items()) if key[1] == scope for message in list(box)]
    more = [f"{len(there) - _MOST:,} more"] if len(there) > _MOST else []
    return (*(message.describe() for message in there[:_MOST]), *more)


def not_received(unread: Iterable[tuple[int, Sequence[str]]], yet: str = "") -> list[str]:
    """A line for each message that workers have not received, for as many as say enough."""
    lines = [f"not received{yet} by worker {worker}: {each}" for worker, those in unread for each in those]
    return [*lines[:_LINES], *["..."] * (len(lines) > _LINES)]
