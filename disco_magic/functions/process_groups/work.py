"""What PyTorch waits for: work of a process group, which is nearly always done when it begins."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.numbers import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HOME: Final = "torch.distributed.distributed_c10d"
"""PyTorch's module that programs call, and that keeps its groups."""


class Work:
    """Something to wait for.

    Args:
        tensors: filled by then.
        finish: does it, once, when it is waited for, at most until a time; None: it is done.
        ready: whether it can be done without waiting.
    """

    def __init__(
        self,
        tensors: Sequence[Any],
        finish: Callable[[float | None], None] | None = None,
        ready: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__()
        self._finish, self._ready = finish, ready
        self._tensors = tensors
        self._source = -1

    def finished(self, source: int | None = None) -> None:
        """Mark the work as done; with the rank of the sender, if it is a receive."""
        self._finish = None
        if source is not None:
            self._source = source

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the work is done; for a message only so long, as `WorkerContext.recv`.

        Without limit if that is 0, as PyTorch has it.
        """
        if self._finish is not None:
            limit_s = seconds(getattr(timeout, "total_seconds", lambda: timeout)()) or None
            self._finish(None if limit_s is None else monotonic() + limit_s)
            self.finished()
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Whether it is done; does what needs no waiting, for callers that poll."""
        if self._finish is not None and self._ready is not None and self._ready():
            self.wait()
        return self._finish is None

    is_success = is_completed

    def source_rank(self) -> int:
        """Rank of the sender, for a receive that is done; else -1."""
        return self._source

    _source_rank = source_rank  # PyTorch's `recv` asks for it by this name

    def result(self) -> Sequence[Any]:
        """The tensors."""
        return self._tensors

    def get_future(self) -> Any:
        """A future of PyTorch's with the tensors; waits."""
        self.wait()
        future = importlib.import_module("torch").futures.Future()
        future.set_result(self._tensors)
        return future


@cache
def _work_class(theirs: type) -> Any:
    """`Work` derived from PyTorch's class, as which C++ sees it."""
    return type("WorkerWork", (Work, theirs), {"__module__": __name__})


def work_of(
    tensors: Sequence[Any],
    finish: Callable[[float | None], None] | None = None,
    ready: Callable[[], bool] | None = None,
) -> Any:
    """Make `Work`, of PyTorch's class too."""
    made = _work_class(importlib.import_module("torch._C._distributed_c10d").Work)
    return made(tensors, finish, ready)


def done(tensors: Sequence[Any]) -> Any:
    """Work that is done when it begins; to be called by the method that returns it.

    Callers other than PyTorch's functions get PyTorch's own class, which does not take a limit: they may be
    C++, and some versions of that do not keep the Python part of an object, and wait forever for the rest.
    """
    if sys._getframe(2).f_globals.get("__name__") == HOME:  # noqa: SLF001 - there is no other way to know
        return work_of(tensors)
    future = importlib.import_module("torch").futures.Future()
    future.set_result(tensors)
    make = importlib.import_module("torch._C._distributed_c10d")._create_work_from_future  # noqa: SLF001
    return make(future)
