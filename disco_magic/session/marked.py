"""Which workers are meant to agree on what is marked as equal along axes of the mesh, as looks tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.core.registers import register_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disco_magic.core.circles import Workers
    from disco_magic.core.mesh import Mesh

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
    around = [name for name in circles if name == label or label.startswith((f"{name}.", f"{name}["))]
    return circles[max(around, key=len)] if around else ()


def parts_apart(circles: Circles) -> Iterator[str]:
    """Marked parts of which the comparison of their register says nothing: others have to agree on them."""
    for label, workers in circles.items():
        if label != register_of(label) and workers != circles.get(register_of(label), ()):
            yield label
