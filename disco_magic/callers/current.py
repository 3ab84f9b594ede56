"""The worker whose code is calling, found by a context variable in its threads."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import ref

from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from disco_magic.core.place import Place


class CallingWorker(Protocol):
    """What can be known of a worker below `functions`, where it is made; a `WorkerContext` is one.

    Attributes:
        id, num_workers, session_id, device, place, thread: see `WorkerContext`.
        belongings: the worker's own versions of things that others have once, see `PerWorker`.
    """

    id: int
    num_workers: int
    session_id: int
    device: str
    place: Place
    thread: int
    belongings: dict[object, Any]

    @property
    def namespace(self) -> dict[str, Any]:
        """The dictionary of global variables of its cells."""
        ...

    @property
    def command(self) -> int | None:
        """Number of the command that its own thread is executing; None if there is none. From any thread."""
        ...

    def waits_for_me(self, other: int) -> Any:
        """The plane's `Wait` that worker `other` is in, if it waits for this worker; else None."""
        ...


# A weak reference in threads started by a worker's code: they may outlive the session.
_current: ContextVar[CallingWorker | ref[CallingWorker] | None] = ContextVar(
    "disco_magic_worker", default=None
)


class _Thread(threading.local):
    """The worker whose own thread the calling one is, or was until it was given up."""

    of: ref[CallingWorker] | None = None


_thread: Final = _Thread()


def become(worker: CallingWorker) -> None:
    """Let the calling code run on that worker from now on, in this thread, which may be a new one."""
    _thread.of = ref(worker)
    _current.set(worker)
    worker.thread = threading.get_ident()


def follow_worker(worker: CallingWorker) -> None:
    """Let the calling code be that worker's from now on, in a thread that it has started; see `adopted`."""
    _current.set(ref(worker))


def is_beside() -> bool:
    """Whether a worker's code is calling in a thread that it started, not in the worker's own thread."""
    me = _current.get()
    return me is not None and (isinstance(me, ref) or not _is_of(me))


def _is_of(worker: CallingWorker) -> bool:
    """Whether this is or was its own thread; others can carry its context, as `asyncio.to_thread` does."""
    return _thread.of is not None and _thread.of() is worker


def calling_worker() -> CallingWorker | None:
    """The worker whose code is calling, in its own thread or in one that it has started; else None."""
    me = _current.get()
    return me() if isinstance(me, ref) else me


def is_given_up() -> bool:
    """Whether the calling thread was a worker's own and has been replaced."""
    me = _current.get()
    if me is None or isinstance(me, ref) or me.thread == threading.get_ident():
        return False
    return _is_of(me)


def on_worker_of(session_id: int) -> CallingWorker | None:
    """The worker of that session whose own thread is calling; None in any other thread."""
    me = _current.get()
    return me if me is not None and not isinstance(me, ref) and me.session_id == session_id else None


def refuse_in_worker(session_id: int, what: str, instead: str = "") -> None:
    """Raise UsageMistake if the calling code runs on a worker of that session: it would wait for itself."""
    me = on_worker_of(session_id)
    if me is not None:
        here = f"; here it is {instead}" if instead else ""
        raise UsageMistake(
            f"{what} was called on worker {me.id} of the same session, which would wait for itself; "
            f"call it in your program or notebook, outside of cells and functions that workers execute{here}"
        )
