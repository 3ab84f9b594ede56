"""Streams of workers, used again by later workers of the process.

cupy keeps freed memory for the stream that it was allocated on. What a destroyed stream had freed would be of
use to nobody: every restart of a session would take as much of the GPU again. And CUDA may give a destroyed
stream's address to a new one, which cupy would then lend memory that the old one's work still uses.

A thread that was given up may go on, and queue more on its stream, into a CUDA graph that the next owner
records. So a stream waits until its owner's threads have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.threads.ends import has_ended
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

_choosing: Final = new_lock()
# By cupy and GPU: streams, and who may still use them; in the order in which they came back.
_free: Final[dict[tuple[Any, int], list[tuple[Any, Sequence[threading.Thread]]]]] = {}


def take(cupy: Any, index: int) -> Any:
    """A stream of that GPU, the current one: one that came back and has nothing left to do, or a new one.

    It does not wait for the default stream.
    """
    with _choosing:
        free = _free.get((cupy, index), [])
        place = next((at for at, (stream, users) in enumerate(free) if _has_ended(stream, users)), None)
        if place is not None:
            return free.pop(place)[0]
    return cupy.cuda.Stream(non_blocking=True)


def _has_ended(stream: Any, users: Sequence[threading.Thread]) -> bool:
    """Whether it has nothing left to do; not if a kernel never ends, which a restart is to get rid of."""
    return all(map(has_ended, users)) and stream.done


def give_back(cupy: Any, index: int, stream: Any, users: Sequence[threading.Thread]) -> None:
    """Let a later worker have a stream once all threads in `users` have ended."""
    _free.setdefault((cupy, index), []).append((stream, users))


def forget(cupy: Any) -> None:
    """Drop what belongs to a `cupy` that nobody uses any more, a simulated one."""
    with _choosing:
        for key in filter(lambda key: key[0] is cupy, [*_free]):
            del _free[key]
