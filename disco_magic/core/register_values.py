"""The values of one register, equal ones once: what tables show where workers have no columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.phrases import who_has

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.snapshot import RegisterInfo, Row

FEW_WORKERS: Final = 8
"""Tables have a column for each of so many workers; of more, they have a line per value."""
MOST_VALUES: Final = 4
"""Of more values only the first are shown, and those that should not differ before all others."""


def columns_of(num_workers: int) -> Sequence[int] | None:
    """The workers that have a column each; None: they are too many, so that there is a line per value."""
    return range(num_workers) if num_workers <= FEW_WORKERS else None


def heads_of(columns: Sequence[int] | None) -> list[str]:
    """The titles of these columns; see `columns_of`."""
    return ["workers and what they hold"] if columns is None else [f"worker {each}" for each in columns]


def width_of(columns: Sequence[int] | None) -> int:
    """How many columns that makes; see `columns_of`."""
    return 1 if columns is None else len(columns)


class Held(NamedTuple):
    """Workers that hold the same, as far as is known."""

    workers: tuple[int, ...]
    info: RegisterInfo | None
    is_odd: bool


class Values(NamedTuple):
    """What is shown of a register.

    Attributes:
        shown: in the order of their first workers.
        rest: the workers whose values are not shown, ascending.
        said: ``61 other values``, and between which numbers they lie; "" if all are shown.
        is_odd: whether any of those is marked.
    """

    shown: list[Held]
    rest: tuple[int, ...] = ()
    said: str = ""
    is_odd: bool = False


def held(row: Row, marks: Sequence[bool]) -> list[Held]:
    """The values of `row`, in the order of their first workers; `marks` says for each worker if it is odd."""
    groups = who_has((worker, (_key(row, worker), odd)) for worker, odd in enumerate(marks))
    return [Held(tuple(workers), row.cells[workers[0]], odd) for (_, odd), workers in groups.items()]


def lines_of(row: Row) -> list[Held]:
    """The same for a table: a line for each worker, unless there are too many of them."""
    marks = row.odd_if_differing()
    if len(row.cells) > FEW_WORKERS:
        return _marked(row, held(row, marks))
    return [Held((worker,), info, marks[worker]) for worker, info in enumerate(row.cells)]


def values_of(row: Row) -> Values:
    """At most `MOST_VALUES` lines for the values of `row`; of more values, the last is about all others."""
    everything = _marked(row, held(row, row.odd_if_differing()))
    usual = _usual(everything)
    if len(everything) <= MOST_VALUES:
        return Values(everything)
    # The usual value stays in view, because the odd ones are compared with it.
    first = sorted(
        everything, key=lambda each: (each.workers != usual.workers, not each.is_odd, each.workers)
    )
    shown, others = first[: MOST_VALUES - 1], first[MOST_VALUES - 1 :]
    rest = tuple(sorted(worker for each in others for worker in each.workers))
    shown.sort(key=lambda each: each.workers)
    return Values(shown, rest, _others(others), any(each.is_odd for each in others))


def _usual(everything: Sequence[Held]) -> Held:
    return max((each for each in everything if not each.is_odd), key=_count, default=everything[0])


def _marked(row: Row, everything: list[Held]) -> list[Held]:
    """Of values that equally many workers hold, none is the right one; unless it is told who has to agree."""
    if row.circles:
        return everything
    most = _count(_usual(everything))
    return [each._replace(is_odd=each.is_odd and _count(each) < most) for each in everything]


def _count(each: Held) -> int:
    return len(each.workers)


def _key(row: Row, worker: int) -> tuple[object, ...]:
    info = row.cells[worker]
    if info is None:
        return (worker in row.coming,)
    where = (info.device or "").partition(":")[0]
    return info.kind, where, info.fingerprint or info.text


def _others(others: Sequence[Held]) -> str:
    """``61 other values, 0.5 … 63.5``."""
    infos = [each.info for each in others]
    least = [info.minimum for info in infos if info is not None and info.minimum is not None]
    most = [info.maximum for info in infos if info is not None and info.maximum is not None]
    span = f", {min(least):.3g} \u2026 {max(most):.3g}" if len(least) == len(most) == len(infos) else ""
    return f"{len(others)} other values{span}"
