"""The `worker` that files and functions import."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_Worker = TypeVar("_Worker")


class NoWorker(UsageMistake, AttributeError):
    """An attribute of `worker` was read outside of a worker; an AttributeError, for `hasattr`."""


class CallersWorker(Generic[_Worker]):
    """The `worker` of files and functions: call it, ``worker()``, or use it as in cells, ``worker.id``.

    Args:
        asked: returns the calling worker, or raises UsageMistake.
    """

    _asked: Callable[[], _Worker]

    def __init__(self, asked: Callable[[], _Worker]) -> None:
        vars(self).update(_asked=asked)
        functools.update_wrapper(self, asked)

    def steps(self, items: Iterable[Any]) -> Iterable[Any]:
        """As `WorkerContext.steps`; outside of a worker `items` themselves: programs run elsewhere, too."""
        try:
            me = self._asked()
        except UsageMistake:
            return items
        stepped: Iterable[Any] = me.steps(items)  # type: ignore[attr-defined]
        return stepped

    def __call__(self) -> _Worker:
        """Return the worker that executes the calling function."""
        return self._asked()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python and libraries look up on functions
            raise AttributeError(name)
        try:
            me = self._asked()
        except UsageMistake as mistake:
            raise NoWorker(str(mistake)) from None
        return getattr(me, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):  # this object's own attribute
            vars(self)[name] = value
        else:
            setattr(self._asked(), name, value)

    def __dir__(self) -> Iterable[str]:
        try:
            return dir(self._asked())
        except UsageMistake:
            return super().__dir__()

    def __repr__(self) -> str:
        try:
            return repr(self._asked())
        except UsageMistake:
            return "<disco_magic.worker: of the worker that calls it>"

    def __reduce__(self) -> str:
        return "worker"
