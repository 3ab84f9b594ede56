"""`sys` as long as any session runs: what of it is each worker's own, and to everybody else the process's.

C code that asks for it gets the process's. Whatever else is asked for takes 20 ns longer.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from disco_magic.functions import own_streams, programs
from disco_magic.functions.module_classes import OfModules, exchange, put_back


class SysOfWorkers(types.ModuleType, metaclass=OfModules):
    """The class of `sys` meanwhile."""

    @property
    def argv(self) -> list[str]:
        """The arguments of the program that a worker executes."""
        return programs.arguments()

    @argv.setter
    def argv(self, argv: list[str]) -> None:
        programs.assign_arguments(argv)

    @property
    def stdout(self) -> Any:
        """What a worker has put there, see `own_streams`."""
        return own_streams.read("stdout")

    @stdout.setter
    def stdout(self, stream: Any) -> None:
        own_streams.assign("stdout", stream)

    @stdout.deleter
    def stdout(self) -> None:
        own_streams.delete("stdout")

    @property
    def stderr(self) -> Any:
        """As `stdout`."""
        return own_streams.read("stderr")

    @stderr.setter
    def stderr(self, stream: Any) -> None:
        own_streams.assign("stderr", stream)

    @stderr.deleter
    def stderr(self) -> None:
        own_streams.delete("stderr")


def begin() -> None:
    """From now on it is so. Idempotent."""
    exchange(sys, SysOfWorkers)


def end() -> None:
    """No more. Idempotent."""
    put_back(sys, SysOfWorkers)
