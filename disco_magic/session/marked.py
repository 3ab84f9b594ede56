"""Which workers have to agree on registers and parts, by what is marked as equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.core.circles import circles_of_parts
from disco_magic.core.registers import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def innermost(circles: Circles, label: str, cells: Sequence[RegisterInfo | None]) -> tuple[Workers, ...]:
    """The workers that have to agree on a register or part: by its own mark, or its closest marked parent.

    Without a mark, if it is a tensor that is split over them, those that have the same part of it.
    """
    marked = nearest(label, circles)
    return circles_of_parts(cells) if marked is None else circles[marked]
