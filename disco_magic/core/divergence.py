"""Do registers agree between workers: what each one found, put side by side.

::

    functions/divergence.py, on every worker --Found--> compare --CheckRows--> core/report.py: errors, tables
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from disco_magic.core.held import mark_in_words
from disco_magic.core.registers import around, register_of
from disco_magic.phrases import ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from disco_magic.core.circles import Circles, Workers
    from disco_magic.core.held import Found, Held

_ABSENT: Final = "not bound"
_DIGITS: Final = 8
_EXPLAINED: Final = 8
_LISTS: Final = ("list", "tuple", "collections.deque")


# What is compared, in the order in which it is told.
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
        circles: the workers that have to agree with each other.
        by_value: whether values were compared, too.
        gap: how far apart arrays are whose values differ, in words.
        unseen: of the register, on the first of its rows: what was not looked at, in words.
        near: of these circles the workers whose values differ no more than they may.
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
        """The type that the first worker holds of those that hold anything."""
        return next(held.type for held in self.cells.values() if held is not None)

    @property
    def aspects(self) -> tuple[str, ...]:
        """In what the workers differ: missing, type, shape, dtype, device, elements, value, mark."""
        return tuple(dict.fromkeys(aspect for circle, _ in self.circles for aspect in self._aspects(circle)))

    @property
    def differs(self) -> bool:
        """Whether workers that have to agree do not."""
        return bool(self.aspects)

    @property
    def opaque(self) -> str:
        """Why values could not be compared though they should have been, else ``""``."""
        if self.by_value and self._is_nobody_s:
            return "no two workers that are meant to agree were compared"
        return next((held.opaque for held in self.cells.values() if held is not None and held.opaque), "")

    @property
    def _is_nobody_s(self) -> bool:
        """Whether each worker that has it would have to agree with others, none of whom was looked at."""
        circles = self.circles.workers
        return len(circles) > 1 and all(
            sum(self.cells[worker] is not None for worker in circle) < 2 for circle in circles
        )

    @property
    def over(self) -> str:
        """`` over dp`` where workers have to agree along these axes of the mesh only, else ``""``."""
        return f" over {self.circles.over}" if self.circles.over else ""

    def mark_of(self, worker: int) -> str:
        """How a worker has marked the register, where others have not, or otherwise; ``""``: not at all."""
        held = self.cells[worker]
        return "" if held is None else held.marked or ""

    def splits(self) -> list[tuple[str, list[tuple[Workers, str]]]]:
        """For every circle whose workers differ: its name, and the workers that hold the same together.

        The circle's name is ``""`` if all workers have to agree, else ``"group 1"`` or ``"tp=1"``.
        """
        return [(place, self._groups(circle)) for place, circle in self.differing]

    @property
    def differing(self) -> list[tuple[str, Workers]]:
        """Name and workers of the circles whose workers differ."""
        return [(place, circle) for circle, place in self.circles if self._aspects(circle)]

    @property
    def first_differing(self) -> tuple[str, Workers]:
        """The first of these; there has to be one."""
        return self.differing[0]

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the arrays of the first circle whose workers differ; None if there are none."""
        held = self.cells[self.first_differing[1][0]]
        return None if held is None or held.dtype is None else held.shape or ()

    @property
    def first_pair(self) -> tuple[int, int]:
        """Of that circle the first worker, and the first one that holds something else."""
        first, *others = self.first_differing[1]
        return first, next(worker for worker in others if self.cells[worker] != self.cells[first])

    def lines(self) -> list[tuple[str, str, str]]:
        """The row of a table: a line for the workers that hold the same, ``(verdict, workers, what)``."""
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
        agree = "near" if self.near else "equal" if self.by_value else "same"
        verdict = "not compared" if why else f"{agree}{self.over}"
        return [
            (verdict, ranges(workers), f"{kind}: {why}" if why else kind) for kind, workers in kinds.items()
        ]

    def _aspects(self, circle: Workers) -> tuple[str, ...]:
        present = [held for worker in circle if (held := self.cells[worker]) is not None]
        missing = ("missing",) if 0 < len(present) < len(circle) else ()
        found = tuple(
            name
            for name, of in _ASPECTS.items()
            if len(set(map(of, present))) > 1 and not (name == "value" and circle in self.near)
        )
        # Of another type, the rest is another as well and says nothing.
        return missing + (("type",) if "type" in found else found)

    def _groups(self, circle: Workers) -> list[tuple[Workers, str]]:
        groups = who_has((worker, self.cells[worker]) for worker in circle)
        say = _what_tells_apart([held for held in groups if held is not None])
        return [(tuple(ids), _ABSENT if held is None else say(held)) for held, ids in groups.items()]


