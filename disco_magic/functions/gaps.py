"""How far apart arrays are whose values differ: found out on a sample, and only when they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.functions.context import worker
from disco_magic.functions.describe import sample_of
from disco_magic.functions.divergence import parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.functions.divergence import Array


@dataclass(frozen=True, slots=True)
class Sample:
    """Gives elements of the calling worker's arrays; a worker function.

    Attributes:
        parts: registers, or parts of one: ``"w"``, ``"params['w']"``.
    """

    parts: tuple[str, ...]

    @property
    def disco_name(self) -> str:
        """What errors and tables of commands call it."""
        return "sample registers"

    def __call__(self) -> dict[str, Array]:
        """Part -> at most 65,536 elements, evenly spread; nothing for what is no array (any more)."""
        namespace = worker().marks.namespace
        names = dict.fromkeys(part.partition("[")[0] for part in self.parts)
        return {
            path: sample_of(np.asarray(value))[0]
            for name in names
            for path, value in parts_of(name, namespace.get(name))
            if path in self.parts and issubclass(type(value), np.ndarray)
        }


def gap(samples: Sequence[Array], size: int) -> str:
    """``3 of 65,536 sampled elements differ from those of the first worker, by up to 1.2e-07``.

    Args:
        samples: of every worker, all of one shape `(k,)` and dtype; `k` is `size` or less.
        size: elements of the whole arrays.
    """
    first, count = samples[0], samples[0].size
    apart = np.zeros(count, bool)
    furthest = 0.0
    for other in samples[1:]:
        differs = ~_equal(first, other)
        apart |= differs
        furthest = max(furthest, _furthest(first[differs], other[differs]))
    if not apart.any():
        if count < size:
            return f"none of {count:,} sampled elements differs as a number"
        return "as numbers they are equal: signs of zeros differ, or bits of NaNs"
    of = f"{count:,} sampled elements" if count < size else f"{count:,} elements"
    by = f", by up to {furthest:.3g}" if furthest else ""
    differing = int(apart.sum())
    return f"{differing:,} of {of} differ{'s' * (differing == 1)} from the first worker's{by}"


def _equal(one: Array, other: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    with np.errstate(invalid="ignore"):
        nowhere = (one != one) & (other != other)  # noqa: PLR0124 - NaN, of every dtype that has one
        return np.asarray((one == other) | nowhere, bool)


def _furthest(one: Array, other: Array) -> float:
    """The largest finite difference; 0 for what is no number."""
    # Records and raw bytes are np.void; bfloat16 has kind V too, but a type of its own, and is a number.
    if one.dtype.kind in "OSUMmT" or issubclass(one.dtype.type, np.void):
        return 0.0
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        difference = np.abs(one.astype(wide) - other.astype(wide))
    return float(np.max(difference, initial=0.0, where=np.isfinite(difference)))
