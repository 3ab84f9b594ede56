"""How something fails. Each way makes a new error, so that no trial sees the traceback of another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class MuteError(Exception):
    """One that cannot even be printed."""

    def __str__(self) -> str:
        raise ZeroDivisionError("the error has no words")


@dataclass(frozen=True)
class FrozenError(Exception):
    """One that refuses every assignment, that of its traceback too."""

    code: int


class Own(BaseException):
    """What ``except Exception`` does not catch, made by a user."""


def _failed(kind: type[BaseException]) -> Callable[[], BaseException]:
    return lambda: kind("the object failed")


WAYS: dict[str, Callable[[], BaseException]] = {
    "exception": _failed(RuntimeError),
    "memory": MemoryError,
    "system exit": lambda: SystemExit(3),
    "keyboard interrupt": _failed(KeyboardInterrupt),
    "own base exception": _failed(Own),
    "error without words": MuteError,
    "frozen error": lambda: FrozenError(3),
    "stop iteration": _failed(StopIteration),
    "generator exit": GeneratorExit,
}
# Where the runtime itself finds what is wrong, there is one way only.
ITS_OWN = "its own"


def error_of(way: str) -> BaseException:
    """A new error of that way."""
    return WAYS[way]() if way in WAYS else AssertionError("nobody raises this one")
