"""Cells: source text that all workers execute, each in its own namespace."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from disco_magic.callers.current import refuse_in_worker
from disco_magic.core.messages import Run
from disco_magic.core.numbers import truth
from disco_magic.errors import SyncTimeout, UsageMistake, WorkerError, is_told
from disco_magic.functions.execution.cells import Cell, compile_cell
from disco_magic.functions.execution.printed import Printed
from disco_magic.functions.execution.scripts import compile_file, compile_module, refresh
from disco_magic.session.dref import CellValues
from disco_magic.session.failures import Failures
from disco_magic.session.pending import PendingCell
from disco_magic.session.pump import attentive, take_sigint
from disco_magic.session.sigint import interrupt

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from disco_magic.functions.execution.running import CellScope
    from disco_magic.session.pump import CellInbox
    from disco_magic.session.results import CellResult
    from disco_magic.session.session import Session

__tracebackhide__ = is_told


# Cells whose handles were dropped are looked at by the next wait, or when there are so many.
_MOST_ORPHANS: Final = 100


class Cells(Failures):
    """The mixin of `Session` that runs cells, files and modules."""

    _futures = 0  # see `Cell`

    def run(
        self,
        code: str | Cell,
        *,
        workers: Sequence[int] | None = None,
        timeout: float | None = None,
        rendezvous: bool = False,
        scope: CellScope | None = None,
    ) -> CellResult:
        """Execute a cell on the workers and wait for it, as ``%%disco`` does.

        Args:
            code: Python source, or a compiled `Cell`.
            workers: ids of the workers that run it; None: all.
            timeout: seconds after which it is stopped; None: `self.timeout`.
            rendezvous: True makes each `send` wait until a `recv` asks for its message, so that programs that
                rely on buffers fail here as they do with NCCL, and with MPI for large messages.
            scope: where a front end wants the output; None: to `sys.stdout` and `sys.stderr`, in whole lines
                after the worker's number. An unfinished line is written when the cell ends, or at once if
                only one worker runs it.

        Returns:
            CellResult: the last expression's value per worker.

        Raises:
            SyntaxError: nothing was sent.
            CellError, SyncTimeout, KeyboardInterrupt: see `PendingCell.wait`.

        Example:
            >>> session.run("x = np.arange(3) + worker_id; int(x.sum())").values
            [3, 6, 9, 12]
        """
        refuse_in_worker(self.id, "run")
        limit = self.patience(timeout)
        self.keep_pace(limit, "the cell")  # outside `attentive`: here Ctrl-C still ends the wait
        workers = None if workers is None else self.check_workers(workers)
        scope = self._printed(workers) if scope is None else scope
        pending = None
        try:
            with attentive() as inbox:
                pending = self.run_nowait(
                    code, workers=workers, rendezvous=rendezvous, scope=scope, inbox=inbox
                )
                with suppress(WorkerError, SyncTimeout):  # raised below, unless a SIGINT comes before
                    pending.wait(limit, stop=True)
            pending.note_late_sigint()
            return pending.wait()
        finally:
            del pending  # error -> traceback -> this frame -> pending -> error would keep the cell's arrays

    def run_file(
        self,
        path: str | os.PathLike[str],
        *arguments: str,
        workers: Sequence[int] | None = None,
        timeout: float | None = None,
        rendezvous: bool = False,
        reload: bool = False,
    ) -> CellResult:
        """Execute a file of Python on the workers as a cell and wait for it: ``mpiexec python train.py``.

        It runs among the workers' registers and binds more of them. ``__name__ == "__main__"`` is true in it;
        ``__file__`` is its path, and stays bound. For the workers that execute it, `sys.argv` is the
        program's. While it runs, its folder comes first in the import path of the whole process: if two
        programs' folders have modules of the same name, both get the one that is imported first. A warning
        names modules next to it that have changed since an earlier run imported them.

        Args:
            path: of the file, or of a folder with a ``__main__.py``.
            *arguments: its command-line arguments, for ``sys.argv[1:]``.
            workers: as `run`.
            timeout: as `run`.
            rendezvous: as `run`.
            reload: True imports the modules next to it, and below, anew. Code that holds the old ones keeps
                them.

        Returns:
            CellResult: what each worker printed, and its time; it has no value.

        Raises:
            UsageMistake: it cannot be read; nothing was sent.
            SyntaxError, CellError, SyncTimeout, KeyboardInterrupt: as `run`.
        """
        rendezvous, reload = _flags("run_file", rendezvous=rendezvous, reload=reload)
        program = replace(compile_file(path, arguments), rendezvous=rendezvous)
        return self._run_program(program, workers, timeout, reload=reload)

    def run_module(
        self,
        name: str,
        *arguments: str,
        workers: Sequence[int] | None = None,
        timeout: float | None = None,
        rendezvous: bool = False,
        reload: bool = False,
    ) -> CellResult:
        """Execute a module as the program of all workers and wait for it: ``python -m package.train``.

        As `run_file`, but the program is found by name, first in the working directory of the process and
        then where modules are imported from. Its relative imports begin at its package, which the workers
        import first. Of a package, its ``__main__`` is executed.

        Args:
            name: of the module, ``"package.train"``.
            *arguments: its command-line arguments, for ``sys.argv[1:]``.
            workers: as `run`.
            timeout: as `run`.
            rendezvous: as `run`.
            reload: as `run_file`; the program's modules are those in and below the folder that has its
                outermost package.

        Returns:
            CellResult: what each worker printed, and its time; it has no value.

        Raises:
            UsageMistake: there is no such module, or it has no source; nothing was sent.
            SyntaxError, CellError, SyncTimeout, KeyboardInterrupt: as `run`.
        """
        rendezvous, reload = _flags("run_module", rendezvous=rendezvous, reload=reload)
        program = replace(compile_module(name, arguments), rendezvous=rendezvous)
        return self._run_program(program, workers, timeout, reload=reload)

    def _run_program(
        self, program: Cell, workers: Sequence[int] | None, timeout: float | None, *, reload: bool
    ) -> CellResult:
        said = refresh(program, lambda _: False, reload=reload)
        if said:
            warnings.warn(f"{said}; reload=True imports it anew", stacklevel=3)
        return self.run(program, workers=workers, timeout=timeout)

    def run_nowait(
        self,
        code: str | Cell,
        *,
        workers: Sequence[int] | None = None,
        rendezvous: bool = False,
        scope: CellScope | None = None,
        inbox: CellInbox | None = None,
    ) -> PendingCell:
        """Send a cell and return at once; waits only if a worker is `max_outstanding` commands behind.

        If another stream has replaced `sys.stdout` (as IPython's prompt does in a terminal), output goes
        there unchanged and is not in the result.

        Args:
            code: source text as for `run`, or what `compile_cell` made of it.
            workers: ids of those that execute it; None: all.
            rendezvous: whether each `send` in it waits for its `recv`, as NCCL's and MPI's may.
            scope: what a front end wraps around it on each worker; None: its output is printed.
            inbox: the inbox of `pump.attentive`, if the caller goes on to wait: a SIGINT that arrives in it
                stops the cell.

        Returns:
            PendingCell: ``wait(timeout)``, ``result()``, ``cancel()``, or ``await`` it. These raise the
            cell's failures; if the handle is dropped before, the session's next wait does.

        Raises:
            UsageMistake: `code` is not text, or a worker does not exist.
            SyntaxError: it cannot be compiled.
            SessionClosed, SessionBroken: nothing was sent.

        Cost: 0.1 ms, most of it for compiling.

        Example:
            >>> handle = session.run_nowait("allreduce(worker_id)")
            >>> handle.wait(timeout=60).values
            [np.int64(6), np.int64(6), np.int64(6), np.int64(6)]
        """
        if not isinstance(code, str | Cell):
            raise UsageMistake(f"run takes a cell's source text, got {type(code).__name__}")
        cell = compile_cell(code, futures=self._futures) if isinstance(code, str) else code
        if truth("run", "rendezvous", rendezvous):
            cell = replace(cell, rendezvous=True)
        present = None if workers is None else self.check_workers(workers)
        self._futures |= cell.futures
        scope = self._printed(present) if scope is None else scope
        if not isinstance(scope, Printed):
            return self._run_nowait(cell, present, scope, inbox)
        try:
            scope.open()
            return self._run_nowait(cell, present, scope, inbox)
        except BaseException:
            scope.close()
            raise

    def _printed(self, workers: tuple[int, ...] | None) -> Printed:
        return Printed(workers or self._everybody, self.num_workers)

    def _run_nowait(
        self, cell: Cell, workers: tuple[int, ...] | None, scope: CellScope, inbox: CellInbox | None
    ) -> PendingCell:
        chosen = workers or self._everybody
        contexts = {worker: scope.context(worker) for worker in chosen}
        self.keep_pace(verb="the cell")
        if self._orphans.qsize() >= _MOST_ORPHANS:  # of a program that drops all handles and never waits
            self.adopt_orphans()

        def act(inbox: CellInbox) -> PendingCell:
            me = cast("Session", self)
            seq, kills = self._ordinal(chosen)
            values = CellValues(me, self.ledger.new_register(), cell.label)
            if len(chosen) < self.num_workers:
                values.sent_to = chosen
            self._pump.expect(seq, chosen, inbox)
            self._launcher.prepare(seq, scope, contexts)
            self._send(Run(seq, values.register, cell, kills, workers), chosen)
            return PendingCell(me, cell, seq=seq, workers=chosen, inbox=inbox, values=values, scope=scope)

        if inbox is not None:
            return self._locked(partial(act, inbox))
        sent: list[PendingCell] = []
        try:
            with attentive() as attended:
                sent.append(self._locked(partial(act, attended)))
            if not take_sigint(attended):
                return sent[0]
        except KeyboardInterrupt:  # it came after `attentive` had restored the handler
            pass
        for pending in sent:  # its handle is lost
            pending.cancel()
        raise interrupt(f"{cell.label} was interrupted as it was sent")


def _flags(where: str, **given: object) -> list[bool]:
    return [truth(where, name, value) for name, value in given.items()]
