"""Which workers have to agree on registers that are marked as equal along axes of the mesh, for looks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from disco_magic.core.registers import nearest, register_of
from disco_magic.core.snapshot import Row
from disco_magic.errors import UnknownName
from disco_magic.values.parts import describe_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from disco_magic.core.circles import Workers
    from disco_magic.core.mesh import Mesh
    from disco_magic.core.snapshot import RegisterInfo

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
    """The rows of parts of a register.

    Args:
        register: its name.
        written: the parts, as they are written after the name.
        columns: what each worker has of them; None: it has no such register.
        circles: see `circles_of`.
    """
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
