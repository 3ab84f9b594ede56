"""Thread-local state of PyTorch that ``with`` blocks change: whether gradients are recorded, autocast, modes.

Such a block changes the state first, and only then does Python note that the block has to be left. A stop
that strikes in between leaves the worker's thread without gradients, in bfloat16, or counting operations,
also in later cells. So the state that a stopped cell found is restored. In a tight loop over
``with torch.no_grad():`` one stop in three struck there, in a block of autocast one in ten (2 workers,
PyTorch 2.13).

Not restored is what `saved_tensors_hooks` and levels of `torch.func` leave: no stop was seen to strike there.

Some blocks note for the process that somebody is in one. Modes that see every operation (`TorchDispatchMode`:
counters of FLOPs, fake tensors, ...) are each thread's own; whether anybody is in one is noted by blocks that
put back what they found: if two workers were in one at overlapping times, it stayed noted for ever. Versions
of PyTorch whose compiler asks for that then compiled nothing any more, in the notebook neither.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.threads.ends import has_ended
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


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


# What PyTorch notes, by the name of the variable -> whether a mode counts.
_NOTED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "_is_in_torch_dispatch_mode": lambda _: True,
    "_is_in_non_infra_torch_dispatch_mode": lambda mode: not mode.is_infra_mode(),
    "_is_in_any_mode_without_ignore_compile_internals": lambda mode: not mode.ignore_compile_internals(),
}
_TOLD: Final = "set_is_in_mode_without_ignore_compile_internals"  # takes the last of them to C++
_lock: Final = new_rlock()
# Thread -> the modes that it has entered and not left. Not what is on its stack now: there, modes are missing
# while they see an operation.
_entered: Final[dict[threading.Thread, list[Any]]] = {}
_noting: Final[list[Callable[[], None]]] = []


def _places_of(mode: Any, modes: Sequence[Any]) -> list[int]:
    return [place for place, each in enumerate(modes) if each is mode]


def fit_dispatching(module: ModuleType) -> Callable[[], None] | None:
    """Note that nobody is in a mode when that is so; `module` is ``torch.utils._python_dispatch``."""
    kind, names = getattr(module, "TorchDispatchMode", None), vars(module)
    noted = {name: counts for name, counts in _NOTED.items() if name in names}
    if kind is None or not noted:
        return None

    def note() -> None:
        for each in [each for each, modes in _entered.items() if not modes or has_ended(each)]:
            del _entered[each]
        modes = [mode for each in _entered.values() for mode in each]
        names.update({name: any(map(counts, modes)) for name, counts in noted.items()})
        if _TOLD in names:
            names[_TOLD](any(map(_NOTED["_is_in_any_mode_without_ignore_compile_internals"], modes)))

    @replacing(kind, "__enter__")
    def __enter__(self: Any) -> Any:  # noqa: N807 - replaces one
        with _lock:
            found = __enter__.below(self)
            _entered.setdefault(threading.current_thread(), []).append(self)
            note()
            return found

    @replacing(kind, "__exit__")
    def __exit__(self: Any, *error: Any) -> Any:  # noqa: N807 - replaces one
        with _lock:
            try:
                return __exit__.below(self, *error)
            finally:
                mine = _entered.get(threading.current_thread(), [])
                places = _places_of(self, mine)
                if places:
                    del mine[places[-1] :]
                note()

    stack = names.get("_get_current_dispatch_mode_stack")
    if stack is not None and (present := stack()):  # the notebook is in some already
        _entered[threading.current_thread()] = list(present)
    take = replace_all([__enter__, __exit__])
    _noting[:] = [note]

    def undo() -> None:
        take()
        with _lock:
            # Those of workers that have ended without leaving them; the notebook may be in some of its own.
            main = _entered.pop(threading.current_thread(), [])
            _entered.clear()
            _entered[threading.current_thread()] = main
            note()
            _entered.clear()
        _noting.clear()

    return undo


def note_restored(modes: Sequence[Any]) -> None:
    """Note that the calling thread is in these modes, and in none else: a stopped cell's are gone."""
    with _lock:
        if _noting and _entered.get(threading.current_thread(), []) != [*modes]:
            _entered[threading.current_thread()] = [*modes]
            _noting[0]()
