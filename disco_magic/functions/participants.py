"""Who takes part in a call: ``in_group`` and ``over``, as users give them and as commands carry them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.numbers import truth
from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from disco_magic.core.topology import Over

# `in_group` as commands carry it: Disco's bool, or the axes of the mesh that take its place.
Who = bool | tuple[str, ...]
_NAMING: Final = (str, tuple, list)


def who(in_group: Who) -> dict[str, Any]:
    """Who takes part, as keyword arguments of a verb."""
    return {"over": in_group} if isinstance(in_group, _NAMING) else {"in_group": bool(in_group)}


def among(over: Over | None) -> dict[str, Any]:
    """The workers that `over` names, None: all of the session, as keyword arguments of a verb."""
    return {"in_group": over is not None, "over": over}


def both_said(what: str, over: object) -> UsageMistake:
    """The error for a call that passes `over` and also says ``in_group=False``."""
    return UsageMistake(f"{what}: over={over!r} says who takes part; leave in_group out")


def is_grouped(what: str, in_group: object) -> bool:
    """`in_group` as a bool."""
    if isinstance(in_group, _NAMING):
        raise UsageMistake(f"{what}: in_group is {in_group!r}; pass axes of the mesh as over=")
    return truth(what, "in_group", in_group)


def several_times(over: Over | None) -> Over | None:
    """`over` in a form that can be passed to several calls: ids from an iterator become a list."""
    again: Any = over
    return list(again) if isinstance(over, Iterable) and not isinstance(over, str | list | tuple) else again
