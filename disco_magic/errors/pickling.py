"""What of our exceptions goes with them when they are pickled, for process pools for instance.

An exception that cannot be pickled would take the place of the one that it is in, or break the pool.
"""

from __future__ import annotations

import pickle
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

# What belongs to the session or to IPython.
_LEFT_OUT: Final = frozenset({"result", "_render_traceback_"})


class Quoted(Exception):
    """Stands in for an exception that cannot be pickled; its text is the other's class and message."""


def portable(error: BaseException, summary: str) -> BaseException:
    """The exception, or `Quoted` if it is lost on the way to another process; `summary`: its text then.

    Runs the exception's own code: what pickles it, and what makes it again.
    """
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever the user's classes raise
        return Quoted(summary)
    return error


def portable_state(error: BaseException, but: Iterable[str] = ()) -> dict[str, Any]:
    """The attributes of one of our exceptions that can be pickled, without those called `but`."""
    state = {name: value for name, value in vars(error).items() if name not in _LEFT_OUT.union(but)}
    return {name: dict(value) if type(value) is MappingProxyType else value for name, value in state.items()}
