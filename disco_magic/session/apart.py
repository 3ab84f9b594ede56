"""Describe how a register's values differ between two workers, without a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.values import lookalikes

if TYPE_CHECKING:
    from disco_magic.session.dref import DRef
    from disco_magic.session.looks import Looks


def told_apart(session: Looks, register: str | DRef, first: int, other: int) -> str:
    """Say how a register differs between two workers, see `lookalikes.why_apart`; "" if that is not possible.

    The value may be gone, odd, or still being computed. That it differs is known already, and an error in
    explaining the difference must not hide that.
    """
    whose, pair = f"worker {first}'s", (first, other)
    try:
        return session.examine_pair(register, lookalikes.why_apart, whose, workers=pair) or ""
    except Exception:  # noqa: BLE001 - see above
        return ""