def _what_tells_apart(held: list[Held]) -> Callable[[Held], str]:
    """Words for each of `held`: what it is; where that is the same its value; where that is long a digest."""
    ways: list[Callable[[Held], str]] = [
        lambda each: each.kind,
        lambda each: f"{each.kind} {each.text or each.digest.hex()[:_DIGITS]}",
    ]
    for way in ways:
        if len(set(map(way, held))) == len(held):
            return way
    return lambda each: f"{each.kind} {each.text} {each.digest.hex()[:_DIGITS]}"


def to_explain(rows: Iterable[CheckRow]) -> Iterator[CheckRow]:
    """The first few whose values alone differ: of these it is said how far they are apart."""
    return islice((row for row in rows if row.aspects == ("value",)), _EXPLAINED)


# --- from what the workers found to rows -----------------------------------------------------------


def compare(
    found: Mapping[int, Found],
    circles: Circles,
    *,
    names: Iterable[str],
    by_value: Iterable[str],
    marks: bool = False,
    apart: Mapping[str, Circles] = MappingProxyType({}),
) -> tuple[CheckRow, ...]:
    """Put side by side what the workers found: a row per register, and per part of one that differs.

    Args:
        found: per worker.
        circles: the workers that have to agree with each other.
        names: the registers to compare; those that no worker has are left out.
        by_value: those whose values have to be equal.
        marks: whether the workers that have a register also have to agree that it is marked.
        apart: the workers that have to agree on registers of these names, where others do than `circles` say.
    """
    valued = frozenset(by_value)
    present = [name for name in names if any(name in each.registers for each in found.values())]
    alone: dict[str, set[str]] = {}  # register -> its parts that are compared by themselves
    for name in present:
        if register_of(name) != name:
            alone.setdefault(register_of(name), set()).add(name)
    rows = []
    for name in present:
        columns = {worker: each.column(name) for worker, each in found.items()}
        if marks and any(_is_torn(name, found, columns, circle) for circle in circles.workers):
            for worker, column in columns.items():
                if name in column:
                    column[name] = replace(column[name], marked=mark_in_words(found[worker], name))
        own = alone.get(name, set())
        rows += _rows(name, columns, apart.get(name, circles), own, by_value=name in valued)
    return tuple(rows)


def _is_torn(
    name: str, found: Mapping[int, Found], columns: Mapping[int, dict[str, Held]], circle: Workers
) -> bool:
    """Whether some workers of a circle have marked a register that others have not."""
    marks = [found[worker].marked.get(name) for worker in circle if columns[worker]]
    return len(set(marks)) > 1


def _rows(
    name: str,
    columns: Mapping[int, dict[str, Held]],
    circles: Circles,
    alone: AbstractSet[str],
    *,
    by_value: bool,
) -> list[CheckRow]:
    """The register's row, or instead of it, if it agrees, those of its parts that have something to tell.

    Not of those that are `alone`, which have rows of their own.
    """
    rows = []
    # Below these a worker has nothing that could be compared, or it has rows of its own.
    closed = set(alone)
    uneven: tuple[str, ...] = ()  # lists of different lengths: their ends are missing somewhere
    cut = [worker for worker, column in columns.items() if name in column and column[name].cut]
    of_parts = any(len(circle) > 1 for circle in circles.workers)  # else nobody is compared with anybody
    for part in dict.fromkeys(
        part for column in columns.values() for part in column if of_parts or part == name
    ):
        cells = {worker: _as_asked(column.get(part), by_value) for worker, column in columns.items()}
        row = CheckRow(part, cells, circles, by_value)
        if any(cells[worker] is None for worker in cut):
            continue  # it may have it among those that were left out
        if not closed.isdisjoint(around(part)) or (part.startswith(uneven) and "missing" in row.aspects):
            continue
        if row.type == "column" and {"shape"} <= set(row.aspects) <= {"shape", "value"}:
            continue  # so has its data frame, which tells it for all of them
        if {"missing", "type"} & set(row.aspects):
            closed.add(part)
        elif "shape" in row.aspects and row.type in _LISTS:
            uneven += (f"{part}[",)
        if part == name or row.differs or row.opaque:
            rows.append(row)
    own, *parts = rows
    told = parts if parts and not own.differs and not own.opaque else rows
    # What is opaque was not looked at either, and says so itself.
    unseen = {} if any(row.opaque for row in told) else _unseen(columns)
    if unseen:
        told[0] = replace(told[0], unseen=f"{name} ({', '.join(unseen)})")
    return told


def _unseen(columns: Mapping[int, dict[str, Held]]) -> dict[str, None]:
    return dict.fromkeys(
        held.unseen for column in columns.values() for held in column.values() if held.unseen
    )


def _as_asked(held: Held | None, by_value: bool) -> Held | None:  # noqa: FBT001 - one of two ways to look
    if held is None or not (held.unseen or held.digest or held.opaque or held.text):
        return held
    # A worker may have marked a register that others have not: its value was looked at for nothing.
    return replace(held, unseen="") if by_value else replace(held, unseen="", text="", digest=b"", opaque="")
