"""What PyTorch knows of a thread, and ``with`` blocks change: whether it records gradients, autocast, modes.

Such a block changes it first, and Python notes only then that it has to be left. A stop that strikes between
the two leaves the worker's thread without gradients, in bfloat16, or counting operations, also in the cells
that follow. So what a stopped cell has found is put back. In a tight loop over ``with torch.no_grad():`` one
stop in three struck there, in a block of autocast one in ten (2 workers, PyTorch 2.13).

Not what `saved_tensors_hooks` and levels of `torch.func` leave: no stop has been seen to strike there.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

# What tells how it is, and what sets that. Not whether gradients stay in the thread, `multithreading`:
# process groups set that, for good.
_SETTINGS: Final = (
    ("is_grad_enabled", "_set_grad_enabled"),
    ("_is_fwd_grad_enabled", "_set_fwd_grad_enabled"),
    ("is_autocast_cache_enabled", "set_autocast_cache_enabled"),
)
# The same for a kind of device.
_OF_DEVICES: Final = (
    ("is_autocast_enabled", "set_autocast_enabled"),
    ("get_autocast_dtype", "set_autocast_dtype"),
)
_DEVICES: Final = {"cpu": "bfloat16", "cuda": "float16"}  # and the type that each begins with
_STACKS: Final = ("function", "dispatch")


class Modes(NamedTuple):
    """How a thread stands.

    Attributes:
        settings: (what sets it, what that is given), of all settings.
        stacks: the modes it is in, outermost first, of both kinds.
        depth: in how many blocks of autocast.
    """

    settings: list[tuple[Callable[..., Any], tuple[Any, ...]]]
    stacks: list[list[Any]]
    depth: int


def modes_now() -> Modes | None:
    """How the calling thread stands; None if PyTorch is not there. Costs 3 us."""
    core = _core()
    if core is None:
        return None
    settings: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (core[put], (core[get](),)) for get, put in _SETTINGS if get in core and put in core
    ]
    if "get_autocast_dtype" in core:  # PyTorch 2.4; before, each device had functions of its own
        settings += [
            (core[put], (device, core[get](device))) for get, put in _OF_DEVICES for device in _DEVICES
        ]
    return Modes(settings, [_stack(core, kind) for kind in _STACKS], _depth(core))


def restore_modes(then: Modes | None) -> None:
    """Let the calling thread stand as it did: `modes_now` of then."""
    core = _core()
    if core is None:
        return
    if then is None:  # the cell has imported it
        then = _at_first(core)
    for put, values in then.settings:
        put(*values)
    for kind, stack in zip(_STACKS, then.stacks, strict=True):
        _fill(core, kind, stack)
    while _depth(core) > then.depth:
        core["autocast_decrement_nesting"]()
        if _depth(core) == 0:
            core["clear_autocast_cache"]()


def _at_first(core: dict[str, Any]) -> Modes:
    """How a thread stands that has done nothing yet."""
    settings: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (core[put], (True,)) for _, put in _SETTINGS if put in core
    ]
    if "get_autocast_dtype" in core:
        types = vars(sys.modules["torch"])
        settings += [(core["set_autocast_enabled"], (device, False)) for device in _DEVICES]
        settings += [
            (core["set_autocast_dtype"], (device, types[dtype]))
            for device, dtype in _DEVICES.items()
            if dtype in types  # else it is being imported
        ]
    return Modes(settings, [[] for _ in _STACKS], 0)


def _core() -> dict[str, Any] | None:
    """The functions of PyTorch's that know it, by name."""
    torch = sys.modules.get("torch")  # not a module, where somebody has it that it cannot be imported
    core = vars(torch).get("_C") if isinstance(torch, ModuleType) else None
    found = vars(core) if isinstance(core, ModuleType) else {}
    return found if "_set_grad_enabled" in found else None  # else it is being imported


def _stack(core: dict[str, Any], kind: str) -> list[Any]:
    count = core.get(f"_len_torch_{kind}_stack")
    return [] if count is None else [core[f"_get_{kind}_stack_at"](place) for place in range(count())]


def _fill(core: dict[str, Any], kind: str, then: list[Any]) -> None:
    now = _stack(core, kind)
    common = 0
    while common < min(len(now), len(then)) and now[common] is then[common]:
        common += 1
    for _ in now[common:]:
        core[f"_pop_torch_{kind}_stack"](*([None] if kind == "dispatch" else []))  # None: of any kind
    for mode in then[common:]:
        core[f"_push_on_torch_{kind}_stack"](mode)


def _depth(core: dict[str, Any]) -> int:
    if "autocast_increment_nesting" not in core:
        return 0
    depth: int = core["autocast_increment_nesting"]() - 1
    core["autocast_decrement_nesting"]()
    return depth
