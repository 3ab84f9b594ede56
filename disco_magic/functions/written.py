"""How the arguments of a call are written in its line: ``net.state_dict()`` in ``f(net.state_dict())``."""

from __future__ import annotations

import ast
import linecache
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from disco_magic.functions.cells import parsed

if TYPE_CHECKING:
    import types

_CODE_UNIT: Final = 2  # bytes: `f_lasti` counts these, `co_positions` has an entry for each unit
_LONGEST: Final = 60


def names_of_arguments(frame: types.FrameType, count: int) -> list[str]:
    """What to call the positional arguments of the call that `frame` is making, of which there are `count`.

    As they are written there, else ``value 1``: where the lines are not at hand, where several come from one
    list, ``f(*x)``, for a long one, and for one that is written as another is.
    """
    names: list[str] = []
    written = _written(frame)
    for number in range(1, count + 1):
        name = written[number - 1] if len(written) == count else ""
        plain = name and len(name) <= _LONGEST and name not in names
        names.append(name if plain else f"value {number}")
    return names


def _written(frame: types.FrameType) -> list[str]:
    """The arguments as they are written; none if that is not known."""
    place = next(islice(frame.f_code.co_positions(), frame.f_lasti // _CODE_UNIT, None), None)
    if place is None:
        return []
    first, last, begin, end = place
    if first is None or last is None or begin is None or end is None:
        return []
    lines = [line.encode() for line in linecache.getlines(frame.f_code.co_filename)[first - 1 : last]]
    if not lines:
        return []
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    with suppress(SyntaxError, ValueError):  # these lines have been replaced meanwhile
        (statement,) = parsed(b"".join(lines).decode(), "<call>").body
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and not any(isinstance(each, ast.Starred) for each in call.args):
            return [ast.unparse(each) for each in call.args]
    return []
