"""Marks of registers in completions, as in the tables of registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.core.markup import MARK
from disco_magic.core.snapshot import merge
from disco_magic.phrases import ranges
from disco_magic.values.members import registers_among

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disco_magic.core.snapshot import Row
    from disco_magic.session.session import Session

REGISTER: Final = "register"
MOST: Final = 10_000
SPACE: Final = "\u00a0"  # no-break: JupyterLab would wrap at an ordinary one


def marks(session: Session, names: Iterable[str]) -> dict[str, str]:
    """``register``, ``register ≠`` or ``register [0,2]`` for those of `names` that are registers.

    The sign means that types, shapes, dtypes or kinds of device differ. Workers are listed if others have no
    such register. Values are not compared. Waits for no worker. Of more than `MOST` values none are marked:
    JupyterLab drops completions that take a second.
    """
    chosen = tuple(names)
    if len(chosen) * session.num_workers > MOST:
        return dict.fromkeys(chosen, REGISTER)
    found = session.examine_names(registers_among, chosen)
    return {row.name: _mark(row) for row in merge(session.id, found, session.circles_of_marks()).rows}


def _mark(row: Row) -> str:
    holders = [worker for worker, cell in enumerate(row.cells) if cell is not None]
    there = row.of(holders)
    missing = ranges(holders) if len(holders) < len(row.cells) else ""
    return SPACE.join(part for part in (REGISTER, missing, MARK if there.differs else "") if part)
