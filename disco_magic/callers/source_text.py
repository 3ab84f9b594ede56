"""The source text of an instruction, and parsing it."""

from __future__ import annotations

import ast
import linecache
import textwrap
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from disco_magic.callers.sites import place_at

if TYPE_CHECKING:
    from types import CodeType

_PARSES: Final = 20


def source_at(code: CodeType, offset: int, *, whole_lines: bool = False) -> str:
    """The expression or statement of an instruction of `code` as it is written; "" if that is unknown.

    `whole_lines`: from the beginning of its first line to the end of its last.
    """
    first, last, begin, end = place_at(code, max(0, offset))
    if first is None or last is None or begin is None or end is None:
        return ""
    linecache.checkcache(code.co_filename)  # a program may have been edited since
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if lines and not whole_lines:
        lines[-1] = lines[-1][:end]
        lines[0] = b" " * begin + lines[0][begin:]  # as far to the right as before, for the lines below it
    return textwrap.dedent(b"".join(lines).decode(errors="replace")).strip()


def parsed(source: str, filename: str) -> ast.Module:
    """`ast.parse`, tried again if CPython's own bookkeeping was disturbed.

    Before 3.13 the depth of the tree is counted in one place for all threads: if a finalizer lets another
    thread run while the tree is made, and that thread parses too (as for a traceback's carets), both may fail
    with a SystemError.
    """
    for _ in range(_PARSES):
        with suppress(SystemError):
            return ast.parse(source, filename)
    return ast.parse(source, filename)
