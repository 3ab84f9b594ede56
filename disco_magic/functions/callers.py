"""`worker` as files and functions have it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.functions.context import WorkerContext


class CallersWorker:
    """`worker` of files and functions: it is called, ``worker()``, or used as in cells, ``worker.id``.

    Args:
        asked: gives the worker that calls, or raises UsageMistake.
    """

    def __init__(self, asked: Callable[[], WorkerContext]) -> None:
        functools.update_wrapper(self, asked)
        self._asked = asked

    def __call__(self) -> WorkerContext:
        """The worker that executes the calling function."""
        return self._asked()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python and others look for at functions
            raise AttributeError(name)
        return getattr(self._asked(), name)

    def __repr__(self) -> str:
        try:
            return repr(self._asked())
        except UsageMistake:
            return "<disco_magic.worker: of the worker that calls it>"

    def __reduce__(self) -> str:
        return "worker"
