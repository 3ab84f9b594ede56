"""`sys` while any session runs: some attributes are each worker's own; for all others they are the process's.

C code that reads them gets the process's. Reading any other attribute takes 20 ns longer.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from disco_magic.callers.module_classes import ModuleOfWorkers, dictionary_of, exchange, is_tester
from disco_magic.isolation import own_displayhook, own_streams, programs

if TYPE_CHECKING:
    import types
    from collections.abc import Callable


def _own(home: Any, *name: str) -> property:
    """Return the property for an attribute that one of our modules, `home`, reads and sets for the caller."""
    read = partial(home.read, *name)  # C code: much of what writes to sys.stdout reads it each time

    def assign(_: object, value: Any) -> None:
        home.assign(*name, value)

    def delete(_: object) -> None:
        home.delete(*name)

    return property(read, assign, delete if hasattr(home, "delete") else None)


class SysOfWorkers(ModuleOfWorkers):
    """The class of `sys` while any session runs."""

    argv = _own(programs, "argv")
    path = _own(programs, "path")
    displayhook = _own(own_displayhook)
    stdout = _own(own_streams, "stdout")
    stderr = _own(own_streams, "stderr")

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The usual one; for ``mock.patch``, which restores what it reads there, with the caller's own."""
        found = dictionary_of(self)
        if not is_tester(sys._getframe(1)):  # noqa: SLF001 - the caller
            return found
        return found | {name: getattr(self, name) for name in ("argv", "path", "displayhook")}


def fit_sys(module: types.ModuleType) -> Callable[[], None]:
    """Let workers have their own; `module` is `sys`."""
    put_back = exchange(module, SysOfWorkers)
    own_displayhook.begin()

    def undo() -> None:
        own_displayhook.end()
        put_back()

    return undo
