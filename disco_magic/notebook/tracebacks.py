"""Formats errors for the notebook: the traceback of the first failing worker, then one line per group."""

from __future__ import annotations

from functools import partial
from itertools import islice
from traceback import TracebackException
from typing import TYPE_CHECKING, Final

from disco_magic.callers.sites import runtime_file
from disco_magic.callers.tracebacks import error_text, steps_of, traceback_of, with_lines
from disco_magic.core.words import plural
from disco_magic.errors import DiscoError, UsageMistake, WorkerError
from disco_magic.errors.operands import operand_lines
from disco_magic.errors.summaries import form_of, grouped, other_lines
from disco_magic.notebook.miscalls import advice_on_miscalls
from disco_magic.notebook.pitfalls import advice_on_pitfalls
from disco_magic.notebook.repeats import chained, moduleless, without_repeats, without_repeats_before
from disco_magic.notebook.shell import is_of_cell
from disco_magic.notebook.strays import advice_on_workers
from disco_magic.phrases import class_name, ranges

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.errors import Failure
    from disco_magic.notebook.shell import Shell

_SUMMARY_LENGTH: Final = 90
_OURS: Final = "disco_magic."


def dress(shell: Shell, error: BaseException) -> BaseException:
    """Give `error` the traceback that IPython should show; raise what this returns.

    IPython asks the exception for `_render_traceback_`, so the output of the cell, the reply to the front end
    and tools that execute notebooks all see the same text. (An ExceptionGroup would be printed to stderr with
    no error output at all.) A `WorkerError` carries the first failing worker's traceback as its own, so that
    ``%debug`` lands in that worker's frame.

    `_render_traceback_` refers to the failures or to finished text, never to the error itself: that cycle
    would keep the arrays of the failed frames until the garbage collector runs.
    """
    error.__context__ = None  # how the runtime came to raise it does not help the user
    if isinstance(error, WorkerError):
        # A list now, to which `add_note` adds later, too: the user may catch the error and raise it again.
        notes: list[str] = vars(error).setdefault("__notes__", [])
        head = str(error).partition("\n")[0] if error.stopped else ""
        lines = partial(worker_lines, shell, error.failures, error.others, head, notes)
        error._render_traceback_ = _once(shell, lines, notes)  # type: ignore[attr-defined]  # IPython's protocol
        return error.with_traceback(user_frames(shell, error.origin.exception))
    # Errors of this package have one in their class, for plain cells: see `plain_errors`.
    if "_render_traceback_" not in vars(error) and (
        isinstance(error, DiscoError) or not hasattr(error, "_render_traceback_")
    ):
        only = shell.InteractiveTB.get_exception_only(type(error), error)  # the traceback is in this package
        error._render_traceback_ = _Only(shell, [line.rstrip("\n") for line in only])  # type: ignore[attr-defined]  # IPython's protocol
    # Not with its own frames: they refer to the handle of the cell, and that to the error. For a stopped
    # cell, ``%debug`` should show the line where it was.
    stopped = (user_frames(shell, each.exception) for each in failures_of(error).values())
    return error.with_traceback(next(filter(None, stopped), None))


class _Only:
    """Finished `lines` of an error, for the `_render_traceback_` of one that Python's own code pickles.

    `errors.pickling` leaves it out of ours. Of a KeyboardInterrupt or an OSError all attributes are pickled
    and deep-copied; a shell, which cannot be, would go with it and make that fail. So copies have no shell.
    """

    def __init__(self, shell: Shell | None, lines: list[str]) -> None:
        self._shell = shell
        self._only = lines

    def __call__(self) -> list[str]:
        """The lines as IPython takes them; see `ended`."""
        return self._only.copy() if self._shell is None else ended(self._shell, self._only)

    def __reduce__(self) -> tuple[type[_Only], tuple[None, list[str]]]:
        return _Only, (None, self._only)


