"""Workers whose figures hardly differ, as one row of a table, if there are many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from disco_magic.core.register_values import FEW_WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class OfWorker(Protocol):
    """What is known of a worker."""

    @property
    def worker(self) -> int:
        """Its id."""


T = TypeVar("T", bound=OfWorker)


def gathered(
    workers: Sequence[T], figures: Callable[[T], tuple[float, ...]], limit: float, alone: T | None = None
) -> list[list[T]]:
    """The rows of a table, in the order of their first workers: each, or of many, those alike together.

    Args:
        workers: ascending.
        figures: of one of them; those alike differ from the first of them by `limit` at most, in each figure.
        limit: see above.
        alone: has a row of its own.
    """
    if len(workers) <= FEW_WORKERS:
        return [[each] for each in workers]
    found: list[list[T]] = [] if alone is None else [[alone]]
    first: tuple[float, ...] = ()
    for each in sorted((each for each in workers if each is not alone), key=figures):
        mine = figures(each)
        if first and all(abs(one - other) <= limit for one, other in zip(mine, first, strict=True)):
            found[-1].append(each)
        else:
            first = mine
            found.append([each])
    for group in found:
        group.sort(key=lambda each: each.worker)
    return sorted(found, key=lambda group: group[0].worker)
