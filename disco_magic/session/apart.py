"""In what a register differs between two workers, looked at from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.values import lookalikes

if TYPE_CHECKING:
    from disco_magic.session.dref import DRef
    from disco_magic.session.looks import Looks


def told_apart(session: Looks, register: str | DRef, first: int, other: int) -> str:
    """In what a register differs between two workers, see `lookalikes.why_apart`; "" if that cannot be told.

    It is gone, elements are computed still, or it is odd: what this explains is known already, and an
    explanation must not take its place.
    """
    whose, pair = f"worker {first}'s", (first, other)
    try:
        return session.examine_pair(register, lookalikes.why_apart, whose, workers=pair) or ""
    except Exception:  # noqa: BLE001 - see above
        return ""
