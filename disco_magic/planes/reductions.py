"""Reductions over NumPy arrays: which dtypes, in which precision, and the arithmetic of one block.

Every element is accumulated in rank order by one worker, so all members get the same bits, however many
threads share the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.phrases import class_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

OPS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "avg": np.add,
}
_NEAR = {"mean": "avg", "average": "avg", "add": "sum", "+": "sum", "mul": "prod", "product": "prod"}


@dataclass(frozen=True, slots=True)
class Reduction:
    """How arrays of one dtype are reduced with one operation.

    Attributes:
        ufunc: combines the running value with the next rank's.
        source: dtype of the members' arrays.
        accumulator: dtype of the running value.
        result: dtype of the result.
        average: whether to divide by the number of members at the end.
    """

    ufunc: np.ufunc
    source: np.dtype[Any]
    accumulator: np.dtype[Any]
    result: np.dtype[Any]
    average: bool

    @property
    def plain(self) -> bool:
        """Whether no conversion is needed: the sources can be combined directly into a target."""
        return self.source == self.accumulator == self.result

    def fold(
        self,
        sources: Sequence[NDArray[Any]],
        targets: Sequence[NDArray[Any]],
        scratch: NDArray[Any],
    ) -> None:
        """Reduce `sources` in rank order and write the result to all `targets`.

        A target may be exactly the memory of a source: all sources are read before the operation that writes
        the first target, or by that operation, element by element.

        Several targets are all copied from `scratch`: NumPy's arithmetic reads a target's memory before it
        writes it, a copy does not (4 arrays of 64 MiB, 2 cores: 26 ms instead of 28).

        Args:
            sources: one array per member, each of shape ``block`` and dtype `source`.
            targets: at least one array of shape ``block`` and dtype `result`.
            scratch: memory of shape ``(1, *block)`` if `plain`, else ``(2, *block)``; dtype `accumulator`.
        """
        if self.plain:
            value = self.combine(sources, scratch[0], targets[0] if len(targets) == 1 else scratch[0])
        else:
            value = targets[0]
            np.copyto(value, self._convert(sources, scratch[0], scratch[1]), casting="unsafe")
        for target in targets:
            if target is not value:
                np.copyto(target, value)

    def combine(
        self, sources: Sequence[NDArray[Any]], running: NDArray[Any], last: NDArray[Any]
    ) -> NDArray[Any]:
        """Reduce `sources` in rank order into `last`, if `plain`; return it, or the only source.

        Args:
            sources: see `fold`.
            running: memory for the running value; may be `last`, and neither may be a source.
            last: memory for the result.
        """
        value, *others = sources
        if not others:
            return value
        *between, end = others
        for source in between:
            value = self.ufunc(value, source, out=running)
        value = self.ufunc(value, end, out=last)
        return self._averaged(value, len(sources), last) if self.average else value

    def _convert(
        self, sources: Sequence[NDArray[Any]], running: NDArray[Any], converted: NDArray[Any]
    ) -> NDArray[Any]:
        np.copyto(running, sources[0], casting="unsafe")
        for source in sources[1:]:
            np.copyto(converted, source, casting="unsafe")
            self.ufunc(running, converted, out=running)
        return self._averaged(running, len(sources), running)

    def _averaged(self, total: NDArray[Any], count: int, out: NDArray[Any]) -> NDArray[Any]:
        if not self.average or count == 1:
            return total
        averaged: NDArray[Any] = np.divide(total, self.accumulator.type(count), out=out)
        return averaged


def check_op(verb: str, op: object) -> str:
    """Return `op` if it names a reduction, else raise UsageMistake with the names there are."""
    if isinstance(op, str) and op in OPS:
        return op
    if hasattr(op, "__array__") or isinstance(op, list | tuple):  # as `comm.Allreduce(x, y)`
        raise UsageMistake(
            f"{verb}: op is the name of a reduction, one of {', '.join(OPS)}, got a value of type "
            f"{class_name(op)}; for an array that takes the result write out="
        )
    import difflib  # takes 2 ms, only for what is no reduction

    text = op if isinstance(op, str) else getattr(op, "__name__", repr(op))
    close = difflib.get_close_matches(str(text).lower(), OPS, n=1)
    guess = _NEAR.get(str(text).lower()) or (close[0] if close else None)
    hint = f" - did you mean {guess!r}?" if guess else ""
    raise UsageMistake(f"{verb}: there is no reduction {op!r}; op is one of {', '.join(OPS)}{hint}")


@lru_cache(maxsize=256)
def reduction(verb: str, op: str, dtype: np.dtype[Any]) -> Reduction:
    """Return the reduction `op` for arrays of `dtype`; raise UsageMistake if these cannot be reduced.

    * float16, bfloat16 and the other floats of ml_dtypes, such as float8, are accumulated in float32 and
      rounded once, at the end.
    * The average of bool and integer arrays is a float64, as in `numpy.mean`.
    * Otherwise the dtype is kept: integers wrap around, the sum of bools is *or*, their product *and*.
    * min and max propagate NaN; complex numbers are ordered as in NumPy (real part first).
    """
    accumulator = result = dtype
    if dtype == np.float16 or _is_narrow_float(dtype):
        accumulator = np.dtype(np.float32)
    elif dtype.kind not in "biufc" or _is_foreign(dtype):
        raise UsageMistake(f"{verb}: arrays of dtype {dtype} cannot be reduced - {_instead(dtype)}")
    elif op == "avg" and dtype.kind in "biu":
        accumulator = result = np.dtype(np.float64)
    return Reduction(OPS[op], dtype, accumulator, result, op == "avg")


def _is_foreign(dtype: np.dtype[Any]) -> bool:
    # Recognized by its module, because ml_dtypes is optional and may not be imported. `kind` does not help:
    # one of its floats has kind f, the others have kind V.
    return dtype.type.__module__ == "ml_dtypes"


def _is_narrow_float(dtype: np.dtype[Any]) -> bool:
    return _is_foreign(dtype) and dtype.name.startswith(("bfloat", "float"))


def _instead(dtype: np.dtype[Any]) -> str:
    """What to do with arrays that cannot be reduced."""
    if _is_foreign(dtype):
        wider = "complex64" if "complex" in dtype.name else "int32"
        return f"convert them first, with x.astype({wider!r})"
    if dtype.names:
        return f"reduce their fields one by one: x[{dtype.names[0]!r}]"
    if dtype.kind == "m":
        return "reduce them as integers: x.view('int64')"
    return "expected bool, integer, float or complex; allgather them, and work on the result"
