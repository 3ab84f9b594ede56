"""The session: its start, restart and shutdown. Everything else comes from the mixins imported here."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, Self

from disco_magic.callers.current import refuse_in_worker
from disco_magic.core.messages import Stop
from disco_magic.core.numbers import seconds
from disco_magic.core.words import plural
from disco_magic.errors import UsageMistake, is_told
from disco_magic.offers import Offers
from disco_magic.session import current
from disco_magic.session.cells import Cells
from disco_magic.session.checking import Checks
from disco_magic.session.elsewhere import Elsewhere
from disco_magic.session.host_arrays import HostArrays
from disco_magic.session.interrupts import Interrupting
from disco_magic.session.looks import Looks
from disco_magic.session.modules import Modules
from disco_magic.session.names import NamedRegisters
from disco_magic.session.parameters import Parameters
from disco_magic.session.placement import Placement
from disco_magic.session.pump import attentive, sigint_held_back
from disco_magic.session.queues import MAX_OUTSTANDING
from disco_magic.session.recording import Recording
from disco_magic.session.refusing_lock import RefusingLock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.doctor import Position
    from disco_magic.core.interfaces import Launcher
    from disco_magic.core.topology import Topology
    from disco_magic.session.config import Preset

__tracebackhide__ = is_told

# fmt: off
_BETWEEN_PARTS: Final = frozenset({
    "adopt_orphans", "ask", "await_all", "beside", "bind", "call_all", "check_destination", "check_present",
    "check_workers", "circles_of_marks",
    "diagnosis", "drops", "end_with_program", "failures_of_handles", "fetch", "flush",
    "former_names", "forsake", "forsaken",
    "give_back", "interrupt_through", "interrupting", "issue", "joined", "keep_pace", "known",
    "ledger", "let_go", "life", "log_failures",
    "log_unfinished", "log_unraised", "log_use_at_end", "names_now", "on_worker_0", "open", "orphan", "own",
    "patience", "picture",
    "raise_failures", "raise_what_failed", "refuse_unknown", "replace_stuck", "see_stopped",
    "show_wait", "skip_unbegun", "send", "sent_from", "set_register", "stopping", "store", "store_copy",
    "succeed",
    "take_failures", "taking_part", "too_late", "unheard", "unraised", "withdraw", "with_where_sent",
})
# fmt: on


class Session(
    Cells,
    HostArrays,
    NamedRegisters,
    Looks,
    Recording,
    Checks,
    Placement,
    Modules,
    Parameters,
    Interrupting,
    Offers,
    Elsewhere,
):
    """A controller and its workers; use a preset such as `ThreadedSession` to make one.

    Attributes:
        id: number of the session in this process.
        kind: ``"threads"``.
        num_workers, num_groups, group_size: workers of group g are ``g*group_size .. (g+1)*group_size - 1``.
        mesh: `Mesh` of the axes that it was started with, false without any; shows which worker is where.
        device: where the workers' arrays live, in words: ``"cpu"``, ``"cuda:0"``, ``"cuda:[0-3]"``.
        devices: each worker's GPU; empty on the CPU.
        plane_name: what carries collectives, ``"threads"``.
        own_modules: names of what each worker imports for itself. None: ``"."`` from its first program on.
        closed: whether it was shut down.
    """

    _not_offered = _BETWEEN_PARTS

    def __init__(
        self,
        topology: Topology,
        preset: Preset,
        *,
        max_outstanding: int = MAX_OUTSTANDING,
        timeout: float | None = None,
    ) -> None:
        super().__init__(topology, max_outstanding, timeout)
        self.kind = preset.kind
        self.device = preset.device
        self.devices = preset.devices
        self.plane_name = preset.carrier
        self.own_modules = preset.own_modules
        self._preset = preset
        self._restarting = RefusingLock()  # two at once would start workers that no session holds
        self.id = current.new_number()
        self._begin()

    @property
    def why(self) -> str:
        """Why these devices and this data plane were chosen, in words, if the caller did not choose."""
        return self._preset.why

    def _begin(self) -> None:
        with attentive() as inbox:  # a SIGINT half-way would leave threads that nothing can end
            self._start_workers()
        if not inbox.empty():
            self.shutdown(timeout=0.0)
            raise KeyboardInterrupt("interrupted while the workers were started")

    def _start_workers(self) -> None:
        self.open(self._preset.launcher(self.topology, self.id))
        current.enroll(self)
        current.make_current(self)

    def shutdown(self, timeout: float | None = 5.0) -> None:
        """End all workers. Idempotent.

        Failures that were never raised are logged as a warning, which Python writes to stderr. So is work
        that was interrupted because its time was over.

        Args:
            timeout: seconds that commands already sent may still take; then the rest is interrupted, and what
                has not ended half a second later is left running. 0 interrupts at once, and so does Ctrl-C
                during the wait. None: no limit.

        Example:
            >>> fresh = disco.ThreadedSession(2)
            >>> fresh.shutdown()
            >>> fresh.closed
            True
        """
        unfinished = self._end(timeout)
        self.log_failures()
        if unfinished and timeout:
            self.log_unfinished(f"shutdown has waited for {timeout:g} s", unfinished)

    def end_with_program(self, timeout: float) -> None:
        """Shut down as `shutdown` does, because the program ends; `timeout` as there."""
        is_used = self.ledger.expecting and _threads_go_on()
        self.end = "the program has ended"
        unfinished = self._end(timeout)
        self.log_failures()
        self.log_unfinished("the program has ended", unfinished)
        if is_used and not unfinished:  # else that line is said
            self.log_use_at_end()

    def _end(self, timeout: float | None) -> Sequence[Position]:
        """End all workers; return what they were doing when the time was over."""
        refuse_in_worker(self.id, "shutdown")
        patience = seconds(timeout)
        for handle in list(self.unraised.values()) if not self.closed else ():
            if (cell := handle()) is not None:
                cell.session_ends()
        with attentive() as inbox:  # a SIGINT between closing and telling workers would leave them running
            launcher, through = self._locked(self._close)
        if launcher is None:
            return ()
        try:
            if not inbox.empty():
                raise KeyboardInterrupt("shutdown was interrupted")  # noqa: TRY301 - as one that comes later
            unfinished = launcher.stop(threading.TIMEOUT_MAX if patience is None else patience, through)
        except KeyboardInterrupt:
            launcher.stop(0.0, through)
            self._locked(partial(self._note_end, launcher))
            raise
        self._locked(partial(self._note_end, launcher))
        return unfinished

    def _end_at_once(self) -> KeyboardInterrupt | None:
        """End all workers, also if a Ctrl-C comes meanwhile, which is returned."""
        try:
            self._end(0.0)
        except KeyboardInterrupt as struck:
            return struck
        return None

    def _note_end(self, launcher: Launcher) -> None:
        # Another thread may have restarted the session meanwhile: its new workers have not ended.
        self._taken_down = self._taken_down or launcher is self._launcher

    def _close(self) -> tuple[Launcher | None, int]:
        """Close this life unless it is closed; return the launcher to stop, if any, and its last command."""
        if not self.closed:
            try:
                self._send(Stop(self.ledger.issue()), self._everybody)
            finally:  # Stop went to all workers: nothing sent after it would be executed
                self.closed = True
            for channel in self._channels:
                channel.close()
        return (None, 0) if self._taken_down else (self._launcher, self.ledger.seq)

    def forsake(self, why: str) -> None:
        """Close without telling the workers, which do not exist here: in the child process after a fork."""
        self.end = why
        self.closed = self._taken_down = self.forsaken = True
        # Threads that do not exist here may hold the old locks.
        self._locked, self._restarting = RefusingLock(), RefusingLock()
        self._launcher.forsake(f"this is a forked process, and of session {self.id} {why}")

    def restart(self) -> None:
        """Interrupt all workers and start new ones: same session, same worker ids, empty registers.

        Raises:
            KeyboardInterrupt: Ctrl-C or the stop button, once the new workers are there.

        Example:
            >>> session.put("x", 1)
            >>> session.restart()
            >>> session.names()
            ()
        """

        def act() -> None:
            self._is_restarting = True
            try:
                # Half-way there would be no workers, and nobody to know of which kind.
                with sigint_held_back():
                    lost = self.former_names.union(self.names())
                    struck = self._end_at_once()
                    self.log_unraised()
                    self._futures = 0
                    self._start_workers()
                    self.ledger.names.lost = lost
                if struck is not None:
                    raise struck
            finally:
                self._is_restarting = False

        refuse_in_worker(self.id, "restart")  # before waiting for another thread's restart
        self._restarting(act)

    def __enter__(self) -> Self:
        if self.closed:
            self._refuse()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """After an exception, shut down at once; otherwise finish what was sent and raise what failed.

        That includes failures of cells whose handles were never waited for: no later wait could raise them.
        """
        if kind is not None or self.closed:
            self._end(0.0)
            self.log_failures()  # they may have led to that exception
            return
        try:
            self.sync_all()
            self.raise_failures(self.failures_of_handles())
        except KeyboardInterrupt:
            self.shutdown(timeout=0.0)
            raise
        finally:
            self.shutdown()

    def __del__(self) -> None:
        # Dropped without shutdown: let the threads end after what they execute now; an endless command goes
        # on. A finalizer may write queues and attributes, but must not take a lock.
        if not getattr(self, "closed", True):
            last = self.ledger.seq + 1
            for send in self._sends:
                send(Stop(last))

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise UsageMistake(
            f"session {self.id} cannot be copied or pickled: it is the one that has the workers - "
            "on a worker, disco_magic.worker() is what it needs"
        )

    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse_copy

    def __repr__(self) -> str:
        groups = f" in {self.num_groups} groups" if self.num_groups > 1 else ""
        groups += f" \u00b7 mesh {self.mesh.words}" if self.mesh else ""
        state = " · closed" if self.closed else ""
        workers = plural(self.num_workers, "worker")
        return (
            f"Disco session {self.id}: {workers}{groups} · {self.kind} · {self.device} · "
            f"plane {self.plane_name}{state}"
        )


def _threads_go_on() -> bool:
    """Whether the program has threads that Python waits for at its end, also of executors."""
    return any(not each.daemon and each is not threading.main_thread() for each in threading.enumerate())
