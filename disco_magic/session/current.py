"""The notebook's current session, and all sessions alive, so that none is left at exit."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from disco_magic.session.session import Session

_numbers = itertools.count(1)
_alive: weakref.WeakSet[Session] = weakref.WeakSet()
_current: weakref.ref[Session] | None = None


def enroll(session: Session) -> int:
    """Note a new session; its number."""
    _end_before_threads_are_joined()
    _alive.add(session)
    return next(_numbers)


def make_current(session: Session | None) -> None:
    """What `session` returns from now on; does not keep it alive."""
    global _current  # noqa: PLW0603 - one notebook, one current session: that is what the name means
    _current = None if session is None else weakref.ref(session)


def session() -> Session:
    """The notebook's current session.

    Raises:
        UsageMistake: there is none.
    """
    found = _current() if _current is not None else None
    if found is None or found.closed:
        raise UsageMistake("no session is running; start one with %disco start or disco.ThreadedSession(4)")
    return found


def _forked() -> None:
    for session_of_parent in list(_alive):
        session_of_parent.forsake("its worker threads did not survive the fork")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@atexit.register
def _shut_down_all() -> None:
    for open_session in list(_alive):
        with suppress(KeyboardInterrupt):  # Ctrl-C at the end means that the end is to come
            open_session.shutdown(timeout=0.0)


def _release_threads() -> None:
    for open_session in list(_alive):
        if not open_session.closed and open_session.ledger.expecting:
            open_session.shutdown(timeout=0.0)


@functools.cache
def _end_before_threads_are_joined() -> None:
    """Let no thread wait for a session at the interpreter's end.

    Python joins the threads that are no daemons before it calls what `atexit` knows; one that waits for a
    cell without end would be waited for without end. `concurrent.futures` ends its own threads by the same
    private means, last registered first: so it is imported before.
    """
    import concurrent.futures.thread  # noqa: F401 - see above

    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(_release_threads)
