"""Blocks of PyTorch's that note for the process that somebody is in one.

Modes see every operation (`TorchDispatchMode`: counters of FLOPs, fake tensors, ...). They are each thread's
own. Whether anybody is in one is noted for the whole process, by blocks that put back what they found: if two
workers were in one at overlapping times, it stayed noted for ever. Versions of PyTorch whose compiler asks
for that then compiled nothing any more, in the notebook neither.

``loss_parallel()`` puts its handlers into a table of the process, and removes them at its end, also from
workers that are still in it: here they stay until the last worker has left it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker, is_given_up
from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from disco_magic.callers.current import CallingWorker

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
        for each in [each for each, modes in _entered.items() if not modes or not each.is_alive()]:
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


# A worker that leaves by an exception, when PyTorch does nothing, is removed the next time, or at its end.
_inside: Final[set[CallingWorker | None]] = set()
_disabling: Final[list[Callable[[], Any]]] = []


def fit_losses(module: ModuleType) -> Callable[[], None]:
    """Let several workers be in it; `module` is ``torch.distributed.tensor.parallel.loss``."""

    @replacing(module, "_enable_custom_loss_ops")
    def enable() -> None:
        with _lock:
            if not _inside:
                enable.below()
            _inside.add(calling_worker())

    @replacing(module, "_disable_custom_loss_ops")
    def disable() -> None:
        if is_given_up():
            return
        with _lock:
            _inside.discard(calling_worker())
            if not _inside:
                disable.below()

    take = replace_all([enable, disable])
    _disabling[:] = [disable.below]

    def undo() -> None:
        take()
        _inside.clear()  # the notebook may still be in it, and then leaves it by PyTorch's own function

    return undo


def leave_losses(me: CallingWorker) -> None:
    """Leave it on behalf of a worker that has ended."""
    with _lock:
        if me in _inside:
            _inside.discard(me)
            if not _inside:
                _disabling[0]()
