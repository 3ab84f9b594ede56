"""Python's hidden random generator, ``random._inst``, as code of workers finds it: the worker's own.

NetworkX draws from it where it is given no seed. Seeds are given to `random.seed`, which is the worker's own:
drawn from the process's generator, graphs would differ from run to run and from worker to worker.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from disco_magic.callers.per_worker import PerWorker


class HiddenGenerator(random.Random):
    """Does what the caller's generator does: the worker's, or the process's."""

    __slots__ = ("_everyones", "_own")

    def __new__(cls, *_: Any) -> Self:
        """Do not take the arguments for seeds."""
        return super().__new__(cls)

    def __init__(self, everyones: random.Random, own: PerWorker[random.Random]) -> None:
        object.__setattr__(self, "_everyones", everyones)
        object.__setattr__(self, "_own", own)

    def __getattribute__(self, name: str) -> Any:
        return getattr(_of_caller(self), name)

    def __setattr__(self, name: str, value: Any) -> None:  # `gauss` keeps its second number there
        setattr(_of_caller(self), name, value)


def _of_caller(hidden: HiddenGenerator) -> random.Random:
    mine: random.Random | None = object.__getattribute__(hidden, "_own").mine()
    everyones: random.Random = object.__getattribute__(hidden, "_everyones")
    return everyones if mine is None else mine
