"""How errors look in a notebook: one exception, the first failing worker's own lines, one line per group."""

from __future__ import annotations

import types
from functools import partial
from traceback import TracebackException
from typing import TYPE_CHECKING, Final

from disco_magic.callers.sites import runtime_file
from disco_magic.callers.tracebacks import error_text, steps_of, traceback_of
from disco_magic.core.words import plural
from disco_magic.errors import DiscoError, UsageMistake, WorkerError
from disco_magic.notebook.miscalls import advice_on_miscalls
from disco_magic.notebook.pitfalls import advice_on_pitfalls
from disco_magic.notebook.strays import advice_on_workers
from disco_magic.phrases import ranges
from disco_magic.summaries import form_of, grouped, other_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.errors import Failure
    from disco_magic.notebook.shell import Shell

_SUMMARY_LENGTH: Final = 90
_OURS: Final = "disco_magic."


def dress(shell: Shell, error: BaseException) -> BaseException:
    """Make `error` look right when IPython shows it; raise what this returns.

    IPython asks the exception for `_render_traceback_`, so the output of the cell, the reply to the front end
    and tools that execute notebooks all see the same text. (An ExceptionGroup would be printed to stderr with
    no error output at all.) A `WorkerError` carries the first failing worker's traceback as its own, so that
    ``%debug`` lands in that worker's frame.

    What is asked holds the failures or the finished text, never the error itself: that cycle would keep the
    arrays of the failed frames until the garbage collector happens to run.
    """
    error.__context__ = None  # how the runtime came to raise it tells the user nothing
    if isinstance(error, WorkerError):
        notes = getattr(error, "__notes__", ())
        error._render_traceback_ = partial(  # type: ignore[attr-defined]  # IPython's protocol
            worker_lines, shell, error.failures, error.others, _cancellation(error), notes
        )
        return error.with_traceback(user_frames(shell, error.origin.exception))
    # For those of this package the class has one, for plain cells: see `plain_errors`.
    if "_render_traceback_" not in vars(error) and (
        isinstance(error, DiscoError) or not hasattr(error, "_render_traceback_")
    ):
        error._render_traceback_ = plain_lines(shell, error).copy  # type: ignore[attr-defined]  # IPython's protocol
    # Not its own frames: they hold the handle of the cell, and that the error. Of a cell that was stopped
    # ``%debug`` is to show the line where it was.
    stopped = (user_frames(shell, each.exception) for each in failures_of(error).values())
    return error.with_traceback(next(filter(None, stopped), None))


def failures_of(error: BaseException) -> Mapping[int, Failure]:
    """Worker -> what failed there, the origin first; also of a cell that was stopped."""
    if isinstance(error, WorkerError):
        return error.failures
    from disco_magic.core.blame import is_consequence  # here: the magics, and so %load_ext, import this file

    errors: Mapping[int, Failure] = getattr(getattr(error, "result", None), "errors", None) or {}
    return dict(sorted(errors.items(), key=lambda item: is_consequence(item[1])))


class CellSyntaxError(UsageMistake):
    """The cell is no Python; nothing was sent.

    Not a SyntaxError: IPython shows those of running code with every frame that led to them, which are this
    package's and its own. It carries the name, because front ends show that of the class.
    """


CellSyntaxError.__name__ = "SyntaxError"


def syntax_error(shell: Shell, error: SyntaxError) -> CellSyntaxError:
    """`error` as IPython shows the syntax errors of its own cells: the line, and where in it."""
    shown = CellSyntaxError(str(error))
    shown._render_traceback_ = partial(shell.SyntaxTB.structured_traceback, type(error), error, [])  # type: ignore[attr-defined]  # IPython's protocol
    return shown


def plain_lines(shell: Shell, error: BaseException) -> list[str]:
    """The error's name and message: where in this package it was raised is of no use to the user."""
    return [line.rstrip("\n") for line in shell.InteractiveTB.get_exception_only(type(error), error)]


