"""Settings that a process has once: how each is read and written, and how a program's end with it.

Those that are one for all workers and the notebook are put back when the last program that runs has ended. A
process would take them with it: after ``gc.disable()`` in a program, the notebook would collect no garbage
any more. What the body of a worker's own module sets stays, as the module does: a second run would not
execute it again.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.isolation.imported import is_imported
from disco_magic.isolation.own_folders import can_part, mask_of_process
from disco_magic.threads.switching import SWITCHING

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterator

_UNKNOWN: Final = object()  # in place of a setting that cannot be read now, and is not to be written
_ABSENT: Final = object()  # of a module that is not there, and may have it when it is written
_COMPILER: Final = "torch._dynamo.utils"
_BEFORE_COMPILING: Final = "_gc_threshold_saved"  # the thresholds, while anybody compiles; else None


class Setting(NamedTuple):
    """How a setting is read, `_UNKNOWN` where it cannot be, and how what was read is written."""

    get: Callable[[], Any]
    put: Callable[[Any], object]


def attribute(owner: types.ModuleType, name: str) -> Setting:
    """The setting that is this name of a module."""
    return Setting(partial(getattr, owner, name), partial(setattr, owner, name))


def _collect(on: bool) -> None:  # noqa: FBT001 - what `gc.isenabled` returns
    (gc.enable if on else gc.disable)()


def _thresholds() -> tuple[int, int, int]:
    """Those of the collector. What PyTorch raises there while it compiles (2.15) it puts back itself."""
    then: tuple[int, int, int] | None = getattr(sys.modules.get(_COMPILER), _BEFORE_COMPILING, None)
    return gc.get_threshold() if then is None else then


def _collect_from(found: tuple[int, int, int]) -> None:
    compiler = sys.modules.get(_COMPILER)
    with getattr(compiler, "_gc_threshold_lock", nullcontext()):
        if getattr(compiler, _BEFORE_COMPILING, None) is not None:
            setattr(compiler, _BEFORE_COMPILING, found)
        gc.set_threshold(*found)


def _folder() -> object:
    """The working directory; unknown if it was removed, or programs have their own."""
    with suppress(OSError):
        return _UNKNOWN if can_part() else os.getcwd()
    return _UNKNOWN


def _go_to(folder: str) -> None:
    with suppress(OSError):  # it was removed meanwhile
        os.chdir(folder)


def _umask() -> object:
    """The process's mask for new files; unknown if programs have their own."""
    mask = None if can_part() else mask_of_process()
    return _UNKNOWN if mask is None else mask


def _interval() -> object:
    """How often threads take turns; unknown while we have changed that for a while."""
    return _UNKNOWN if SWITCHING.is_held else sys.getswitchinterval()


def _take_turns(seconds: float) -> None:
    if not SWITCHING.is_held:
        sys.setswitchinterval(seconds)


def _limit_tracebacks(limit: int | None) -> None:
    if limit is None:
        vars(sys).pop("tracebacklimit", None)
    else:
        sys.tracebacklimit = limit


def _of_library(
    module: str, get: Callable[[Any], Any], put: Callable[[Any, Any], object], first: Callable[[Any], Any]
) -> Setting:
    """A setting of a module that need not be there, or have it; a program that imports it finds `first`."""

    def now() -> Any:
        with suppress(AttributeError):
            return get(sys.modules[module]) if is_imported(module) else _ABSENT
        return _ABSENT

    def restore(before: Any) -> None:
        if is_imported(module):
            library = sys.modules[module]
            with suppress(AttributeError):
                put(library, first(library) if before is _ABSENT else before)

    return Setting(now, restore)


def _of_jax(name: str) -> Setting:
    # What else it could begin with is in variables of the environment, which are read then.
    def first(jax: Any) -> Any:
        return getattr(jax.config, name) if name.upper() in os.environ else _JAX[name]

    return _of_library(
        "jax",
        lambda jax: getattr(jax.config, name),
        lambda jax, value: jax.config.update(name, value),
        first,
    )


_JAX: Final = {"jax_enable_x64": False, "jax_default_matmul_precision": None, "jax_debug_nans": False}
SETTINGS: Final = (
    Setting(_folder, _go_to),
    Setting(gc.isenabled, _collect),
    Setting(_thresholds, _collect_from),
    Setting(sys.getrecursionlimit, sys.setrecursionlimit),
    Setting(sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    Setting(_interval, _take_turns),
    Setting(lambda: getattr(sys, "tracebacklimit", None), _limit_tracebacks),
    attribute(sys, "stdin"),
    attribute(logging, "raiseExceptions"),
    attribute(logging, "lastResort"),
    _of_library(
        "socket",
        lambda socket: (socket.getdefaulttimeout(),),
        lambda socket, found: socket.setdefaulttimeout(*found),
        lambda _: (None,),
    ),
    _of_library(
        "locale",
        lambda locale: locale.setlocale(locale.LC_ALL),
        lambda locale, found: locale.setlocale(locale.LC_ALL, found),
        lambda locale: locale.setlocale(locale.LC_ALL),
    ),
    *map(_of_jax, _JAX),
)
"""Those that end with programs and are read in 10 us; not those that workers have of their own."""
SLOW: Final = (Setting(_umask, os.umask),)
"""More of them: reading them takes longer."""


_before: Final[list[Any]] = []  # of each setting; empty while no program runs


def fit(*, is_executed: bool) -> None:
    """Note the settings when the first program begins, and put them back when none is executed any more.

    One thread at a time calls this.
    """
    if is_executed and not _before:
        _before[:] = [setting.get() for setting in (*SETTINGS, *SLOW)]
    elif not is_executed and _before:
        for setting, before in zip((*SETTINGS, *SLOW), _before, strict=True):
            if before is not _UNKNOWN and setting.get() != before:
                with suppress(RecursionError):  # the notebook is deeper now than that limit
                    setting.put(before)
        _before.clear()


@contextmanager
def kept() -> Iterator[None]:
    """Keep what a module's body sets, executed in a ``with`` block; not settings that are slow to read."""
    then = _now() if _before else []
    try:
        yield
    finally:
        _take_over(then, _now() if then else [])


def _take_over(then: list[Any], now: list[Any]) -> None:
    for place, (old, new) in enumerate(zip(then, now, strict=False)):
        if new != old and _before:
            _before[place] = new


def _now() -> list[Any]:
    return [setting.get() for setting in SETTINGS]
