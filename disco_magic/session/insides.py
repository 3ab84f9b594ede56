"""What is in one register on all workers, part by part, and in what two workers' values differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.core.snapshot import RegisterParts, Row
from disco_magic.functions import lookalikes
from disco_magic.functions.describe import describe
from disco_magic.functions.insides import MOST, describe_inside
from disco_magic.phrases import ranges
from disco_magic.session.marked import innermost

if TYPE_CHECKING:
    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.session.dref import DRef
    from disco_magic.session.looks import Looks

# Parts of which is said how they differ, and bytes of such a part.
_TOLD: Final = 4
_NBYTES: Final = 4 << 20


def parts_of(session: Looks, register: str, sample: int) -> RegisterParts:
    """See `Looks.look_into`."""
    circles = session.circles_of_marks()

    def row(label: str, cells: tuple[RegisterInfo | None, ...]) -> Row:
        return Row(label, cells, circles=innermost(circles, label))

    columns = [dict(parts or ()) for parts in session.examine(register, describe_inside, sample)]
    rows = tuple(
        row(f"{register}{written}", tuple(column.get(written) for column in columns))
        for written in dict.fromkeys(written for column in columns for written in column)
    )
    whole = row(register, tuple(session.examine(register, describe, sample)))
    differing = [each for each in rows if each.differs][:_TOLD]
    gaps = {each.name: gap for each in differing if (gap := _gap(session, each))}
    return RegisterParts(whole, rows, all(len(column) < MOST for column in columns), gaps)


def _gap(session: Looks, row: Row) -> str:
    """In what the first worker that holds another value than most does so; "" if that is not known."""
    pair = _pair(row)
    if pair is None or max(info.nbytes for info in row.cells if info is not None) > _NBYTES:
        return ""
    why = told_apart(session, row.name, *pair)
    return f"{ranges(pair[1:])} {why}" if why else ""


def _pair(row: Row) -> tuple[int, int] | None:
    """A worker that holds what most do, and one that does not; None where each holds something else."""
    odd = row.odd()
    for circle in row.circles or (tuple(range(len(odd))),):
        usual = [worker for worker in circle if not odd[worker]]
        others = [worker for worker in circle if odd[worker]]
        if usual and others:
            return usual[0], others[0]
    return None


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
