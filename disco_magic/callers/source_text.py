"""The source text of an instruction, and of the arguments of a call; parsing it, also on several threads."""

from __future__ import annotations

import ast
import linecache
import textwrap
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import in_place_of
from disco_magic.callers.sites import place_at

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterable, Iterator
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


_LONGEST: Final = 60


def names_of_arguments(frame: types.FrameType, verb: str, count: int) -> list[str]:
    """Names for the `count` positional arguments of the call of `verb` that `frame` makes.

    Each is the argument as written there, or else ``value 1``: if the source is not available, several come
    from one list, ``f(*x)``, the text is long or on several lines, or another argument has the same.
    """
    names: list[str] = []
    written = _written(frame, verb)
    for number in range(1, count + 1):
        name = written[number - 1] if len(written) == count else ""
        plain = name and len(name) <= _LONGEST and name not in names and "\n" not in name
        names.append(name if plain else f"value {number}")
    return names


def texts_among(names: Iterable[str]) -> Iterator[str]:
    """Yield the values of those names that are string literals: ``"w"``, not ``name``."""
    for name in names:
        with suppress(SyntaxError, ValueError):
            text = ast.literal_eval(name)
            if isinstance(text, str):
                yield text


def _written(frame: types.FrameType, verb: str) -> list[str]:
    """The arguments as they are written; none if that is unknown, or if the verb is called indirectly."""
    text = source_at(frame.f_code, frame.f_lasti)
    with suppress(SyntaxError, ValueError, RecursionError):  # these lines have been replaced meanwhile
        (statement,) = parsed(text, "<call>").body
        call: Any = statement.value if isinstance(statement, ast.Expr) else None
        if _calls(call, verb):
            return [ast.get_source_segment(text, each) or "" for each in call.args]
    return []


def _calls(call: Any, verb: str) -> bool:
    """Whether it is a direct call with all arguments: neither ``map(worker.check, x)`` nor one of ``*x``."""
    is_direct = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == verb
    return is_direct and not any(isinstance(each, ast.Starred) for each in call.args)


# One try per file that another thread has dropped because it had changed: there are never that many.
_TIMES: Final = 1000


@in_place_of("checkcache")
def fit_linecache(below: Callable[..., None], filename: str | None = None) -> None:
    """Let several workers drop the lines of changed files at once; in ``linecache``.

    `doctest`, `pdb` and every traceback do so. Python's function iterates over what was there when it began,
    and fails if another thread drops an entry meanwhile.
    """
    for _ in range(_TIMES):
        try:
            below(filename)
        except KeyError:
            continue
        return
