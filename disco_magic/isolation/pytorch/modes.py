"""Thread-local state of PyTorch that ``with`` blocks change: whether gradients are recorded, autocast, modes.

Such a block changes the state first, and only then does Python note that the block has to be left. A stop
that strikes in between leaves the worker's thread without gradients, in bfloat16, or counting operations,
also in later cells. So the state that a stopped cell found is restored. In a tight loop over
``with torch.no_grad():`` one stop in three struck there, in a block of autocast one in ten (2 workers,
PyTorch 2.13).

Not restored is what `saved_tensors_hooks` and levels of `torch.func` leave: no stop was seen to strike there.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.isolation.pytorch.noted_blocks import note_restored

if TYPE_CHECKING:
    from collections.abc import Callable

# (getter, setter). Not `multithreading`, whether gradients stay in the thread: process groups set that
# for good.
_SETTINGS: Final = (
    ("is_grad_enabled", "_set_grad_enabled"),
    ("_is_fwd_grad_enabled", "_set_fwd_grad_enabled"),
    ("is_autocast_cache_enabled", "set_autocast_cache_enabled"),
)
# The same, per kind of device.
_OF_DEVICES: Final = (
    ("is_autocast_enabled", "set_autocast_enabled"),
    ("get_autocast_dtype", "set_autocast_dtype"),
)
_DEVICES: Final = {"cpu": "bfloat16", "cuda": "float16"}  # and the dtype that each begins with
_STACKS: Final = ("function", "dispatch")


class Modes(NamedTuple):
    """State of a thread.

    Attributes:
        settings: (setter, its arguments), of all settings.
        stacks: the modes it is in, outermost first, of both kinds.
        depth: number of autocast blocks it is in.
    """

    settings: list[tuple[Callable[..., Any], tuple[Any, ...]]]
    stacks: list[list[Any]]
    depth: int


def modes_now() -> Modes | None:
    """Return the state of the calling thread; None if PyTorch is not imported. Costs 3 us."""
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
    """Restore the state of the calling thread: `modes_now` of then."""
    core = _core()
    if core is None:
        return
    if then is None:  # the cell has imported PyTorch
        then = _at_first(core)
    for put, values in then.settings:
        put(*values)
    for kind, stack in zip(_STACKS, then.stacks, strict=True):
        _fill(core, kind, stack)
    note_restored(then.stacks[_STACKS.index("dispatch")])
    while _depth(core) > then.depth:
        core["autocast_decrement_nesting"]()
        if _depth(core) == 0:
            core["clear_autocast_cache"]()


def _at_first(core: dict[str, Any]) -> Modes:
    """The state of a thread that has done nothing yet."""
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
    """PyTorch's functions that read and set the state, by name."""
    torch = sys.modules.get("torch")  # not a module if somebody has made the import fail
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
