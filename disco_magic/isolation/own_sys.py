"""`sys` while any session runs: some attributes are each worker's own; for all others they are the process's.

C code that reads them gets the process's. Reading any other attribute takes 20 ns longer.
"""

from __future__ import annotations

import sys
from typing import Any

from disco_magic.callers.module_classes import (
    ModuleOfWorkers,
    dictionary_of,
    exchange,
    is_tester,
    put_back,
)
from disco_magic.isolation import own_displayhook, own_streams, programs


def _own_stream(channel: str) -> property:
    """Return the property for a stream that workers may assign, see `own_streams`."""

    def read(_: object) -> Any:
        return own_streams.read(channel)

    def assign(_: object, stream: Any) -> None:
        own_streams.assign(channel, stream)

    def delete(_: object) -> None:
        own_streams.delete(channel)

    return property(read, assign, delete)


class SysOfWorkers(ModuleOfWorkers):
    """The class of `sys` while any session runs."""

    @property
    def argv(self) -> list[str]:
        """The arguments of the program that the caller's worker executes, else the process's."""
        return programs.arguments()

    @argv.setter
    def argv(self, argv: list[str]) -> None:
        programs.assign_arguments(argv)

    @property
    def path(self) -> list[str]:
        """Where the program that the caller's worker executes imports from, else where the process does."""
        return programs.import_path()

    @path.setter
    def path(self, path: list[str]) -> None:
        programs.assign_import_path(path)

    @property
    def displayhook(self) -> Any:
        """See `own_displayhook`."""
        return own_displayhook.read()

    @displayhook.setter
    def displayhook(self, hook: Any) -> None:
        own_displayhook.assign(hook)

    @displayhook.deleter
    def displayhook(self) -> None:
        own_displayhook.delete()

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The usual one; for ``mock.patch``, which restores what it reads there, with the caller's own."""
        found = dictionary_of(self)
        if not is_tester(sys._getframe(1)):  # noqa: SLF001 - the caller
            return found
        own = {"argv": programs.arguments(), "path": programs.import_path()}
        return found | own | {"displayhook": own_displayhook.read()}

    stdout = _own_stream("stdout")
    stderr = _own_stream("stderr")


def begin() -> None:
    """Install the class. Idempotent."""
    exchange(sys, SysOfWorkers)
    own_displayhook.begin()


def end() -> None:
    """Remove it again. Idempotent."""
    own_displayhook.end()
    put_back(sys, SysOfWorkers)
