"""Rows of parts of registers: of those that are marked and differ, and of all parts of one register."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from disco_magic.core.register_parts import RegisterParts
from disco_magic.core.registers import register_of
from disco_magic.core.snapshot import Row
from disco_magic.errors import UnknownName
from disco_magic.phrases import ranges
from disco_magic.session.apart import told_apart
from disco_magic.session.marked import innermost
from disco_magic.values.describe import affordable_sample, describe
from disco_magic.values.parts import MOST_PARTS, PartList, as_listed, describe_parts, list_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.session.looks import Looks
    from disco_magic.session.marked import Circles


def row_of(label: str, cells: Iterable[RegisterInfo | None], circles: Circles) -> Row:
    """The row of a register or part, with the workers that have to agree on it."""
    cells = tuple(cells)
    return Row(label, cells, circles=innermost(circles, label, cells))


def rows_of(
    register: str,
    written: Sequence[str],
    columns: Iterable[Sequence[RegisterInfo | None] | None],
    circles: Circles,
) -> list[Row]:
    """The rows of parts of a register."""
    there = [[None] * len(written) if each is None else each for each in columns]
    cells = zip(*there, strict=True)
    return [row_of(f"{register}{part}", each, circles) for part, each in zip(written, cells, strict=True)]


def drifted(
    examine: Callable[..., list[list[RegisterInfo | None] | None]], circles: Circles, sample: int
) -> tuple[Row, ...]:
    """Rows of marked parts that differ, where other workers have to agree on the part than on its register.

    Args:
        examine: the session's; called once per register, however many of its parts are marked.
        circles: see `marked.circles_of`.
        sample: as for `describe`.
    """
    wanted: dict[str, list[str]] = {}
    for label, workers in circles.items():
        register = register_of(label)
        if label != register and workers != circles.get(register, ()):
            wanted.setdefault(register, []).append(label)
    rows = []
    for register, labels in wanted.items():
        written = tuple(label.removeprefix(register) for label in labels)
        with suppress(UnknownName):  # no longer bound
            rows += rows_of(register, written, examine(register, describe_parts, written, sample), circles)
    return tuple(row for row in rows if row.differs)


# Up to this many differing parts are explained, if they have at most this many bytes.
_TOLD: Final = 4
_NBYTES: Final = 4 << 20
_EMPTY: Final = PartList({}, is_all=True)


def described_parts(session: Looks, register: str, sample: int | None) -> RegisterParts:
    """See `Looks.look_into`."""
    register = as_listed(register)
    circles = session.circles_of_marks()
    lists = [each or _EMPTY for each in session.examine(register, list_parts)]
    if sample is None:
        headers = [info for each in lists for info in each.parts.values()]
        sample = affordable_sample([*headers, *filter(None, session.examine(register, describe, 0))])
    # Ask all workers for the same parts: a part that one of them lists in another place is not missing.
    union = dict.fromkeys(written for each in lists for written in each.parts)
    labels = tuple(islice(union, MOST_PARTS))
    columns = session.examine(register, describe_parts, labels, sample) if labels else []
    rows = rows_of(register, labels, columns, circles)
    is_all = len(labels) == len(union) and all(each.is_all for each in lists)
    whole = row_of(register, session.examine(register, describe, sample), circles)
    seen = is_all and all(each.compared and not each.differs for each in rows)
    if seen and any(each.circles for each in rows):
        # Marked parts need not agree between all workers, so neither does the whole register.
        whole = replace(whole, circles=tuple((worker,) for worker in range(len(whole.cells))))
    differing = islice((each for each in rows or [whole] if each.differs), _TOLD)
    gaps = {each.name: gap for each in differing if (gap := _gap(session, each))}
    return RegisterParts(whole, tuple(rows), is_all, gaps)


def _gap(session: Looks, row: Row) -> str:
    """Say how the first worker that differs from the majority differs; "" if that is not known."""
    pair = row.pair()
    if pair is None or max(info.nbytes for info in row.present) > _NBYTES:
        return ""
    why = told_apart(session, row.name, *pair)
    return f"{ranges(pair[1:])} {why}" if why else ""
