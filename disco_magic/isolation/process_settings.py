"""Settings of the process that a program may change: put back when the last program that runs has ended.

They are one for all workers and the notebook. A process would take them with it: after ``gc.disable()`` in a
program, the notebook would collect no garbage any more. What the body of a worker's own module sets stays, as
the module does: a second run would not execute it again.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from disco_magic.isolation.settings import SETTINGS, SLOW

if TYPE_CHECKING:
    from collections.abc import Iterator

_before: Final[list[Any]] = []  # of each setting; empty while no program runs


def fit(*, is_executed: bool) -> None:
    """Note the settings when the first program begins, and put them back when none is executed any more.

    One thread at a time calls this.
    """
    if is_executed and not _before:
        _before[:] = [setting.get() for setting in (*SETTINGS, *SLOW)]
    elif not is_executed and _before:
        for setting, before in zip((*SETTINGS, *SLOW), _before, strict=True):
            if setting.get() != before:
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
        for place, (old, new) in enumerate(zip(then, _now() if then else [], strict=False)):
            if new != old and _before:
                _before[place] = new


def _now() -> list[Any]:
    return [setting.get() for setting in SETTINGS]
