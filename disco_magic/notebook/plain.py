"""Sends cells without a magic line to the workers.

After ``%disco auto on``, and from the start in the Disco kernel, a plain cell runs on every worker. These run
in the notebook:

* cells that begin with ``%%``: ``%%local``, and all other magics. The text below ``%%time`` or ``%%capture``
  is a plain cell again, so that the workers' work is timed or captured;
* cells with only ``%magic``, ``!command`` and ``name?`` lines; ``name?`` of a register asks the workers;
* ``%magic`` lines at the top of a cell, before its Python (``%load_ext autoreload``);
* one line that uses the handle or the result of a cell, or what ``%%capture`` has kept: ``await h``,
  ``h.cancel()``, ``result.stdout``. No worker can have these, and a handle would queue behind its own cell;
* ``exit`` and ``quit``; magics without ``%`` that IPython accepts (``cd``, ``pip install x``).

In the Disco kernel a cell that begins with ``%%disco`` is awaited like a plain one.

``%save``, ``%macro``, ``%history -t`` and ``In`` take cells from IPython's history, as it has executed them.
So these are kept there as Python, not as the call that sends them.
"""

from __future__ import annotations

import builtins
import linecache
import re
import sys
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from IPython.core.inputtransformer2 import cell_magic
from IPython.core.macro import Macro
from IPython.utils.capture import CapturedIO

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.notebook.escapes import as_python
from disco_magic.notebook.shell import is_of_cell, request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from disco_magic.notebook.front import Front
    from disco_magic.notebook.shell import Shell

_OF_WORKERS: Final = re.compile(r"%%disco(?: (.*))?")
_LOCAL: Final = re.compile(r"%%local[ \t]*")
# The first line of such a cell, as IPython executes it.
_KEPT_HERE: Final = "# %%local"
_LINE_OF_NOTEBOOK: Final = re.compile(r"\s*(?:[%!?#]|[\w.*]+\?{1,2}\s*;?\s*$)")
_HELP: Final = re.compile(r"\s*(?:%(?:pinfo2?|psearch)\s|\?{1,2})?\s*([\w*]+)[\w.*]*\s*\?{0,2}\s*;?\s*$")
# Not magics that execute Python code or ask for names: here they would not involve the workers.
_MAGIC: Final = re.compile(r"%(?!(?:pinfo2?|psearch|time|timeit|prun|memit|mprun|lprun)\b)\w[^\\]*$")
_HELP_ASKED: Final = re.compile(r"%%disco[ \t](?:.*[ \t])?(?:-h|--help)\s*$")
_END: Final = re.compile(r"(exit|quit)\s*(\(.*\))?")
_OF_CELL: Final = re.compile(r"(?:await[ \t]+)?([^\W\d]\w*)(?:[.\[][^;\n]*)?;?")
_COMMAND: Final = re.compile(r"([^\W\d]\w*)(?:[ \t]+(.*))?")
_OPERATES: Final = tuple("=,([.:;")

# True while IPython transforms a cell of which it is known where it runs.
_decided: ContextVar[bool] = ContextVar("disco_decided", default=False)
# Set to [True] while the kernel executes a request; the first cell in it may be awaited.
_top: ContextVar[list[bool] | None] = ContextVar("disco_top", default=None)


def transformed(shell: Shell, body: str) -> str:
    """Apply IPython's static transforms (``!cmd``, ``%magic``, ``?``) to the body of a workers' cell."""
    token = _decided.set(True)  # as `_deciding`, written out: this is done for every cell
    try:
        return as_python(shell.input_transformer_manager, body)
    finally:
        _decided.reset(token)


@contextmanager
def _deciding() -> Iterator[None]:
    """In the ``with`` block, leave the cells that IPython transforms unchanged."""
    token = _decided.set(True)
    try:
        yield
    finally:
        _decided.reset(token)


