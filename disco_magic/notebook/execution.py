"""``%%disco``: one cell from its text to its result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from disco_magic.errors import DiscoError, UsageMistake, ranges
from disco_magic.notebook.cell_options import CHECKS, cell_parser
from disco_magic.notebook.compile import compile_notebook_cell
from disco_magic.notebook.handle import CellHandle
from disco_magic.notebook.output import NotebookScope
from disco_magic.notebook.progress import Progress
from disco_magic.notebook.results import is_empty, show_only
from disco_magic.notebook.targets import parse_workers, workers_of_group
from disco_magic.session.checking import check_cell
from disco_magic.session.dref import DRef
from disco_magic.session.pump import attentive

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from disco_magic.notebook.front import Front
    from disco_magic.session.arguments import Limit
    from disco_magic.session.results import CellResult
    from disco_magic.session.session import Session


def execute(front: Front, line: str, body: str) -> CellResult | CellHandle | None:
    """Run a cell as the options in `line` say; what becomes ``Out[n]``, None if there is nothing to show.

    Raises:
        CellSyntaxError, UsageMistake, UsageError: nothing was sent.
        CellError, SyncTimeout, KeyboardInterrupt: see `PendingCell.wait`.
        Divergence: with ``--check``, the cell left different registers.
    """
    options = cell_parser().read(line)
    _check(options)
    cell = replace(compile_notebook_cell(front.shell, line, body), watched=options.check is not None)
    pushed = front.variables(options.push)
    session = front.sessions.ensure(front.settings)
    workers = _chosen(options, session)
    show = parse_workers(options.show, session.num_workers)
    for name, value in pushed.items():
        put(session, name, value)
    mode = options.group_outputs or options.output or front.settings.output
    limit = session.patience(options.timeout)
    session.keep_pace(limit)  # here, where the stop button still ends the wait
    # Last: only within `cell` somebody closes it.
    scope = NotebookScope(front.shell, workers or range(session.num_workers), mode, show)
    with front.console.cell(scope), attentive() as inbox:
        pending = session.run_nowait(cell, workers=workers, scope=scope, inbox=inbox)
        scope.handle = handle = CellHandle(front.shell, pending, scope)
        if options.nowait:
            return _sent(front, options, handle)
        look = _progress(front, options, session, scope)
        result = _ended(front, options, handle, limit, look)
    # Out here Ctrl-C ends a wait; up there it is a message to the cell.
    if options.check:
        print(_checked(session, result, options.check, limit))
    return _finished(front, options, result, session, show)


def _check(options: Namespace) -> None:
    if options.nowait and options.block:
        raise UsageMistake("--nowait and --block exclude each other; leave one out")
    for name in ("timeout", "pull", "time", "check"):
        if options.nowait and getattr(options, name):
            raise UsageMistake(
                f"--{name} needs the end of the cell, which --nowait does not wait for; leave one out"
            )
    if options.nowait and options.progress_after is not None:
        raise UsageMistake(
            "--progress-after is for the wait for a cell, which --nowait does not do; leave one out"
        )
    if options.output and options.group_outputs:
        raise UsageMistake("--output and --group-outputs both say how output is shown; leave one out")


def _chosen(options: Namespace, session: Session) -> tuple[int, ...] | None:
    """The workers that run the cell; None: all, which lets the cell use collectives."""
    if options.workers is not None and options.group is not None:
        raise UsageMistake("--workers and --group both say who runs the cell; leave one out")
    if options.group is not None:
        return workers_of_group(options.group, session.num_workers, session.num_groups)
    chosen = parse_workers(options.workers, session.num_workers)
    return None if chosen is not None and len(chosen) == session.num_workers else chosen


def put(session: Session, name: str, value: Any, only: int | None = None) -> None:
    """Bind a register to a copy of a notebook variable; a DRef gives its registers a name instead."""
    if isinstance(value, DRef):
        session[name] = value
    else:
        session.put(name, value, only)


def _sent(front: Front, options: Namespace, handle: CellHandle) -> CellHandle:
    if options.out:
        front.bind({options.out: handle})
    return handle


def _progress(
    front: Front, options: Namespace, session: Session, scope: NotebookScope
) -> Callable[[], None] | None:
    """What to call while nothing comes, if the cell has a place for it."""
    area = scope.page.area
    if area is None:
        return None
    after = front.settings.progress_after if options.progress_after is None else options.progress_after
    after_s = float("inf") if after is None else after
    return Progress(scope.page, area, scope.workers, session.doctor, after_s=after_s).look


def _ended(
    front: Front, options: Namespace, handle: CellHandle, limit: Limit, look: Callable[[], None] | None
) -> CellResult:
    try:
        result = handle.wait(limit, on_look=look)
    except BaseException as error:
        _bind_result(front, options, getattr(error, "result", None))
        raise
    _bind_result(front, options, result)
    return result


def _checked(session: Session, result: CellResult, mode: str, limit: Limit) -> str:
    """What agrees between the workers that ran the cell, in a line; raises if anything does not."""
    values = mode == CHECKS[1]
    try:
        report = check_cell(session, result.label, result.workers, values=values, timeout=limit)
        report.raise_if_differing()
    except (DiscoError, KeyboardInterrupt) as error:
        error.result = result  # type: ignore[union-attr]  # as all errors of a cell have it
        raise
    return f"check {report.summary}"


def _finished(
    front: Front, options: Namespace, result: CellResult, session: Session, show: tuple[int, ...] | None
) -> CellResult | None:
    show_only(result, show)
    front.bind({name: session[name].get(result.workers[0]) for name in options.pull})
    if options.time:
        times = "  ".join(f"{ranges((worker,))} {_duration(s)}" for worker, s in result.elapsed.items())
        print(f"time {times}")
    return None if is_empty(result) else result


def _bind_result(front: Front, options: Namespace, result: CellResult | None) -> None:
    if options.out and result is not None:
        front.bind({options.out: result})


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
