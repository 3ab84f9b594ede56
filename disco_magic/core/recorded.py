"""What a worker's recorder keeps; `spans` makes spans of it when it is read.

All of it is bare tuples of plain data, at most with tuples of plain data in them: the garbage collector
untracks such tuples when it has seen them twice, and need not visit the thousands that are kept in every full
collection. Objects instead would make a collective a quarter slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.messages import Fetch, Run, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from disco_magic.core.messages import Command
    from disco_magic.core.seat import Spot
    from disco_magic.core.timeline import Kind

    # Returns the line of the user's code, in words, from a code object and an offset in it.
    Place = Callable[[CodeType, int], str]

LONG: Final = 200
"""How many characters of a label are kept."""

# A spell, commands that a worker executes without a pause: when it began, number of the first command, what
# that calls if it is an ordinary call, and `Recorder.quiet` then. A bare tuple: one is made at each wake-up.
Spell = tuple[float, int, Any, int]
# The spell of a sleeping worker: it has not begun, at whatever time one looks.
ASLEEP: Final[Spell] = (float("inf"), 0, None, 0)


# A command, several, an error, or a named block: kind, start, end, label, detail, number of the command (the
# last one of several) if it has one, and how long the worker was asleep in its collectives, if known.
Done = tuple[str, float, float, str, str, int | None, float | None]
# A named block: when it began, and its name.
Named = tuple[float, str]
SIMPLE: Final = 7
# A call: the verb, preceded by ``allreduce_tree's`` if it is a part of that; dtype and shape of the array, or
# the name of another type and ""; the other arguments without `out`; the calling code and the offset in it.
Facts = tuple[str, Any, Any, tuple[Any, ...], "CodeType", int]
# A collective, a send or a recv: when it was called, its facts, and its meeting (see `Span`), if it has one.
Joined = tuple[float, str, Any, Any, tuple[Any, ...], "CodeType", int, tuple[int, ...], int, int]
# A `Joined` with its end, seconds asleep, and name of the exception.
Parted = tuple[Any, ...]

# What led to a call, of a cell with ``--check``: the name of the asyncio task that makes it, or "", and the
# places that led to the line of the call.
Led = tuple[str, tuple["Spot", ...]]


def start_of(done: Any) -> tuple[str, float]:
    """Kind and start, which together no other span of the worker has."""
    return (done[0], done[1]) if len(done) == SIMPLE else ("collective", done[0])


def seq_of(done: Any) -> int | None:
    """Number of the command it belongs to; None for a named block, which may last for several."""
    seq: int | None = done[5] if len(done) == SIMPLE else done[8]
    return seq


def end_of(done: Any) -> float:
    """When it ended."""
    return float(done[2] if len(done) == SIMPLE else done[10])


def kind_of(command: Command) -> Kind:
    """The kind of a command that goes through the interpreter."""
    kind = type(command)
    return "cell" if kind is Run else "copy" if kind in (Store, Fetch) else "call"
