"""Looks at registers that are marked as equal, and who has to agree on them; and at one part by part."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from disco_magic.core.register_parts import RegisterParts
from disco_magic.core.registers import nearest, register_of
from disco_magic.core.snapshot import Row
from disco_magic.errors import UnknownName
from disco_magic.phrases import ranges
from disco_magic.session.apart import told_apart
from disco_magic.values.describe import affordable_sample, describe
from disco_magic.values.part_lists import MOST, PartList, list_parts
from disco_magic.values.parts import as_listed, describe_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from disco_magic.core.circles import Workers
    from disco_magic.core.mesh import Mesh
    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.session.looks import Looks

    Circles = Mapping[str, tuple[Workers, ...]]


def circles_of(marks: Sequence[Mapping[str, tuple[str, ...]]], mesh: Mesh) -> dict[str, tuple[Workers, ...]]:
    """Map registers and parts that all workers marked alike to those that have to agree; (): all workers.

    Args:
        marks: per worker, register or part -> the axes along which it is equal; none: on all workers.
        mesh: the session's; without axes, all have to agree on everything.
    """
    found: dict[str, tuple[Workers, ...]] = {}
    for name in dict.fromkeys(name for each in marks for name in each) if mesh else ():
        (axes, *others) = {each[name] for each in marks if name in each}
        if not others:
            found[name] = mesh.groups(*axes) if axes else ()
    return found


def innermost(circles: Circles, label: str) -> tuple[Workers, ...]:
    """The workers that have to agree on a register or part: by its own mark, or its closest marked parent."""
    marked = nearest(label, circles)
    return () if marked is None else circles[marked]


def row_of(label: str, cells: Iterable[RegisterInfo | None], circles: Circles) -> Row:
    """The row of a register or part, with the workers that have to agree on it."""
    return Row(label, tuple(cells), circles=innermost(circles, label))


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
        circles: see `circles_of`.
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
    labels = tuple(islice(union, MOST))
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
