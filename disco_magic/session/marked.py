"""Which workers are meant to agree on what is marked as equal along axes of the mesh, as looks tell it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from disco_magic.core.registers import nearest, register_of
from disco_magic.core.snapshot import Row
from disco_magic.errors import UnknownName
from disco_magic.values.parts import describe_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.core.circles import Workers
    from disco_magic.core.mesh import Mesh
    from disco_magic.core.snapshot import RegisterInfo

    Circles = Mapping[str, tuple[Workers, ...]]


def circles_of(marks: Sequence[Mapping[str, tuple[str, ...]]], mesh: Mesh) -> dict[str, tuple[Workers, ...]]:
    """Registers and parts that all workers have marked alike -> who has to agree; nobody named: all.

    Args:
        marks: per worker, register or part -> the axes along which it is equal; none: on all workers.
        mesh: the session's; without one all have to agree on everything.
    """
    found: dict[str, tuple[Workers, ...]] = {}
    for name in dict.fromkeys(name for each in marks for name in each) if mesh else ():
        (axes, *others) = {each[name] for each in marks if name in each}
        if not others:
            found[name] = mesh.groups(*axes) if axes else ()
    return found


def innermost(circles: Circles, label: str) -> tuple[Workers, ...]:
    """Who has to agree on a register or a part: by its own mark, or by that of the part around it."""
    marked = nearest(label, circles)
    return () if marked is None else circles[marked]


def drifted(
    examine: Callable[..., list[list[RegisterInfo | None] | None]], circles: Circles, sample: int
) -> tuple[Row, ...]:
    """Marked parts that differ, of which the comparison of their register says nothing: others have to agree.

    Args:
        examine: that of the session; asked once per register, whatever number of its parts is marked.
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
        with suppress(UnknownName):  # it is not bound any more
            found = examine(register, describe_parts, written, sample)
            columns = [[None] * len(labels) if each is None else each for each in found]
            rows += [
                Row(label, cells, circles=innermost(circles, label))
                for label, cells in zip(labels, zip(*columns, strict=True), strict=True)
            ]
    return tuple(row for row in rows if row.differs)
