"""Starts the notebook's session when it is needed, finds it again, and stops it."""

from __future__ import annotations

import logging
import sys
import time
from argparse import Namespace
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from html import escape
from typing import TYPE_CHECKING, Final
from weakref import ref

from disco_magic.core.markup import LINE_FONT, LINE_INDENT
from disco_magic.core.mesh import NO_MESH
from disco_magic.errors import UsageMistake
from disco_magic.notebook.facade import cell_extras
from disco_magic.notebook.option_types import SESSION, mesh_named, modules_named
from disco_magic.session.sigint import import_whole
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.core.mesh import Mesh
    from disco_magic.notebook.magics import DiscoMagics
    from disco_magic.notebook.shell import Shell
    from disco_magic.session.session import Session


# The options of ``%disco start``, none of which is given: all is as configured.
_AS_CONFIGURED: Final = Namespace(**dict.fromkeys(SESSION))


def _plane_and_devices(settings: DiscoMagics, wanted: Namespace) -> tuple[str, str]:
    """The plane and the devices; an option of the line overrides a setting that it contradicts."""
    from disco_magic.session.equipment import contradicts

    plane, where = wanted.ccl or settings.ccl, wanted.devices or settings.devices
    if wanted.devices is None:
        if plane == "threads":  # the plane for the CPU, whichever GPUs there are
            where = "cpu"
        elif contradicts(plane, where):
            where = "auto"
    elif wanted.ccl is None and contradicts(plane, where):
        plane = "auto"
    return plane, where


def _mesh_and_number(
    settings: DiscoMagics, wanted: Namespace, where: str, plane: str
) -> tuple[Mesh, int | None]:
    """The mesh and the number of workers; a mesh also overrides a number that was not set explicitly."""
    from disco_magic.session.equipment import count_of

    mesh = mesh_named(settings.mesh if wanted.mesh is None else wanted.mesh)
    said = count_of(wanted.devices) if wanted.workers is None else wanted.workers
    if wanted.mesh is None and said not in (None, mesh.num_workers):
        mesh = NO_MESH
    if wanted.workers is not None:
        return mesh, wanted.workers
    if mesh and (wanted.mesh is not None or "workers" not in settings.chosen):
        return mesh, mesh.num_workers
    return mesh, settings.workers_for(where, plane)


class SessionKeeper:
    """Holds the session that the magics started; the current one may also come from Python code."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._own: Session | None = None
        self._starting = new_rlock()
        self._used: ref[Session] | None = None  # by the last cell
        # A context variable: live views look at the session from other threads meanwhile.
        self._aimed: ContextVar[Session | None] = ContextVar("disco_magic_aimed_at", default=None)

    @contextmanager
    def aimed_at(self, session: Session) -> Iterator[None]:
        """In the ``with`` block, make `session` the current one for the calling code only."""
        from disco_magic.session.current import make_current

        former = self.find()
        token = self._aimed.set(session)
        try:
            yield
        finally:
            self._aimed.reset(token)
            if former is not None and not former.closed and self.find() is not former:
                make_current(former)  # the other session was restarted, which had made it current

    def find(self) -> Session | None:
        """The current session (`disco_magic.session()`), or None."""
        aimed = self._aimed.get()
        return self._current() if aimed is None else aimed

    def _current(self) -> Session | None:
        if "disco_magic.session.current" not in sys.modules:  # there is no session; importing it loads NumPy
            return None
        from disco_magic.session.current import open_sessions

        return next(reversed(open_sessions()), None)

    def is_current(self, session: Session) -> bool:
        """Whether `session` is the one that commands and cells without a session name use."""
        return self._current() is session

    def holders(self, name: str) -> list[int]:
        """The workers of the current session that have a register of this name."""
        session = self.find()
        return [] if session is None else session.ledger.names.holders(name)

    def require(self) -> Session:
        """The current session."""
        session = self.find()
        if session is None:
            raise UsageMistake("no session is running; start one with %disco start")
        return session

    def ensure(self, settings: DiscoMagics) -> Session:
        """The current session, or a new one as configured."""
        session = self.find()
        if session is None:
            with self._starting:  # two threads, or a cell and one of a subshell, may both be the first
                session = self.find()
                return self.start(settings) if session is None else session
        if self._aimed.get() is not None:
            return session
        former = None if self._used is None else self._used()
        self._used = ref(session)
        if former is not None and former is not session and not former.closed:
            self.say(
                f"cells run in {session!r} now, which was made last; "
                f"session {former.id} goes on, and has them again when this one ends"
            )
        return session

    def start(self, settings: DiscoMagics, wanted: Namespace = _AS_CONFIGURED) -> Session:
        """Start a session and print one line about it, once every worker has answered.

        The line has the time it took only with the output mode ``live``, so that it is otherwise always the
        same.
        """
        began = time.perf_counter()
        import_whole("disco_magic.session.config")
        from disco_magic.notebook.output.arrival import ShownWait, await_workers
        from disco_magic.session.config import ThreadedSession, check_plane
        from disco_magic.session.current import at_end

        plane, where = _plane_and_devices(settings, wanted)
        check_plane(wanted.kind or settings.kind, plane)
        mesh, number = _mesh_and_number(settings, wanted, where, plane)
        session = ThreadedSession(
            number,
            settings.groups if wanted.groups is None else wanted.groups,
            mesh=mesh,
            ccl=plane,
            devices=where,
            own_modules=modules_named(
                settings.own_modules if wanted.own_modules is None else wanted.own_modules
            ),
            extras=cell_extras,
        )
        self._own, self._used = session, ref(session)
        session.interrupting = "%disco interrupt"
        session.show_wait = partial(ShownWait, self._shell, settings)
        at_end(log_to_terminal)
        await_workers(session, self._shell, settings.output)
        why = f" ({session.why})" if session.devices and session.why else ""
        took = f" \u00b7 {time.perf_counter() - began:.2f} s" if settings.output == "live" else ""
        self.say(f"{session!r}{why}{took}")
        return session

    def close(self) -> None:
        """Stop the session that the magics started, if it is alive. Sessions made by user code stay."""
        if (session := self._let_go()) is not None:
            session.shutdown(timeout=0.0)

    def end_with_kernel(self) -> None:
        """Likewise, and all other sessions, as the kernel ends; the terminal shows what was still running."""
        if (session := self._let_go()) is not None:
            log_to_terminal()
            session.end_with_program(0.0)
        if "disco_magic.session.current" in sys.modules:
            from disco_magic.session.current import end_all

            end_all()

    def _let_go(self) -> Session | None:
        session, self._own = self._own, None
        return session

    def say(self, text: str) -> None:
        """Show a line: HTML in a notebook, where it looks like a printed one, and text in a terminal."""
        html = f'<div style="{LINE_FONT};{LINE_INDENT}">{escape(text)}</div>'
        self._shell.display_pub.publish({"text/plain": text, "text/html": html})


def log_to_terminal() -> None:
    """Let our warnings, such as that cells were still running, go to the process's own stderr. Idempotent.

    No front end shows what a kernel prints as it ends; the terminal of a tool that executes notebooks does.
    """
    if sys.__stderr__ is not None and sys.stderr is not sys.__stderr__:
        logging.getLogger("disco_magic").addHandler(_terminal())


@cache
def _terminal() -> logging.Handler:
    return logging.StreamHandler(sys.__stderr__)
