"""Which workers have to agree with each other: all, those of a group, or those along axes of a mesh."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from disco_magic.core.mesh import Mesh
    from disco_magic.core.snapshot import RegisterInfo

Workers = tuple[int, ...]
_COORDINATE: Final = re.compile(r"(?:axis |group )?\S+")  # ``tp=1``, ``axis 0=1`` of a mesh without names


@dataclass(frozen=True, slots=True)
class Circles:
    """Sets of workers that have to agree with each other.

    Attributes:
        workers: the workers of each circle.
        places: a name for each, ``"group 1"`` or ``"tp=1"``; ``""`` or no names if there is only one circle.
        over: the axes of the mesh along which the workers of a circle differ, in words: ``"dp"``; or ``""``.
    """

    workers: tuple[Workers, ...]
    places: tuple[str, ...] = ()
    over: str = ""

    @classmethod
    def among(
        cls, workers: Workers, circles: Iterable[Workers], places: Iterable[str], over: str = ""
    ) -> Self:
        """Make these circles, restricted to `workers`."""
        return cls(tuple(circles), tuple(places), over).within(cls((workers,)))

    @classmethod
    def along(cls, mesh: Mesh, axes: tuple[str, ...], workers: Workers) -> Self:
        """Make the circles of those `workers` that differ along these axes of the mesh only."""
        groups, places = mesh.groups(*axes), mesh.places(*axes)
        return cls.among(workers, groups, places, ", ".join(axes) if len(groups) > 1 else "")

    @classmethod
    def of_marks(
        cls, marked: Mapping[str, tuple[str, ...]], mesh: Mesh, workers: Workers, asked: Self | None
    ) -> dict[str, Self]:
        """For every name marked as equal along some axes of the mesh: the `workers` that have to agree on it.

        Args:
            marked: names, with the axes of their marks; no axes: equal on all workers.
            mesh: the session's.
            workers: those that are compared.
            asked: circles to restrict these to; None: what the marks say.
        """
        circles = {name: cls.along(mesh, axes, workers) for name, axes in marked.items() if axes}
        return circles if asked is None else {name: each.within(asked) for name, each in circles.items()}

    def __iter__(self) -> Iterator[tuple[Workers, str]]:
        return iter(zip(self.workers, self.places or [""] * len(self.workers), strict=True))

    def within(self, others: Self) -> Self:
        """Return the non-empty intersections of these circles with `others`."""
        found = [
            (tuple(worker for worker in mine if worker in circle), _place(there, here))
            for circle, there in others
            for mine, here in self
        ]
        kept = [(circle, place) for circle, place in found if circle]
        return type(self)(tuple(circle for circle, _ in kept), tuple(place for _, place in kept), self.over)


def circles_of_parts(cells: Iterable[RegisterInfo | None]) -> tuple[Workers, ...]:
    """The workers that have the same part of a tensor that is split over them; () of any other value."""
    parts: dict[object, list[int]] = {}
    for worker, cell in enumerate(cells):
        if cell is not None and not cell.part:
            return ()
        if cell is not None:
            parts.setdefault(cell.part, []).append(worker)
    return tuple(map(tuple, parts.values()))


def _place(*names: str) -> str:
    """The name of what these have in common; a coordinate that both name is said once."""
    return " ".join(dict.fromkeys(_COORDINATE.findall(" ".join(names))))
