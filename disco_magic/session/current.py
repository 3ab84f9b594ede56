"""The notebook's current session, and all live sessions, which are shut down at exit."""

from __future__ import annotations

import atexit
import functools
import itertools
import logging
import os
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from disco_magic.callers.current import calling_worker
from disco_magic.callers.namespaces import prefer
from disco_magic.errors import UsageMistake
from disco_magic.launchers.last_calls import await_calls
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.session.session import Session

_LOG: Final = logging.getLogger("disco_magic")
_AT_EXIT_S: Final = 0.1
"""Seconds that commands may still take after the program's end, in all sessions; enough for small calls."""

_numbers = itertools.count(1)
# Guards both, which threads of the user's may change at once.
_lock: Final = new_rlock()
_alive: weakref.WeakSet[Session] = weakref.WeakSet()
# Sessions that were made current, the latest last. Replaced as a whole: readers need no lock.
_chosen: list[weakref.ref[Session]] = []
_preparing: dict[Callable[[], None], None] = {}


def new_number() -> int:
    """Return the number of a new session."""
    return next(_numbers)


def enroll(session: Session) -> None:
    """Register a session that has workers. Idempotent."""
    _end_before_threads_are_joined()
    with _lock:
        _alive.add(session)


def make_current(session: Session | None) -> None:
    """Make `session` the one that `session()` returns; None: forget all that were made current.

    This does not keep it alive. When it ends, the open session before it is current again. A session that
    is made on a worker, by a cell or a library function, never becomes the notebook's.
    """
    global _chosen  # noqa: PLW0603 - one notebook, one current session: that is what the name means
    if session is None:
        _chosen = []
    elif calling_worker() is None:
        with _lock:
            _chosen = [*filter(lambda each: each() not in (None, session), _chosen), weakref.ref(session)]
        prefer(session.id)


def session() -> Session:
    """Return the notebook's current session: of the open ones, the one started or restarted last.

    Raises:
        UsageMistake: there is none.

    Example:
        >>> disco.session() is session
        True
    """
    found = open_sessions()
    if found:
        return found[-1]
    raise UsageMistake("no session is running; start one with %disco start or disco.ThreadedSession(4)")


def open_sessions() -> list[Session]:
    """Return the notebook's open sessions, the current one last."""
    return [each for one in _chosen if (each := one()) is not None and not each.closed]


def _living() -> list[Session]:
    with _lock:
        return list(_alive)


def _forked() -> None:
    for session_of_parent in _living():
        session_of_parent.forsake("its worker threads did not survive the fork")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@atexit.register
def end_all() -> None:
    """End all sessions, because the program ends."""
    _end(_living())
    with suppress(KeyboardInterrupt):
        await_calls()


def _release_threads() -> None:
    _end([each for each in _living() if not each.closed and each.ledger.expecting])


def at_end(prepare: Callable[[], None]) -> None:
    """Let `prepare` be called before sessions are shut down because the program ends. Idempotent."""
    _preparing[prepare] = None


def _end(sessions: Sequence[Session]) -> None:
    for prepare in _preparing:
        prepare()
    until = time.monotonic() + _AT_EXIT_S
    for each in sessions:
        try:
            each.end_with_program(max(0.0, until - time.monotonic()))
        except KeyboardInterrupt:
            pass  # it only asks for the end, which goes on
        except Exception:  # noqa: BLE001 - the other sessions have to end, too
            _LOG.exception("session %d could not be ended", each.id)


@functools.cache
def _end_before_threads_are_joined() -> None:
    """Shut sessions down early enough that no thread waits for one at the interpreter's end.

    Python joins non-daemon threads before it runs the `atexit` functions, and would hang on a thread that
    waits for an endless cell. `concurrent.futures` ends its threads through the same private hook, which
    runs the last registered function first; it is imported here so that ours runs before its.
    """
    import concurrent.futures.thread  # noqa: F401 - see above

    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(_release_threads)
