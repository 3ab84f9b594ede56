"""Reads how TVM describes which functions cut a parameter into the workers' parts.

    {"param_0": [["function", [[4, 64, 128], "float16"], 4], ...], ...}

Each entry has a function's name, the shape and dtype of its output, and whole numbers as further arguments.
Functions are called one after the other, by destination passing: ``function(input, *numbers, output)``. Axis
0 of the last output is the number of workers; output[r] is worker r's part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disco_magic.errors import UsageMistake
from disco_magic.functions.modules import Module
from disco_magic.functions.registry import find_func
from disco_magic.functions.shapes import check_shape
from disco_magic.loader import dtypes, fields
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np


@dataclass(frozen=True, slots=True)
class Step:
    """One shard function with everything but its input."""

    name: str
    function: Callable[..., Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    numbers: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the output."""
        return math.prod(self.shape) * self.dtype.itemsize

    def apply(self, whole: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Call the function to fill `out`, of `shape` and `dtype`, from `whole`; return `out`."""
        self.function(whole, *self.numbers, out)
        return out


def read_shard_info(text: str, module: Any, names: Iterable[str], count: int) -> dict[str, tuple[Step, ...]]:
    """Map parameters to their shard functions in the order of the calls; none for those that are broadcast.

    Args:
        text: JSON; empty: what `module`'s function ``get_shard_info`` returns, or no functions.
        module: where functions are looked up before the registered ones; None: nowhere.
        names: of all parameters; those cut beforehand without ``_shard-1-of-4``.
        count: workers among which parameters are cut.

    Raises:
        UsageMistake: it does not have that form, names an unknown parameter, or cuts one into another number
            of parts.
        UnknownName: a function is neither in `module` nor registered.
    """
    where = "shard info"
    if not text:
        tell = member(module, "get_shard_info")
        text = "{}" if tell is None else str(tell())
    info = fields.parse(text, where)
    known = set(names)
    found = {}
    for name in info:
        if name not in known:
            raise UsageMistake(
                f"{where}: there is no parameter {name!r}; {near_misses(name, known)}".rstrip("; ")
            )
        steps = fields.items(info[name], f"{where}: {name!r}")
        found[name] = tuple(_step(step, module, f"{where}: {name!r}") for step in steps)
        if found[name]:
            _check_parts(found[name][-1], count, f"{where}: {name!r}")
    return found


def _step(entry: object, module: Any, where: str) -> Step:
    listed = fields.items(entry, f"{where}: a function")
    output = listed[1] if len(listed) > 1 else None
    if (
        not isinstance(output, list)
        or len(output) != 2
        or not all(isinstance(v, str) for v in (listed[0], output[1]))
    ):
        raise UsageMistake(
            f"{where}: a function is {entry!r}, expected [name, [shape, dtype], whole numbers ...]"
        )
    name = listed[0]
    where = f"{where}: function {name!r}"
    numbers = listed[2:]
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise UsageMistake(f"{where}: an argument is {number!r}, expected a whole number")
    shape, dtype = fields.wholes(output[0], f"{where}: the output's shape"), dtypes.named(output[1], where)
    check_shape(where, shape, dtype)
    return Step(name, _function(name, module), shape, dtype, tuple(numbers))


def _check_parts(last: Step, count: int, where: str) -> None:
    if last.shape[:1] != (count,):
        raise UsageMistake(
            f"{where}: the output of the last function {last.name!r} has shape {list(last.shape)}, expected "
            f"a first axis of {count}, one part per worker; shard the model for {count} workers"
        )


def _function(name: str, module: Any) -> Callable[..., Any]:
    found = member(module, name)
    return find_func(name) if found is None else found


def member(module: Any, name: str) -> Callable[..., Any] | None:
    """Find a function in a module of `load_vm_module`, a Python module or a mapping; None if it has none."""
    if isinstance(module, Module):
        found: Any = module.find(name)
    elif isinstance(module, Mapping):
        found = module.get(name)
    else:
        found = getattr(module, name, None)
    return found if callable(found) else None
