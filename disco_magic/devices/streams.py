"""Streams of workers, used again by later workers of the process.

cupy keeps freed memory for the stream that it was allocated on. What a destroyed stream had freed would be of
use to nobody: every restart of a session would take as much of the GPU again. And CUDA may give a destroyed
stream's address to a new one, which cupy would then lend memory that the old one's work still uses.
"""

from __future__ import annotations

from typing import Any, Final

from disco_magic.locks import new_lock

_choosing: Final = new_lock()
_free: Final[dict[tuple[Any, int], list[Any]]] = {}  # by cupy and GPU; in the order in which they came back


def take(cupy: Any, index: int) -> Any:
    """A stream of that GPU, the current one: one that came back and has nothing left to do, or a new one.

    It does not wait for the default stream.
    """
    with _choosing:
        free = _free.get((cupy, index), [])
        for place, stream in enumerate(free):
            if stream.done:  # not one with a kernel that never ends, which a restart is to get rid of
                return free.pop(place)
    return cupy.cuda.Stream(non_blocking=True)


def give_back(cupy: Any, index: int, stream: Any) -> None:
    """Let a later worker have a stream. What its former owner still queues there only takes time."""
    _free.setdefault((cupy, index), []).append(stream)


def forget(cupy: Any) -> None:
    """Drop what belongs to a `cupy` that nobody uses any more, a simulated one."""
    with _choosing:
        for key in [key for key in _free if key[0] is cupy]:
            del _free[key]
