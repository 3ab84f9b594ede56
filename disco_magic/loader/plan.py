"""Decides which worker gets which part: turns patterns of names into an axis per tensor.

A plan is an ordered mapping from patterns to placements, read like the branches of an ``if``: the first
pattern that matches a name decides; names that match none are replicated. A pattern that decides nothing,
because it matches no name or earlier patterns matched the same names, is an error in the plan and refused.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.numbers import whole_number
from disco_magic.errors import UsageMistake
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from disco_magic.loader.stored import StoredTensor


@dataclass(frozen=True, slots=True)
class Shard:
    """Placement: split evenly along `axis`; rank r gets part r.

    Attributes:
        axis: the axis; negative counts from the end.

    Example:
        >>> plan = {"*.weight": disco.Shard(axis=0), "*.proj": disco.Shard(axis=-1)}  # the rest is replicated
    """

    axis: int = 0

    def __post_init__(self) -> None:
        axis = whole_number(self.axis)
        if axis is None:
            raise UsageMistake(f"Shard(axis={self.axis!r}): expected a whole number")
        object.__setattr__(self, "axis", axis)


@dataclass(frozen=True, slots=True)
class Replicate:
    """Placement: every worker gets the whole tensor; use `REPLICATE`."""

    def __repr__(self) -> str:
        return "REPLICATE"


REPLICATE: Final = Replicate()
Placement = Shard | Replicate


def select(tensors: Mapping[str, StoredTensor], names: Iterable[str] | None) -> dict[str, StoredTensor]:
    """Return the tensors that match one of `names`, in the tensors' order; None: all."""
    if names is None:
        return dict(tensors)
    patterns = (names,) if isinstance(names, str) else tuple(names)
    chosen: set[str] = set()
    for pattern in patterns:
        found = _fitting("names", pattern, tensors)
        if not found:
            raise UsageMistake(f"names: {_unknown(pattern, tensors)}")
        chosen.update(found)
    return {name: tensor for name, tensor in tensors.items() if name in chosen}


def axes(
    plan: Mapping[str, Placement] | None,
    tensors: Mapping[str, StoredTensor],
    count: int,
    chosen: Iterable[str] | None = None,
) -> dict[str, int | None]:
    """Map names to the axis to split along, counted from the front, among `count` workers; None: replicated.

    Args:
        plan: pattern -> placement; None: everything is replicated.
        tensors: all there are, so that a plan for a model also works when only some of it is loaded.
        count: workers that split tensors among them.
        chosen: names that are loaded; None: all.

    Raises:
        UsageMistake: it is not a plan, a pattern decides nothing, or tensors cannot be split as it says; the
            message lists all of those.
    """
    placements = _placements({} if plan is None else plan, tensors)
    split: dict[str, int | None] = {}
    wrong = []
    for name in tensors if chosen is None else chosen:
        placement, shape = placements.get(name, REPLICATE), tensors[name].shape
        if isinstance(placement, Replicate):
            split[name] = None
        elif not -len(shape) <= placement.axis < len(shape):
            wrong.append(f"{name}: shape {list(shape)} has no axis {placement.axis}")
        elif shape[placement.axis] % count:
            wrong.append(f"{name}: axis {placement.axis} of shape {list(shape)}")
        else:
            split[name] = placement.axis % len(shape)
    if wrong:
        raise UsageMistake(
            f"plan: {len(wrong)} of {len(wrong) + len(split)} tensors cannot be split evenly among {count} "
            "workers:\n  " + "\n  ".join(wrong) + "\nchoose another axis or REPLICATE for them"
        )
    return split


def _placements(plan: Mapping[str, Placement], tensors: Mapping[str, StoredTensor]) -> dict[str, Placement]:
    if not isinstance(plan, Mapping):
        raise UsageMistake(
            f"plan is {type(plan).__name__}, expected a mapping like {{'*.weight': Shard(axis=0)}}"
        )
    decided: dict[str, Placement] = {}
    deciders: dict[str, str] = {}
    for pattern, placement in plan.items():
        if not isinstance(placement, Placement):
            raise UsageMistake(f"plan: {pattern!r} is {placement!r}, expected Shard(axis=...) or REPLICATE")
        found = _fitting("plan", pattern, tensors)
        if not found:
            raise UsageMistake(f"plan: {_unknown(pattern, tensors)}")
        mine = [name for name in found if name not in decided]
        if not mine:
            earlier = ", ".join(dict.fromkeys(repr(deciders[name]) for name in found))
            raise UsageMistake(
                f"plan: {pattern!r} has no effect: all {len(found)} names that fit it fit {earlier} before "
                "it, and the first pattern that fits decides; put the special pattern before the general one"
            )
        decided.update(dict.fromkeys(mine, placement))
        deciders.update(dict.fromkeys(mine, pattern))
    return decided


def _fitting(what: str, pattern: Any, tensors: Mapping[str, StoredTensor]) -> list[str]:
    if not isinstance(pattern, str):
        raise UsageMistake(f"{what}: {pattern!r} is not a name or a pattern of names")
    if pattern in tensors:  # first, because a name may contain brackets
        return [pattern]
    fits = re.compile(fnmatch.translate(pattern)).match
    return [name for name in tensors if fits(name)]


def _unknown(pattern: str, tensors: Mapping[str, StoredTensor]) -> str:
    some = f"there are {len(tensors)}: {', '.join([*tensors][:5])}{', ...' if len(tensors) > 5 else ''}"
    return f"no tensor's name fits {pattern!r}; {near_misses(pattern, tensors) or some}"