def _once(shell: Shell, lines: Callable[[], list[str]], notes: Sequence[str]) -> Callable[[], list[str]]:
    """Return `lines`, called once for each ``%xmode`` and theme, and after each further one of `notes`.

    IPython asks for them twice, to show and to store them. Each time costs seconds if frames are in bodies of
    large modules, as where an import of PyTorch fails.
    """
    known: dict[tuple[object, ...], list[str]] = {}

    def shown() -> list[str]:
        key = getattr(shell.InteractiveTB, "mode", None), getattr(shell, "colors", None), len(notes)
        if key not in known:
            known[key] = lines()
        return known[key].copy()

    return shown


def failures_of(error: BaseException) -> Mapping[int, Failure]:
    """Worker -> its failure, the origin first; also for a cell that was stopped."""
    if isinstance(error, WorkerError):
        return error.failures
    from disco_magic.core.blame import origin_first  # here: the magics, and so %load_ext, import this file

    errors: Mapping[int, Failure] = getattr(getattr(error, "result", None), "errors", None) or {}
    return origin_first(errors)


class CellSyntaxError(UsageMistake):
    """The cell is not valid Python; nothing was sent.

    Not a subclass of SyntaxError: IPython shows those with every frame that led to them, which would be this
    package's and IPython's. The class has a similar name because front ends show it.
    """


CellSyntaxError.__name__ = "SyntaxError"


def syntax_error(shell: Shell, error: SyntaxError) -> CellSyntaxError:
    """`error`, shown as IPython shows syntax errors of plain cells: the line, and the position in it."""
    shown = CellSyntaxError(str(error))
    shown._render_traceback_ = partial(shell.SyntaxTB.structured_traceback, type(error), error, [])  # type: ignore[attr-defined]  # IPython's protocol
    return shown


def worker_lines(
    shell: Shell,
    failures: Mapping[int, Failure],
    others: Sequence[Failure] = (),
    head: str = "",
    notes: Sequence[str] = (),
) -> list[str]:
    """`head`, or which workers failed; the origin's traceback and operands; each different failure; notes."""
    origin = next(iter(failures.values()))
    more = len(failures) - 1
    also = f" and on {plural(more, 'other')}" if more else ""
    head = head or f"{origin.command} failed on worker {origin.worker}{also}"
    kinds = (_advice_on_imports, advice_on_workers, advice_on_pitfalls, advice_on_miscalls)
    advice = list(islice(filter(None, (advise(shell, origin.exception) for advise in kinds)), 1))
    # A program that exits shows no traceback.
    own = _own_lines(origin.exception)
    trace = own or ([] if issubclass(type(origin.exception), SystemExit) else _trace(shell, origin))
    read = operand_lines(failures.values()) if trace and not own else []
    groups = grouped(failures)
    summary = [
        _line(workers, text, origin, alone=bool(trace) and len(groups) == 1)
        for text, workers in groups.items()
    ]
    if read:
        trace += ["", *read]
    return ended(shell, [head, *trace, "", *summary, *notes, *advice, *other_lines(others)])


def _advice_on_imports(_: Shell, error: BaseException) -> str:
    from disco_magic.session.halfway import imported_again  # here: %load_ext imports this file

    return imported_again(error)


def _line(workers: list[int], text: str, origin: Failure, *, alone: bool) -> str:
    """A group's summary; the origin's, if it is longer than a terminal's line, is shown in full above.

    Then it is cut, so that other groups can be told from it; or left out, if it is `alone`.
    """
    if alone and text == origin.summary and len(text) > _SUMMARY_LENGTH:
        return f"{ranges(workers)} {class_name(origin.exception)}"
    if text in (origin.summary, form_of(origin.summary, origin.worker)) and len(text) > _SUMMARY_LENGTH:
        text = text[: _SUMMARY_LENGTH - 1] + "…"
    return f"{ranges(workers)} {text}"