class PlainCells:
    """An input transformer of IPython's that sends plain cells to the workers while it is on.

    Attributes:
        on: whether it does.
        has_side_effects: tells IPython not to call it when it checks whether a cell is complete, because
            the output always is.
    """

    has_side_effects = True

    def __init__(self, front: Front) -> None:
        self.on = False
        self._front = front
        manager = getattr(front.shell, "history_manager", None)  # some derived shells have none
        self._stores = [] if manager is None else [Replaced(manager, "store_inputs", self._store)]
        self._sent = "", ""  # the call that sends the next cell, and that cell

    def install(self) -> Callable[[], None]:
        """Add this to IPython's input transformers, before the one for ``%%``; return what removes it."""
        transforms = self._front.shell.input_transformers_cleanup
        transforms.insert(transforms.index(cell_magic) if cell_magic in transforms else len(transforms), self)
        restore_history = replace_all(self._stores)

        def remove() -> None:
            transforms = self._front.shell.input_transformers_cleanup
            if self in transforms:  # the list may have been replaced
                transforms.remove(self)
            restore_history()

        return remove

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines that IPython should execute; `lines` end in newlines."""
        if _decided.get():
            return lines
        if self.on:
            lines = self._expanded(lines)
        first, below = "".join(lines[:1]), "".join(lines[1:])
        if _HELP_ASKED.match(first) and not below.strip():
            return [*lines, "#\n"]  # IPython refuses a cell magic without a cell
        top = _top.get()
        awaited = top is not None and top[0] and self._front.shell.autoawait
        if top is not None:
            top[0] = False  # a cell that a magic of this cell executes cannot be awaited
        if _LOCAL.fullmatch(first.rstrip("\n")):
            # A comment keeps the line numbers; if another magic follows, our magic handles both.
            return lines if below.lstrip().startswith("%%") else [f"{_KEPT_HERE}\n", *lines[1:]]
        told = _OF_WORKERS.fullmatch(first.rstrip()) if awaited and below else None
        if told is not None:
            head, line, body = [], told[1] or "", below
        elif self.on and self.runs_on_workers(first + below):
            # Blank lines instead of the magics keep the line numbers.
            head, line = _leading_magics(lines), None
            body = "\n" * len(head) + "".join(lines[len(head) :])
        else:
            return lines
        if awaited:
            call = f"await get_ipython().run_on_workers({body!r}, {line!r})\n"
        else:
            call = f"get_ipython().run_cell_magic('disco', '', {body!r})\n"
        self._sent = call.rstrip(), "".join(lines if told else lines[len(head) :])
        return [*head, call]

    def _store(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        """Replace `store_inputs` of IPython's history."""
        (call, body), self._sent = self._sent, ("", "")
        if call and call in source:
            with suppress(Exception):  # as IPython does; who executes the cell says what is wrong with it
                body = transformed(self._front.shell, body)
            source = source.replace(call, body.strip("\n"))
        self._stores[0].below(line_num, source, source_raw)

    def _expanded(self, lines: list[str]) -> list[str]:
        """The lines of the macro whose name the cell consists of, or `lines`."""
        name = "".join(lines).strip()
        value = self._front.shell.user_ns.get(name)
        if type(value) is not Macro or self._is_known(name):
            return lines
        return str(value.value).splitlines(keepends=True)

    @contextmanager
    def executing(self) -> Iterator[None]:
        """In the ``with`` block the kernel executes one cell, which may be awaited if it is plain."""
        token = _top.set([True])
        try:
            yield
        finally:
            _top.reset(token)

    def runs_on_workers(self, text: str) -> bool:
        """Whether the plain cell `text` runs on the workers."""
        stripped = text.strip()
        if not self.on or not stripped or stripped.startswith("%%") or self._hidden():
            return False
        if self._is_within_local():
            return False
        end = _END.fullmatch(stripped)
        if (end is not None and not self._is_known(end[1])) or self._is_magic(stripped):
            return False
        return self.is_for_workers(text) or any(map(self._asks_for_register, stripped.split("\n")))

    def is_for_workers(self, text: str) -> bool:
        """Whether `text`, a perhaps incomplete cell, will run on the workers as a plain cell."""
        lines = [line for line in text.replace("\\\n", " ").split("\n") if line.strip()]
        if not self.on or (lines and all(map(_LINE_OF_NOTEBOOK.match, lines))):
            return False
        return not self._asks_what_a_cell_left(text)

    def _hidden(self) -> bool:
        """Whether a front end executes this for itself: silently, or without adding to the history."""
        content = request_of(self._front.shell).get("content", {})
        return bool(content.get("silent")) or not content.get("store_history", True)

    def _is_within_local(self) -> bool:
        """Whether code of a ``%%local`` cell executes this, as ``%time`` and the like do line by line."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe is the same call
        while frame is not None:
            if is_of_cell(self._front.shell, frame.f_code):
                return linecache.getline(frame.f_code.co_filename, 1).rstrip() == _KEPT_HERE
            frame = frame.f_back
        return False

    def _asks_what_a_cell_left(self, text: str) -> bool:
        found = _OF_CELL.fullmatch(text.strip())
        if found is None or found[1] == "_":  # each worker has its own
            return False
        value = self._front.shell.user_ns.get(found[1])
        return is_left_by_cell(value) and not self._is_known(found[1])

    def _asks_for_register(self, line: str) -> bool:
        found = _HELP.match(line) if "?" in line or "%" in line else None
        return found is not None and self._is_known(found[1])

    def _is_known(self, name: str) -> bool:
        """Whether cells on the workers know `name`, or one that fits it (``f*``), unlike plain Python."""
        from disco_magic.functions.context import BEHIND, VERBS  # brings NumPy
        from disco_magic.values.members import pattern_of

        session = self._front.sessions.find()
        known = (*VERBS, *BEHIND, *(() if session is None else session.names()))
        return name in known or ("*" in name and any(map(pattern_of(name).match, known)))

    def _is_magic(self, text: str) -> bool:
        """Whether `text` is a magic without ``%`` by IPython's rule: one line, not a variable's name."""
        shell = self._front.shell
        found = _COMMAND.fullmatch(text) if shell.automagic else None
        if found is None or found[1] not in shell.magics_manager.magics["line"]:
            return False
        rest = found[2] or ""
        return (
            not rest.startswith(_OPERATES)
            and not hasattr(builtins, found[1])
            and not self._is_known(found[1])
        )


def is_left_by_cell(value: object) -> bool:
    """Whether `value` is a cell's handle, its result, or what ``%%capture`` kept; none can go to workers."""
    kind = type(value)
    if kind is CapturedIO:
        return True
    # Looked up, not imported: these bring NumPy.
    handle, results = map(sys.modules.get, ("disco_magic.notebook.handle", "disco_magic.session.results"))
    return (handle is not None and kind is handle.CellHandle) or (
        results is not None and kind is results.CellResult
    )


def _leading_magics(lines: list[str]) -> list[str]:
    """The lines at the top that run in the notebook: ``%load_ext x``, with blank lines and comments."""
    count = 0
    for number, line in enumerate(lines, start=1):
        if _MAGIC.match(line):
            count = number
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return lines[:count]


def run_here(shell: Shell, body: str) -> Any:
    """Run a cell that begins with another ``%%magic`` line, and what that magic executes, in the notebook."""
    magic, _, rest = body.lstrip().partition("\n")
    name, _, line = magic.removeprefix("%%").partition(" ")
    with _deciding():
        return shell.run_cell_magic(name, line, rest)