def worker_lines(
    shell: Shell,
    failures: Mapping[int, Failure],
    others: Sequence[Failure] = (),
    head: str = "",
    notes: Sequence[str] = (),
) -> list[str]:
    """`head`, or who failed; the origin's traceback; every distinct failure with its workers; `notes`."""
    origin = next(iter(failures.values()))
    more = len(failures) - 1
    also = f" and on {plural(more, 'other')}" if more else ""
    summary = [_line(workers, text, origin) for text, workers in grouped(failures).items()]
    head = head or f"{origin.command} failed on worker {origin.worker}{also}"
    kinds = (advice_on_workers, advice_on_pitfalls, advice_on_miscalls)
    advice = next(filter(None, (advise(shell, origin.exception) for advise in kinds)), [])
    # Who ends a program says so, and not how.
    trace = [] if issubclass(type(origin.exception), SystemExit) else _trace(shell, origin)
    return ended(shell, [head, *trace, "", *summary, *notes, *advice, *other_lines(others)])


def _cancellation(error: WorkerError) -> str:
    """Its first line if it says that the cell was cancelled."""
    return str(error).partition("\n")[0] if error.cancelled else ""


def _line(workers: list[int], text: str, origin: Failure) -> str:
    """A group's summary; the origin's own, which stands above in full, cut to one line of a terminal."""
    if text in (origin.summary, form_of(origin.summary, origin.worker)) and len(text) > _SUMMARY_LENGTH:
        text = text[: _SUMMARY_LENGTH - 1] + "…"
    return f"{ranges(workers)} {text}"


def _trace(shell: Shell, failure: Failure) -> list[str]:
    """As IPython shows it; or as the worker told it, where the error's class lets nobody look."""
    try:
        return _structured(shell, failure.exception)
    except Exception:  # noqa: BLE001 - code of the user's class, or what IPython has not expected of it
        return failure.traceback_text.splitlines()


def _structured(shell: Shell, error: BaseException) -> list[str]:
    trace = user_frames(shell, error)
    if trace is None or issubclass(type(error), BaseExceptionGroup):  # IPython cannot render groups
        return error_text(error).splitlines()
    lines = as_ipython_shows(shell, error, trace)
    last = len(lines) - 1 - len(getattr(error, "__notes__", ()))  # notes come below
    return [*lines[:last], *_faulty_line(error), *lines[last:]]


def _faulty_line(error: BaseException) -> list[str]:
    """What a SyntaxError of running code is about, a file or text: IPython shows its own cells' only."""
    if not isinstance(error, SyntaxError):
        return []
    shown = TracebackException(type(error), error, None)
    shown.__notes__ = []
    *about, _ = shown.format_exception_only()
    return [line.rstrip("\n") for line in about]


def as_ipython_shows(shell: Shell, error: BaseException, trace: types.TracebackType | None) -> list[str]:
    """`error` in the mode of ``%xmode``, with the frames of `trace` in place of its own; it is no group."""
    told = shell.InteractiveTB
    # The class's: of the shell's own errors some lines are changed, and some added: see `plain_errors`.
    lines: list[str] = type(told).structured_traceback(told, type(error), error, trace, tb_offset=0)
    return lines


def ended(shell: Shell, lines: list[str]) -> list[str]:
    """`lines` as the mode of ``%xmode`` joins them: by line ends, or (Plain, Minimal) as they are."""
    if getattr(shell.InteractiveTB, "tb_join_char", "\n"):
        return lines
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]


def user_frames(shell: Shell, error: BaseException) -> types.TracebackType | None:
    """The traceback of `error` from the first line of a cell on, without the runtime's frames."""
    frames = list(steps_of(traceback_of(error)))
    first = next((i for i, step in enumerate(frames) if _in_cell(shell, step)), 0)
    kept = [step for step in frames[first:] if not _is_ours(step.tb_frame)]
    result: types.TracebackType | None = None
    for step in reversed(kept):
        result = types.TracebackType(result, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return result


def _is_ours(frame: types.FrameType) -> bool:
    """Whether it executes code of this package, or what `dataclass` has written for it."""
    file = frame.f_code.co_filename
    return runtime_file(file) or (
        file == "<string>" and f"{frame.f_globals.get('__name__')}".startswith(_OURS)
    )


def _in_cell(shell: Shell, step: types.TracebackType) -> bool:
    return shell.compile.format_code_name(step.tb_frame.f_code.co_filename) is not None
