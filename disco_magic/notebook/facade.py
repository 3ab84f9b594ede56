"""`get_ipython` and `print` in a worker's cell: ``!cmd`` and ``x?`` work, magics are refused with why."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from disco_magic.callers.module_classes import SYS
from disco_magic.errors import UsageMistake
from disco_magic.isolation.streams import WorkerStream
from disco_magic.isolation.whole_print import WholePrint
from disco_magic.notebook.completing.inquiries import DETAILS, INQUIRIES, Inquiry, is_question
from disco_magic.notebook.debugging.asking import input_for
from disco_magic.notebook.debugging.breakpoints import breakpoint_for
from disco_magic.notebook.output.footer import over_the_prompt

if TYPE_CHECKING:
    from disco_magic.functions.context import WorkerContext


class WorkerShell:
    """Replaces IPython's shell in the namespace of one worker.

    The real shell is not usable there: its magics read and write the notebook's namespace (``%timeit`` even
    merges locals into it, from four threads at once), and IPython removes its own `get_ipython` from the
    builtins when a cell ends, while an asynchronous cell still runs. Libraries that call
    `IPython.get_ipython()` still get the real shell.
    """

    def __init__(self, worker: int, session_id: int) -> None:
        self._worker = worker
        self._session_id = session_id

    @property
    def user_ns(self) -> dict[str, Any]:
        """The registers of the worker, as the calling cell sees them."""
        return _caller_names()[0]

    def system(self, command: str) -> None:
        """``!command``: run it in a shell and print its output line by line, under the worker's prefix.

        ``{expression}`` and ``$name`` are replaced by values of the worker. The exit status is stored as
        `_exit_code` in the worker's namespace, as IPython stores it in the notebook's.
        """
        from IPython.utils.process import system  # type: ignore[attr-defined]  # made per platform

        names, local = _caller_names()
        status = system(_expanded(command, names, local))
        names["_exit_code"] = status

    def getoutput(self, command: str, split: bool = True) -> Any:  # noqa: FBT001, FBT002 - theirs
        """``name = !command``: the output as a list of lines."""
        from IPython.utils.process import getoutput  # type: ignore[attr-defined]  # see `system`
        from IPython.utils.text import LSString, SList

        text = getoutput(_expanded(command, *_caller_names()))
        return SList(text.splitlines()) if split else LSString(text)

    def run_line_magic(self, magic_name: str, line: str, *_: object, **__: object) -> None:
        """Answer ``x?`` and ``x??`` once, when the cell has ended; refuse every other ``%name``."""
        if is_question(magic_name, line):
            INQUIRIES.ask(self._session_id, self._worker, Inquiry(line.strip(), DETAILS[magic_name]))
            return
        raise UsageMistake(line_magic_refused(magic_name, line))

    def run_cell_magic(self, magic_name: str, *_: object, **__: object) -> NoReturn:
        """Refuse ``%%name`` below ``%%disco``."""
        raise UsageMistake(cell_magic_refused(magic_name))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"get_ipython() on a worker has no {name!r}: it offers !commands only; "
            "use IPython.get_ipython() for the notebook's own shell"
        )

    def __repr__(self) -> str:
        return f"<get_ipython() of worker {self._worker}>"


_WHOLE: Final = "%%disco --time tells how long each worker takes for the whole cell"
_INSTEAD: Final = {
    "time": f"{_WHOLE}, %%time in a line above how long it takes in all",
    "timeit": f"{_WHOLE}; for a part of it put time.perf_counter() before and behind a loop in the cell",
}
"""For some magics, what does the same for registers."""


def line_magic_refused(name: str, line: str) -> str:
    """Why ``%name line`` does not run on workers."""
    if name.startswith("%"):
        return f"%{name} has to stand in the first line of its cell, with nothing above it"
    if name in _INSTEAD:
        return f"%{name} cannot run on workers: magics belong to the notebook; {_INSTEAD[name]}"
    return (
        f"%{name} cannot run on workers: magics belong to the notebook; put "
        + f"%{name} {line}".rstrip()
        + " into a cell without %%disco, or under %%local if plain cells run on workers (!cmd works here)"
    )


def cell_magic_refused(name: str) -> str:
    """Why a cell below ``%%name`` does not run on workers."""
    if name == "disco":
        return "the cell runs on workers already; leave this %%disco out"
    return (
        f"%%{name} cannot run on workers: give it a cell of its own without %%disco, or put %%{name} "
        "above %%disco if it is about the whole cell, as %%time and %%capture are (!cmd works here)"
    )


def refuse_magics(tree: ast.Module) -> None:
    """Refuse a cell with magics among its top-level statements before any statement is executed.

    Magics in functions, loops and conditions are refused only when they are reached, which may be never.
    """
    if any(getattr(statement, "name", None) == "get_ipython" for statement in tree.body):
        return  # the cell defines its own
    for statement in tree.body:
        match getattr(statement, "value", None):
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=kind),
                args=[ast.Constant(value=str(name)), ast.Constant(value=line), *_],
            ):
                if kind == "run_line_magic" and not is_question(name, str(line)):
                    raise UsageMistake(f"line {statement.lineno}: {line_magic_refused(name, str(line))}")
                if kind == "run_cell_magic":
                    raise UsageMistake(f"line {statement.lineno}: {cell_magic_refused(name)}")


class _WorkerPrint(WholePrint):
    """A whole print that keeps the worker's prefix when a cell prints while the user types."""

    def __call__(self, *values: Any, file: Any = None, **options: Any) -> None:
        """See `print`."""
        stream = SYS.get("stdout") if file is None else file
        if over_the_prompt(stream):  # the one case in which replacing sys.stdout is not enough
            stream = WorkerStream(stream, "stdout")
        super().__call__(*values, file=stream, **options)


worker_print: Final = _WorkerPrint()


def cell_extras(context: WorkerContext) -> dict[str, object]:
    """The names that a notebook adds to the builtins of a worker's namespace."""
    shell = WorkerShell(context.id, context.session_id)
    return {
        "get_ipython": lambda: shell,
        "print": worker_print,
        "input": input_for(context),
        "breakpoint": breakpoint_for(context),
    }


def _caller_names() -> tuple[dict[str, Any], dict[str, Any]]:
    """Globals and locals of the innermost frame outside this file: the cell's, or its function's."""
    frame = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe is the same call
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals, dict(frame.f_locals)


def _expanded(command: str, names: dict[str, Any], local: dict[str, Any]) -> str:
    """`command` with ``{expression}`` and ``$name`` replaced; unchanged if that is impossible.

    IPython has the same rule, because braces belong to the shell's language too (``awk '{print $1}'``).
    """
    from IPython.utils.text import DollarFormatter

    try:
        return DollarFormatter().vformat(command, args=[], kwargs={**names["__builtins__"], **names, **local})
    except Exception:  # noqa: BLE001 - evaluates the user's expressions, which may raise anything
        return command
