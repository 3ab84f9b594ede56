"""Kinds of sessions that the matrix is tried with: a row each."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disco_magic.session.config import ThreadedSession
from disco_magic.testing.doubles import Gate
from tests.faults.ways import ITS_OWN, WAYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.session.session import Session


@dataclass(frozen=True)
class Kind:
    """One kind of session.

    Attributes:
        name: the session's own word for it.
        start: starts one with so many workers.
        survives: ways of failing that it survives; the others are not tried with it.
        gate: makes what stops a worker of it at a point.
        meeting: how many of its workers wait in a collective.
        is_error: ``is_error(seen, raised)``: whether what the controller sees is what a worker raised.
    """

    name: str
    start: Callable[[int], Session]
    survives: frozenset[str]
    meeting: Callable[[Session], int]
    gate: Callable[[], Gate] = Gate
    is_error: Callable[[object, object], bool] = operator.is_


# A thread that calls os._exit or has a segmentation fault ends the notebook's own process: no session of
# threads can survive that. Both become ways with the first kind whose workers are processes.
KINDS = {
    "threads": Kind(
        "threads",
        ThreadedSession,
        survives=frozenset(WAYS) | {ITS_OWN},
        meeting=lambda session: len(session._launcher.plane.waiting),
    )
}
