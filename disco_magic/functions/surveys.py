"""Worker functions by which a check asks what registers hold, what is near, and for elements of arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from disco_magic.functions.context import worker
from disco_magic.functions.holdings import found_in, parts_named
from disco_magic.functions.tolerances import Tolerance, near_enough
from disco_magic.values.distances import elements_compared

if TYPE_CHECKING:
    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.circles import Workers
    from disco_magic.core.held import Found
    from disco_magic.values.distances import Array


@dataclass(frozen=True, slots=True)
class Survey:
    """Reports what the calling worker's registers hold; see `holdings.found_in`."""

    disco_name: ClassVar = "check registers"  # in errors and tables of commands
    names: tuple[str, ...] | None = None
    values: bool = False
    parts: bool = False

    def __call__(self) -> Found:
        """Survey the calling worker's registers."""
        me = worker()
        me.marks.settle()
        if self.values:
            me.place.finish()  # an interrupt ends this wait, but not one for a copy from the GPU
        found = found_in(
            me.marks,
            me.marks.names,
            self.names,
            own=me.place.device,
            values=self.values,
            parts=self.parts,
        )
        return replace(found, bound=me.bound)


@dataclass(frozen=True, slots=True)
class Nearness:
    """Finds rows that differ by no more than they may; a worker function, for all workers compared."""

    disco_name: ClassVar = "compare registers"
    rows: tuple[CheckRow, ...]
    tolerance: Tolerance
    workers: Workers

    def __call__(self) -> tuple[CheckRow, ...]:
        """Compare with the other workers, which call this too; all have the same rows."""
        me = worker()
        me.place.finish()
        return near_enough(me, self.rows, dict(me.marks.namespace), self.tolerance, self.workers)


@dataclass(frozen=True, slots=True)
class Sample:
    """Returns elements of the calling worker's arrays; a worker function.

    Attributes:
        parts: registers, or parts of one: ``"w"``, ``"params['w']"``.
    """

    disco_name: ClassVar = "sample registers"
    parts: tuple[str, ...]

    def __call__(self) -> dict[str, Array]:
        """Part -> all elements, of large arrays 65,536; without what is no array (any more)."""
        found = parts_named(dict(worker().marks.namespace), self.parts, indexed=True)
        samples = {path: elements_compared(value) for path, value in found.items()}
        return {path: sample for path, sample in samples.items() if sample is not None}
