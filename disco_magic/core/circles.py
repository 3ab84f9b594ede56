"""Which workers have to agree with each other: all of them, those of a group, those along axes of a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from disco_magic.core.mesh import Mesh

Workers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Circles:
    """Circles of workers, each of which has to agree with itself.

    Attributes:
        workers: of each circle.
        places: what each is called, ``"group 1"`` or ``"tp=1"``; ``""``, or none at all, where there is one.
        over: the axes of the mesh along which workers of a circle differ, in words: ``"dp"``; or ``""``.
    """

    workers: tuple[Workers, ...]
    places: tuple[str, ...] = ()
    over: str = ""

    @classmethod
    def among(
        cls, workers: Workers, circles: Iterable[Workers], places: Iterable[str], over: str = ""
    ) -> Self:
        """These circles, as far as they are `workers`."""
        return cls(tuple(circles), tuple(places), over).within(cls((workers,)))

    @classmethod
    def along(cls, mesh: Mesh, axes: tuple[str, ...], workers: Workers) -> Self:
        """Those of `workers` that differ along these axes of the mesh only, and where they are."""
        groups, places = mesh.groups(*axes), mesh.places(*axes)
        return cls.among(workers, groups, places, ", ".join(axes) if len(groups) > 1 else "")

    @classmethod
    def of_marks(
        cls, marked: Mapping[str, tuple[str, ...]], mesh: Mesh, workers: Workers, asked: Self | None
    ) -> dict[str, Self]:
        """What is marked as equal along some axes of the mesh -> those of `workers` that have to agree on it.

        Args:
            marked: names, with the axes of their marks; none: on all workers.
            mesh: the session's.
            workers: those that are compared.
            asked: who has to agree at most; None: what the marks say.
        """
        circles = {name: cls.along(mesh, axes, workers) for name, axes in marked.items() if axes}
        return circles if asked is None else {name: each.within(asked) for name, each in circles.items()}

    def __iter__(self) -> Iterator[tuple[Workers, str]]:
        return iter(zip(self.workers, self.places or [""] * len(self.workers), strict=True))

    def within(self, others: Self) -> Self:
        """The workers that are in one circle here and in one of `others`."""
        found = [
            (tuple(worker for worker in mine if worker in circle), " ".join(filter(None, (there, here))))
            for circle, there in others
            for mine, here in self
        ]
        kept = [(circle, place) for circle, place in found if circle]
        return type(self)(tuple(circle for circle, _ in kept), tuple(place for _, place in kept), self.over)