def _own_lines(error: BaseException) -> list[str]:
    """The lines by which an error of the user's shows itself: IPython asks for them in plain cells, too.

    Errors of this package have such a method only for plain cells, where their frames are not a worker's.
    """
    if issubclass(type(error), DiscoError):
        return []
    try:
        lines = error._render_traceback_()  # type: ignore[attr-defined]  # IPython's protocol
    except Exception:  # noqa: BLE001 - there is no such method, or it fails: then the traceback says more
        return []
    return lines if isinstance(lines, list) and all(isinstance(line, str) for line in lines) else []


def _trace(shell: Shell, failure: Failure) -> list[str]:
    """The traceback in IPython's format, or the worker's text if the error's class makes IPython fail."""
    try:
        return _structured(shell, failure.exception)
    except Exception:  # noqa: BLE001 - code of the user's class, or what IPython has not expected of it
        return failure.traceback_text.splitlines()


def _structured(shell: Shell, error: BaseException) -> list[str]:
    trace = user_frames(shell, error)
    if trace is None or issubclass(type(error), BaseExceptionGroup):  # IPython cannot render groups
        return error_text(error).splitlines()
    trace, left_out = without_repeats(trace)
    with without_repeats_before(error) as left_out_before:
        lines = as_ipython_shows(shell, error, trace)
    last = len(lines) - 1 - len(getattr(error, "__notes__", ()))  # notes come below
    total = 0 if shell.InteractiveTB.mode == "Minimal" else left_out + left_out_before  # it shows no calls
    repeats = [f"    [... without {total:,} more calls from the same lines]", ""] if total else []
    return [*lines[:last], *repeats, *_faulty_line(error), *lines[last:]]


def _faulty_line(error: BaseException) -> list[str]:
    """The faulty line of a SyntaxError of running code, which IPython shows only for its own cells."""
    if not isinstance(error, SyntaxError):
        return []
    shown = TracebackException(type(error), error, None)
    shown.__notes__ = []
    *about, _ = shown.format_exception_only()
    return [line.rstrip("\n") for line in about]


def as_ipython_shows(shell: Shell, error: BaseException, trace: types.TracebackType | None) -> list[str]:
    """`error` in the mode of ``%xmode``, with the frames of `trace` instead of its own; not for groups."""
    told = shell.InteractiveTB
    codes = [step.tb_frame.f_code for step in steps_of(trace)]
    with moduleless(code.co_filename for code in codes if is_of_cell(shell, code)):
        # The class's method, because the instance's changes and adds lines: see `plain_errors`.
        lines: list[str] = type(told).structured_traceback(told, type(error), error, trace, tb_offset=0)
    return lines


def ended(shell: Shell, lines: Sequence[str]) -> list[str]:
    """`lines` as IPython takes them: where the mode of ``%xmode`` joins them without line ends, as one text.

    Such modes (Plain, Minimal) expect lines with ends. A terminal joins these by nothing, but a kernel sends
    them as they are, and front ends put a line end between any two: every other line would be empty.
    """
    if getattr(shell.InteractiveTB, "tb_join_char", "\n"):
        return list(lines)
    return ["\n".join(line.removesuffix("\n") for line in lines)]


def user_frames(shell: Shell, error: BaseException) -> types.TracebackType | None:
    """The traceback of `error` from the first frame of a cell on, without the runtime's frames."""
    frames = list(steps_of(with_lines(traceback_of(error))))
    first = next((i for i, step in enumerate(frames) if is_of_cell(shell, step.tb_frame.f_code)), 0)
    return chained([step for step in frames[first:] if not _is_ours(step.tb_frame)])


def _is_ours(frame: types.FrameType) -> bool:
    """Whether the frame executes code of this package, or code that `dataclass` generated for it."""
    file = frame.f_code.co_filename
    return runtime_file(file) or (
        file == "<string>" and f"{frame.f_globals.get('__name__')}".startswith(_OURS)
    )
