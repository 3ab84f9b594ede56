"""Whether registers agree between workers: compares what each worker found.

::

    values/divergence.py, on every worker --Found--> compare --CheckRows--> core/report.py: errors, tables
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from disco_magic.core.check_row import CheckRow
from disco_magic.core.circles import Circles
from disco_magic.core.held import mark_in_words
from disco_magic.core.registers import around, register_of
from disco_magic.phrases import who_has

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from disco_magic.core.circles import Workers
    from disco_magic.core.held import Found, Held

_EXPLAINED: Final = 8
_LISTS: Final = ("list", "tuple", "collections.deque")


def to_explain(rows: Iterable[CheckRow]) -> Iterator[CheckRow]:
    """Yield the first few rows that differ only in value: for these the distance is computed."""
    return islice((row for row in rows if row.aspects == ("value",)), _EXPLAINED)


def compare(
    found: Mapping[int, Found],
    circles: Circles,
    *,
    names: Iterable[str],
    by_value: Iterable[str],
    marks: bool = False,
    apart: Mapping[str, Circles] = MappingProxyType({}),
) -> tuple[CheckRow, ...]:
    """Compare what the workers found: a row per register, and per part of one that differs.

    Args:
        found: per worker.
        circles: the sets of workers that have to agree with each other.
        names: the registers to compare; those that no worker has are left out.
        by_value: those whose values have to be equal.
        marks: whether the workers that have a register also have to agree that it is marked.
        apart: the circles for registers of these names, used in place of `circles`.
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
    """Whether the workers of a circle differ in whether, or how, they have marked a register."""
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
    """The register's row; or, if that agrees, the rows of those of its parts that have something to report.

    Parts in `alone` are left out: they have rows of their own.
    """
    own, *parts = _reporting(name, columns, circles, alone, by_value=by_value)
    told = parts if parts and not own.differs and not own.opaque else [own, *parts]
    # An opaque row already says that it was not looked at.
    unseen = {} if any(row.opaque for row in told) else _unseen(columns)
    if unseen:
        told[0] = replace(told[0], unseen=f"{name} ({', '.join(unseen)})")
    return told


def _reporting(
    name: str,
    columns: Mapping[int, dict[str, Held]],
    circles: Circles,
    alone: AbstractSet[str],
    *,
    by_value: bool,
) -> Iterator[CheckRow]:
    """Yield the register's row, and the rows of parts that have something to report."""
    # Parts of these are not compared: a worker has nothing there, or they have rows of their own.
    closed = set(alone)
    uneven: tuple[str, ...] = ()  # lists whose last elements some workers lack
    cut = [column for column in columns.values() if name in column and column[name].cut]
    of_parts = any(len(circle) > 1 for circle in circles.workers)  # else no two workers are compared
    for part in dict.fromkeys(chain.from_iterable(columns.values())) if of_parts else [name]:
        if any(part not in column for column in cut) or not closed.isdisjoint(around(part)):
            continue  # it may be among those that were left out there, or is not compared
        cells = {worker: _as_asked(column.get(part), by_value) for worker, column in columns.items()}
        row = _row(part, cells, circles, by_value=by_value)
        if part.startswith(uneven) and "missing" in row.aspects:
            continue
        if row.type == "column" and {"shape"} <= set(row.aspects) <= {"shape", "value"}:
            continue  # the data frame's own row reports this for all columns
        if {"missing", "type"} & set(row.aspects):
            closed.add(part)
        elif "shape" in row.aspects and row.type in _LISTS:
            uneven += (f"{part}[",)
        if part == name or row.differs or row.opaque:
            yield row


def _row(part: str, cells: Mapping[int, Held | None], circles: Circles, *, by_value: bool) -> CheckRow:
    """Make a row; of a tensor split over a mesh, workers that hold the same part have to agree.

    Only on the same mesh, unless values are compared: the stages of a pipeline have different meshes.
    """
    held = {worker: each for worker, each in cells.items() if each is not None}
    is_split = all(each.shard is not None for each in held.values())
    if not is_split or len({(each.type, each.dtype, each.device) for each in held.values()}) > 1:
        return CheckRow(part, cells, circles, by_value)
    shards = who_has(
        (worker, (str(each.shard), () if by_value else each.mesh)) for worker, each in held.items()
    )
    absent = cells.keys() - held.keys()
    apart = Circles(
        tuple(tuple(sorted({*workers, *absent})) for workers in shards.values()),
        tuple(shard for shard, _ in shards),
    )
    by_value = by_value or any(each.digest for each in held.values())
    return CheckRow(part, cells, circles.within(apart), by_value)


def _unseen(columns: Mapping[int, dict[str, Held]]) -> dict[str, None]:
    return dict.fromkeys(
        held.unseen for column in columns.values() for held in column.values() if held.unseen
    )


def _as_asked(held: Held | None, by_value: bool) -> Held | None:  # noqa: FBT001 - one of two ways to look
    if held is None or not (held.unseen or held.digest or held.opaque or held.text):
        return held
    if held.shard is not None and held.digest:  # looked at by value whatever was asked
        return held
    # If only some workers marked the register, they looked at its value in vain: it is not compared.
    return replace(held, unseen="") if by_value else replace(held, unseen="", text="", digest=b"", opaque="")
