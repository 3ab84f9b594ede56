"""Settings of the process that a program may change: put back when the last program that runs has ended.

They are one for all workers and the notebook. A process would take them with it: after ``gc.disable()`` in a
program, the notebook would collect no garbage any more.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.isolation.own_folders import can_part

if TYPE_CHECKING:
    import types
    from collections.abc import Callable


class Setting(NamedTuple):
    """How a setting is read and written."""

    get: Callable[[], Any]
    put: Callable[[Any], object]


def attribute(owner: types.ModuleType, name: str) -> Setting:
    """The setting that is this name of a module."""
    return Setting(partial(getattr, owner, name), partial(setattr, owner, name))


def _collect(on: bool) -> None:  # noqa: FBT001 - what `gc.isenabled` returns
    (gc.enable if on else gc.disable)()


def _folder() -> str | None:
    """The working directory; None if it was removed, or programs have their own."""
    if can_part():
        return None
    with suppress(OSError):
        return os.getcwd()
    return None


def _go_to(folder: str | None) -> None:
    if folder is not None:
        with suppress(OSError):  # it was removed meanwhile
            os.chdir(folder)


_SETTINGS: Final = (
    Setting(_folder, _go_to),
    Setting(gc.isenabled, _collect),
    Setting(gc.get_threshold, lambda found: gc.set_threshold(*found)),
    Setting(sys.getrecursionlimit, sys.setrecursionlimit),
    Setting(sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    attribute(sys, "stdin"),
    attribute(logging, "raiseExceptions"),
    attribute(logging, "lastResort"),
)
_before: Final[list[Any]] = []  # of each setting; empty while no program runs


def fit(*, is_executed: bool) -> None:
    """Note the settings when the first program begins, and put them back when none is executed any more.

    One thread at a time calls this.
    """
    if is_executed and not _before:
        _before[:] = [setting.get() for setting in _SETTINGS]
    elif not is_executed and _before:
        for setting, before in zip(_SETTINGS, _before, strict=True):
            if setting.get() != before:
                with suppress(RecursionError):  # the notebook is deeper now than that limit
                    setting.put(before)
        _before.clear()
