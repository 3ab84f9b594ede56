"""``%%disco``: runs one cell, from its text to its result."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from IPython.display import display

from disco_magic.errors import DiscoError, SyncTimeout, UsageMistake, WorkerError
from disco_magic.functions.execution.scripts import refresh, stale_imports
from disco_magic.notebook.autoreload import is_autoreloaded, reloads
from disco_magic.notebook.cell_options import cell_options, refuse_contradictions
from disco_magic.notebook.compile import compile_notebook_cell
from disco_magic.notebook.completing.inspection import asked_alone, tell
from disco_magic.notebook.debugging.asking import answered
from disco_magic.notebook.debugging.breakpoints import BREAKPOINTS
from disco_magic.notebook.expansion import with_variables
from disco_magic.notebook.handle import CellHandle
from disco_magic.notebook.local import run_locally
from disco_magic.notebook.output.progress import look_at
from disco_magic.notebook.output.scope import NotebookScope
from disco_magic.notebook.pitfalls import told_of_numbers
from disco_magic.notebook.tables.results import is_empty, show_only
from disco_magic.notebook.targets import parse_workers, workers_of_group
from disco_magic.notebook.tracebacks import syntax_error
from disco_magic.notebook.variables import fetched, stored
from disco_magic.phrases import people
from disco_magic.session.pump import attentive, take_sigint

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from disco_magic.functions.execution.cells import Cell
    from disco_magic.notebook.front import Front
    from disco_magic.session.arguments import Limit
    from disco_magic.session.results import CellResult
    from disco_magic.session.session import Session


def execute(front: Front, line: str, body: str) -> CellResult | CellHandle | None:
    """Run a cell with the options in `line`; return the value for ``Out[n]``, None to show nothing.

    Raises:
        CellSyntaxError, UsageMistake, UsageError: nothing was sent.
        CellError, SyncTimeout, KeyboardInterrupt: see `PendingCell.wait`.
        Divergence: with ``--check``, registers differ between workers after the cell.
    """
    sending = _prepare(front, line, body)
    return None if sending is None else _executed(sending)


def execute_program(
    front: Front, compiled: Callable[[], Cell], options: Namespace
) -> CellResult | CellHandle | None:
    """Run a program as a cell, with the options of a cell."""
    refuse_contradictions(options)
    try:
        cell = compiled()
    except SyntaxError as error:
        raise syntax_error(front.shell, error) from None
    said = refresh(cell, partial(is_autoreloaded, front.shell), reload=options.reload)
    if said:
        front.sessions.say(f"{said}; %disco run --reload imports it anew")
    return _executed(_sending(front, options, _as_asked(front, cell, options)))


def _executed(sending: _Sending) -> CellResult | CellHandle | None:
    with sending.cell() as handle:
        if sending.options.nowait:
            sending.bind(handle)
            return handle
        try:
            result = sending.wait(handle)()
            sending.bind(result)
        except BaseException as error:
            sending.note_failure(handle, error)
            raise
    return _finished(handle, result, sending)


async def execute_awaited(front: Front, line: str | None, body: str) -> CellResult | CellHandle | None:
    """Like `execute`, but the event loop serves widgets and questions meanwhile.

    Ctrl-C does not wait for the loop: it is a message to the thread that waits for the cell.
    """
    import asyncio  # takes 30 ms, so only where it is needed

    from disco_magic.session.awaiting import in_thread, ticking
    from disco_magic.session.sigint import sigint_to

    with sigint_to(_stop):  # the loop does not run meanwhile: a task that is cancelled would go on
        sending = _prepare(front, line, body)
    if sending is None:
        return None
    with sending.cell() as handle:
        if sending.options.nowait:
            sending.bind(handle)
            return handle
        try:
            try:
                with ticking():
                    result = await in_thread(sending.wait(handle))
            except asyncio.CancelledError:
                handle.pending.stop_soon()  # something cancelled all tasks
                raise
            sending.bind(result)
        except BaseException as error:
            sending.note_failure(handle, error)
            raise
    return _finished(handle, result, sending)


def _stop() -> NoReturn:
    raise KeyboardInterrupt("stopped before the cell was sent")


class _Sending(NamedTuple):
    """Everything that is known about a cell before it is sent."""

    front: Front
    options: Namespace
    code: Cell
    session: Session
    workers: tuple[int, ...] | None
    limit: Limit
    scope: NotebookScope

    @contextmanager
    def cell(self) -> Iterator[CellHandle]:
        """Send the cell. In the ``with`` block Ctrl-C is a message to it, and its output is shown."""
        front, scope = self.front, self.scope
        waited = not self.options.nowait
        BREAKPOINTS.install()
        with answered(waited_for=waited), front.console.cell(scope), attentive() as inbox:
            pending = self.session.run_nowait(self.code, workers=self.workers, scope=scope, inbox=inbox)
            scope.handle = handle = CellHandle(front.shell, pending, scope, asked=waited)
            if not scope.page.running:  # it has ended already, before the page knew the handle
                handle.report_soon()
            try:  # noqa: SIM105 - every cell does this, and `suppress` takes three calls more
                yield handle
            except (WorkerError, SyncTimeout):  # raised below, unless an interrupt comes first
                pass
        if waited:
            pending.note_late_sigint()  # one that came after the last look of the wait
            try:
                pending.wait()  # raises the outcome; there is nothing left to wait for
            except WorkerError as error:
                self._show_value(error)
                raise
        elif take_sigint(inbox):
            pending.cancel()
            raise KeyboardInterrupt(f"{pending.label} was interrupted as it was sent")

    def _show_value(self, error: WorkerError) -> None:
        """If what has failed is another command, which was sent before: show the cell's value."""
        result = getattr(error, "result", None)
        if result is not None and not result.errors and not is_empty(result):
            show_only(result, self.scope.show)
            display(result)  # type: ignore[no-untyped-call]

    def wait(self, handle: CellHandle) -> Callable[[], CellResult]:
        """What waits for the cell, and shows progress while there is no output."""
        if self.scope.page.area is None:
            return partial(handle.wait, self.limit, stop=True)
        after = self.options.progress_after
        after_s = self.front.settings.progress_after if after is None else after
        look = look_at(handle.pending, self.scope.page, self.scope.workers, after_s)
        return partial(handle.wait, self.limit, on_look=look, stop=True)

    def bind(self, value: CellHandle | CellResult | None) -> None:
        """Bind what ``--out`` names, if there is anything."""
        if self.options.out and value is not None:
            self.front.bind({self.options.out: value})

    def note_failure(self, handle: CellHandle, error: BaseException) -> None:
        """The wait for the cell has failed: bind the partial result that there is."""
        self.bind(getattr(error, "result", None))
        if isinstance(error, SyncTimeout) and self.options.push and handle.pending.was_withdrawn:
            names = ", ".join(self.options.push)
            error.args = (f"{error}\nWhat --push has sent is on its way all the same: {names}",)


