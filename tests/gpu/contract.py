"""The plane's contract in processes of its own, because a check that hangs must not take the others along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.testing import PLANE_CHECKS
from tests.gpu.machine import QUICK

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.apart import Outcome

NAMES = [check.__name__ for check in PLANE_CHECKS if not (QUICK and "agree_with" in check.__name__)]
MOST_HANGS = 3


def kept(play: Callable[..., Outcome]) -> dict[str, str | None]:
    """What is wrong, by check; None if nothing is. ``play(*done)`` runs all checks but those."""
    found: dict[str, str | None] = {
        check.__name__: None for check in PLANE_CHECKS if check.__name__ not in NAMES
    }
    for _ in range(MOST_HANGS):
        outcome = play(*found)
        found |= {note["check"]: note["wrong"] for note in outcome.notes if "check" in note}
        if any("ended" in note for note in outcome.notes):
            break
        missing = [name for name in NAMES if name not in found]
        if missing:
            found[missing[0]] = (
                f"hangs, or ends its process (status {outcome.status}):\n{outcome.text[-4000:]}"
            )
    return found
