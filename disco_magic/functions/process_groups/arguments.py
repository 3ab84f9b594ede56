"""Read what PyTorch passes to the methods of a process group: tensors, one or many, and options."""

from __future__ import annotations

import importlib
import sys
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers.sites import is_of_torch
from disco_magic.core.seat import Theirs
from disco_magic.errors import UsageMistake
from disco_magic.functions.process_groups.memory import flat, written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

OPERATIONS: Final = {"SUM": "sum", "AVG": "avg", "PRODUCT": "prod", "MIN": "min", "MAX": "max"}
"""PyTorch's names of reductions -> ours."""
# Of a list of tensors that are not alike, how many shapes are shown.
_SHAPES: Final = 4


def split(whole: Any, parts: Sequence[Any]) -> None:
    """Copy what was received, one array of all elements, into tensors."""
    sizes = [part.numel() for part in parts]
    if len(whole) != sum(sizes):
        raise UsageMistake(
            f"{len(whole)} elements were received, for tensors of {sizes} - "
            "what is to be filled has to be as long as what the members give"
        )
    seen = importlib.import_module("torch").autograd.graph.increment_version
    for part, end in zip(parts, np.cumsum(sizes), strict=True):
        with written(part, bits=True) as target:
            target[...] = whole[end - len(target) : end]
        seen(part)  # if a backward pass needs it, PyTorch will say that it was changed


def joined(tensors: Sequence[Any], *, bits: bool = False) -> Any:
    """One array of the elements of all tensors."""
    parts = [flat(tensor, bits=bits) for tensor in tensors]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return importlib.import_module("torch").cat(parts)


def joined_alike(tensors: Sequence[Any], mine: Any) -> Any:
    """Like `joined`, with the bits, of what a root gives: a tensor to each member, to itself `mine`."""
    sizes = [each.numel() for each in tensors]
    if set(sizes) != {mine.numel()}:
        raise UsageMistake(
            f"the root gives tensors of {sizes} elements, and takes one of {mine.numel()} itself - "
            "all members get as many"
        )
    return joined(tensors, bits=True)


def list_of(verb: str, given: Sequence[Any], **more: Any) -> Theirs:
    """A call with a list of tensors that are given, one to each member; `more` of what it says."""
    shapes = [tuple(each.shape) for each in given]
    if len(set(shapes)) == 1:
        return Theirs(verb, shapes[0], parts=len(given), **more)
    unlike = ", ".join([*map(str, shapes[:_SHAPES]), *["..."] * (len(shapes) > _SHAPES)])
    return Theirs(verb, parts=len(given), unlike=unlike, **more)


def see_one_each(verb: str, what: str, tensors: Sequence[Any], members: int) -> None:
    """Check that a list of ``input`` or ``output`` tensors has one for each member."""
    if len(tensors) != members:
        if name := object_call():
            raise UsageMistake(f"{name}: {len(tensors)} objects were passed for {members} members")
        raise UsageMistake(f"{verb}: {len(tensors)} {what} tensors were passed for {members} members")


def see_alike(tensors: Sequence[Any]) -> None:
    """Check that a member gathers into tensors as long as the one that it gives, as all members do."""
    given, *parts = [each.numel() for each in tensors]
    if {given} != set(parts):
        raise UsageMistake(
            f"the root gathers into tensors of {parts} elements, and gives one of {given} itself - "
            "all members give as many"
        )


def shares_of(tensor: Any, what: str, sizes: Sequence[Any] | None, members: int) -> tuple[int, ...]:
    """How many elements of a tensor, the ``input`` or ``output``, go to each member or come from it.

    As many rows as `sizes` says, else equal parts.
    """
    if not tensor.shape:
        raise UsageMistake(f"all_to_all_single: the {what} is a number - pass a tensor that has rows")
    rows, row = tensor.shape[0], prod(tensor.shape[1:])
    if not sizes:
        if rows % members:
            raise UsageMistake(
                f"all_to_all_single: the {what} has {rows} rows, which {members} members cannot share evenly"
                f" - pad it to {-(-rows // members) * members}, or pass {what}_split_sizes"
            )
        return (rows // members * row,) * members
    counts = [int(each) for each in sizes]
    if len(counts) != members or min(counts) < 0:
        wrong = f"expected {members} of them, none below 0"
    elif sum(counts) != rows:
        wrong = f"they are {sum(counts)} in all, the {what} has {rows} rows"
    else:
        return tuple(row * each for each in counts)
    raise UsageMistake(f"all_to_all_single: {what}_split_sizes={counts} - {wrong}")


def see_can_be_averaged(array: Any) -> None:
    """Check that the average of such an array fits into its own tensor."""
    if array.dtype.kind in "biu":
        raise UsageMistake(
            f"ReduceOp.AVG of {array.dtype}: an average is no whole number - "
            "reduce a floating-point tensor, or use ReduceOp.SUM"
        )


def listed(tensors: Any) -> list[Any]:
    """Tensors as a list, also if only one was passed."""
    return tensors if isinstance(tensors, list) else [tensors]


def pairs_of(outs: Any, ins: Any, *, of: Any) -> Any:
    """Pairs of what is filled and what is given; one pair, not unpacked, if `of` is no list."""
    return zip(outs, ins, strict=True) if isinstance(of, list | tuple) else [(outs, ins)]


def root_of(*opts: Any, root: int = 0, **_named: Any) -> int:
    """The rank of the root, from options or as passed in their place."""
    for each in opts:
        if hasattr(each, "rootRank"):
            return int(each.rootRank)
        if isinstance(each, int):
            return each
    return root


def operation_of(*opts: Any, op: Any = None, **_named: Any) -> str:
    """Our name of a reduction, from options or as passed in their place."""
    given = [getattr(each, "reduceOp", each) for each in opts if each is not None and type(each) is not int]
    operation = given[0] if given else op
    name = "SUM" if operation is None else str(getattr(operation, "op", operation)).rpartition(".")[2]
    if name not in OPERATIONS:
        raise UsageMistake(f"ReduceOp.{name} is none of {', '.join(OPERATIONS)}, which workers' groups have")
    return OPERATIONS[name]


_FUNCTIONS: Final = frozenset(
    {
        *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
        *("send_object_list", "recv_object_list"),
    }
)
_OF_LISTS: Final = ("broadcast_object_list", "recv_object_list")
_DEPTH: Final = 9  # frames between one of them and ours; to look at each takes 0.05 us


def object_call() -> str:
    """The name of the function for objects that makes this call of a group's method; "" if none does."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way to know
    for _ in range(_DEPTH):
        if frame is None:
            break
        if frame.f_code.co_name in _FUNCTIONS and is_of_torch(frame):
            return frame.f_code.co_name
        frame = frame.f_back
    return ""


def as_called(verb: str, given: Any, theirs: Theirs | None) -> Theirs | None:
    """A group's call of `verb` as the user knows it, who may have called a function for objects."""
    name = object_call()
    if not name:
        return theirs
    theirs = (theirs or Theirs(verb))._replace(verb=name)
    # First comes how long the pickles are, a number for each object.
    is_lengths = name in _OF_LISTS and str(given.dtype).endswith("int64")
    return theirs._replace(objects=given.shape[0]) if is_lengths else theirs
