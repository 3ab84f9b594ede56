"""Whom a waiting worker can hope for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def hopes(wait: Any, left: Sequence[int]) -> list[int]:
    """The missing workers of a plane's wait that can still come."""
    return [worker for worker in wait.missing() if left[worker] < wait.scope]