def _prepare(front: Front, line: str | None, body: str) -> _Sending | None:
    """Do everything before the cell is sent; None if it only asked questions, which are answered."""
    options = cell_options(with_variables(front, line or ""))
    if not (line or "").strip() and _answer(front, body):
        return None
    refuse_contradictions(options)
    compiled = compile_notebook_cell(front.shell, line, body, front.futures)
    front.futures |= compiled.futures
    if said := stale_imports(compiled, partial(is_autoreloaded, front.shell)):
        front.sessions.say(said)
    if said := told_of_numbers(compiled.codes):
        front.sessions.say(said)
    return _sending(front, options, _as_asked(front, compiled, options))


def _as_asked(front: Front, cell: Cell, options: Namespace) -> Cell:
    """The cell with what changes how workers execute it."""
    watched, before = options.check is not None, reloads(front.shell)
    if not (watched or options.rendezvous or before):
        return cell
    return replace(cell, watched=watched, rendezvous=options.rendezvous, before=before)


def _sending(front: Front, options: Namespace, cell: Cell) -> _Sending:
    """Find the session, the workers and the output of a compiled cell, and push its variables."""
    if options.push and not options.local:  # with --local, the cell itself may define them
        front.variables(options.push)
    named = options.session
    session = front.session_in(named) if named else front.sessions.ensure(front.settings)
    if named:
        front.others.add(session)
    workers = _chosen(options, session)
    show = None if options.show is None else parse_workers(options.show, session.topology)
    if show is not None and workers is not None and not set(show) & set(workers):
        raise UsageMistake(
            f"--show {options.show}: the cell runs on {people(workers)} only; nothing was sent"
        )
    if options.local:
        run_locally(front.shell, cell)
    if options.push:
        for name, register in stored(session, front.variables(options.push), workers).items():
            session.bind(name, register, workers)
    mode = options.group_outputs or options.output or front.settings.output
    running = workers or range(session.num_workers)
    limit = session.patience(front.settings.timeout if options.timeout is None else options.timeout)
    session.keep_pace(limit, "the cell")  # waits here, where the stop button still ends the wait
    # Made last, because only `cell` closes it.
    among, waited = session.num_workers, not options.nowait
    scope = NotebookScope(front.shell, running, mode, show, among, waited=waited)
    return _Sending(front, options, cell, session, workers, limit, scope)


def _answer(front: Front, body: str) -> bool:
    """If a cell consists of questions (``x?``) only, answer them; return whether it does."""
    asked = asked_alone(front.shell, body)
    for inquiry in dict.fromkeys(asked):
        tell(front, inquiry, front.sessions.find())
    return bool(asked)


def _chosen(options: Namespace, session: Session) -> tuple[int, ...] | None:
    """The workers that run the cell; None for all, which lets the cell use collectives."""
    if options.workers is not None and options.group is not None:
        raise UsageMistake("--workers and --group both say who runs the cell; leave one out")
    if options.group is not None:
        return workers_of_group(options.group, session.topology)
    chosen = None if options.workers is None else parse_workers(options.workers, session.topology)
    return None if chosen is not None and len(chosen) == session.num_workers else chosen


def _finished(handle: CellHandle, result: CellResult, sending: _Sending) -> CellResult | None:
    # Out here Ctrl-C ends a wait; in the block of `_Sending.cell` it is a message to the cell.
    if sending.options.check:
        from disco_magic.notebook.commands.checking import checked_cell  # few cells are checked

        try:
            checked = checked_cell(handle.pending, result, sending.options.check, sending.limit)
        except (DiscoError, KeyboardInterrupt):
            _show_times(handle, result, sending)
            raise
        # Not `print`: ipykernel may send the text before `print` writes the end of the line.
        sys.stdout.write(f"{checked}\n")
    if sending.scope.show is not None:
        show_only(result, sending.scope.show)
    if sending.options.pull:
        wanted = dict(zip(sending.options.pull, sending.options.pull, strict=True))
        pulled = fetched(sending.session, wanted, result.workers[:1])
        sending.front.bind({name: value for name, (value,) in pulled.items()})
    _show_times(handle, result, sending)
    return None if is_empty(result) else result


def _show_times(handle: CellHandle, result: CellResult, sending: _Sending) -> None:
    if sending.options.time:
        from disco_magic.notebook.tables.times import times_of
        from disco_magic.session.recording import timeline_of

        done = timeline_of(sending.session, handle.pending.seq)
        display(times_of(done, handle.pending.seq, result.label, result.elapsed))  # type: ignore[no-untyped-call]
