"""One register, or a part of one, on the workers that a check compared: how they differ, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from disco_magic.core.held import NOT_IMPORTED
from disco_magic.phrases import ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from disco_magic.core.circles import Circles, Workers
    from disco_magic.core.held import Held

_ABSENT: Final = "not bound"
_DIGITS: Final = 8


# What is compared, in the order in which it is reported.
_ASPECTS: Final[dict[str, Callable[[Held], object]]] = {
    "type": lambda held: held.type,
    "shape": lambda held: held.shape,
    "dtype": lambda held: held.dtype,
    "device": lambda held: held.device,
    "elements": lambda held: held.elements,
    "value": lambda held: held.digest,
    "mark": lambda held: held.marked,
}


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One register, or a part of one, on the workers that were compared.

    Attributes:
        name: ``"w"``, ``"params['w']"``.
        cells: worker -> what it holds, None if nothing.
        circles: the sets of workers that have to agree with each other.
        by_value: whether values were compared, too.
        gap: how far apart the arrays are, in words, if their values differ.
        unseen: what was not looked at, in words; only on the first row of a register.
        near: the circles whose values differ by no more than the tolerance.
        before: the first cell after which it was found to differ in the same way, ``Cell In[3]``; else "".
    """

    name: str
    cells: Mapping[int, Held | None]
    circles: Circles
    by_value: bool = False
    gap: str = ""
    unseen: str = ""
    before: str = ""
    near: frozenset[Workers] = frozenset()

    @property
    def type(self) -> str:
        """The type on the first worker that holds anything."""
        return next(held.type for held in self.cells.values() if held is not None)

    @property
    def aspects(self) -> tuple[str, ...]:
        """How the workers differ: missing, type, shape, dtype, device, elements, value, mark."""
        return tuple(dict.fromkeys(aspect for circle, _ in self.circles for aspect in self._aspects(circle)))

    @property
    def differs(self) -> bool:
        """Whether workers that have to agree differ."""
        return bool(self.aspects)

    @property
    def opaque(self) -> str:
        """Why values could not be compared though they should have been, else ``""``."""
        if self.by_value and self._is_nobody_s:
            return "none of the workers that should agree were compared"
        return next((held.opaque for held in self.cells.values() if held is not None and held.opaque), "")

    @property
    def _is_nobody_s(self) -> bool:
        """Whether every circle has at most one worker that holds it, and it is not a split tensor."""
        circles = self.circles.workers
        return (
            len(circles) > 1
            and not self._is_split
            and all(sum(self.cells[worker] is not None for worker in circle) < 2 for circle in circles)
        )

    @property
    def _is_split(self) -> bool:
        """Whether it is a tensor that is split over a mesh."""
        return all(held is None or held.shard for held in self.cells.values())

    @property
    def is_apart(self) -> bool:
        """Whether every worker holds a different part of a split tensor, so that none have to agree."""
        return self._is_split and all(len(circle) == 1 for circle in self.circles.workers)

    @property
    def over(self) -> str:
        """`` over dp`` or `` within each group`` if workers have to agree only there, else ``""``."""
        if self.circles.over:
            return f" over {self.circles.over}"
        return " within each group" if any(map(_is_group, self.circles.places)) else ""

    def mark_of(self, worker: int) -> str:
        """How the worker marked the register, if workers differ in that; ``""``: not, or no difference."""
        held = self.cells[worker]
        return "" if held is None else held.marked or ""

    def splits(self) -> list[tuple[str, list[tuple[Workers, str]]]]:
        """For every circle whose workers differ: its name, and its workers grouped by what they hold.

        The circle's name is ``""`` if all workers have to agree, else ``"group 1"`` or ``"tp=1"``.
        """
        return [(place, self._groups(circle)) for place, circle in self.differing]

    @property
    def differing(self) -> list[tuple[str, Workers]]:
        """The circles whose workers differ: name and workers of each."""
        return [(place, circle) for circle, place in self.circles if self._aspects(circle)]

    @property
    def first_differing(self) -> tuple[str, Workers]:
        """The first differing circle; there has to be one."""
        return self.differing[0]

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the array on the first worker of the first differing circle; None if none."""
        held = self.cells[self.first_differing[1][0]]
        return None if held is None or held.dtype is None else held.shape or ()

    @property
    def first_pair(self) -> tuple[int, int]:
        """In the first differing circle, the first worker and the first that holds something else."""
        first, *others = self.first_differing[1]
        return first, next(worker for worker in others if self.cells[worker] != self.cells[first])

    def lines(self) -> list[tuple[str, str, str]]:
        """The table lines, ``(verdict, workers, what)``: one for each set of workers that hold the same."""
        aspects = ", ".join(self.aspects)
        if not aspects:
            return self._agreement()
        aspects += f", as after {self.before}" if self.before else ""
        found = [
            (" ".join(filter(None, (where, aspects))), ranges(workers), text)
            for where, groups in self.splits()
            for workers, text in groups
        ]
        found = [
            ("" if i and line[0] == found[i - 1][0] else line[0], *line[1:]) for i, line in enumerate(found)
        ]
        return found + ([("", "", self.gap)] if self.gap else [])

    def _agreement(self) -> list[tuple[str, str, str]]:
        kinds = who_has((worker, held.kind) for worker, held in self.cells.items() if held is not None)
        why = self.opaque
        agree = "near" if self.near else "equal" if self.by_value else "same type"
        if self.is_apart:
            agree = "split"
        verdict = "not compared" if why else f"{agree}{self.over}"
        return [
            (verdict, ranges(workers), f"{kind}: {why}" if why else kind) for kind, workers in kinds.items()
        ]

    def _aspects(self, circle: Workers) -> tuple[str, ...]:
        cells = [self.cells[worker] for worker in circle]
        known = [held for held in cells if held is None or held.type != NOT_IMPORTED]
        cells = known if any(known) else cells  # what is not imported yet agrees with what is
        present = [held for held in cells if held is not None]
        missing = ("missing",) if 0 < len(present) < len(cells) else ()
        found = tuple(
            name
            for name, of in _ASPECTS.items()
            if len(set(map(of, present))) > 1 and not (name == "value" and circle in self.near)
        )
        # If the types differ, the other aspects differ too and say nothing.
        return missing + (("type",) if "type" in found else found)

    def _groups(self, circle: Workers) -> list[tuple[Workers, str]]:
        groups = who_has((worker, self.cells[worker]) for worker in circle)
        say = _what_tells_apart([held for held in groups if held is not None])
        return [(tuple(ids), _ABSENT if held is None else say(held)) for held, ids in groups.items()]


def _is_group(place: str) -> bool:
    return place.startswith("group ")


def _what_tells_apart(held: list[Held]) -> Callable[[Held], str]:
    """Return a function that tells all of `held` apart: by kind, else by value, else with a digest."""
    ways: list[Callable[[Held], str]] = [
        lambda each: each.kind,
        lambda each: each.written or f"{each.kind} {each.digest.hex()[:_DIGITS]}",
    ]
    for way in ways:
        if len(set(map(way, held))) == len(held):
            return way
    return lambda each: f"{each.written or each.kind} {each.digest.hex()[:_DIGITS]}"
