"""Objects pickled into bytes that planes carry, and made again of them; what to do where that fails."""

from __future__ import annotations

import io
import pickle
import queue
import threading
import types
from _thread import LockType, RLock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import PlaneError, UsageMistake
from disco_magic.phrases import class_name, words
from disco_magic.values.inside import parts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAMED: Final = "make the function with def, so that it has a name"
_ANEW: Final = " - a cell has defined its class anew since it was made: make it anew, too"
_LOCKS: Final = (
    LockType,
    RLock,
    threading.Condition,
    threading.Event,
    threading.Semaphore,
    threading.Thread,
    queue.Queue,
    queue.SimpleQueue,
)
_FILES: Final = (io.TextIOWrapper, io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
# What no pickle can hold, and what to pass instead of it.
_INSTEAD: Final = (
    ((types.GeneratorType,), "pass list(x)"),
    (_FILES, "pass its name, or what is read from it"),
    ((types.ModuleType,), "pass its name, and import it there"),
    (_LOCKS, "pass what it is for without it"),
)
_WITHOUT: Final = "leave it out, for example in a __getstate__ of the class that has it"


def packed(verb: str, x: Any) -> NDArray[np.uint8]:
    """`x` pickled, as an array of uint8."""
    try:
        return np.frombuffer(pickle.dumps(x, pickle.HIGHEST_PROTOCOL), np.uint8)
    except PlaneError:  # of a collective that its class has called
        raise
    except Exception as reason:
        told = f"{verb}: a {class_name(x)} cannot be pickled: {words(reason)}"
        _leave_out_ours(reason)
        raise UsageMistake(f"{told}{_remedy(x, told)}") from reason


def unpacked(verb: str, content: NDArray[np.uint8], sender: int) -> Any:
    """A new object from what `packed` has made on worker `sender`."""
    try:
        return pickle.loads(content.data)  # noqa: S301 - written by another worker of this session
    except PlaneError:
        raise
    except Exception as reason:
        _leave_out_ours(reason)
        raise UsageMistake(
            f"{verb}: what worker {sender} sent cannot be read here: {words(reason)}"
        ) from reason


def _remedy(x: Any, told: str) -> str:
    """Which part of `x` is in the way, and what to do; found without pickling, which may run user code."""
    if "<lambda>" in told:
        return f" - {_NAMED}"
    if "not the same object as __disco__." in told:
        return _ANEW
    for path, part in parts_of("x", x):
        for kinds, instead in _INSTEAD:
            if issubclass(type(part), kinds):
                return f" - {instead}" if path == "x" else f" - {path} is a {class_name(part)}: {_WITHOUT}"
    return ""


def _leave_out_ours(reason: Exception) -> None:
    """Remove the frame of ours that called `pickle`: below it are the user's own, if any."""
    trace = reason.__traceback__
    reason.__traceback__ = None if trace is None else trace.tb_next
