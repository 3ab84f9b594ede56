"""What a worker's recorder keeps, and how it becomes spans when somebody reads it.

Bare tuples of plain data, all of them, with tuples of plain data in them at most: the garbage collector drops
such ones from its lists when it has met them twice, and need not look at the thousands that are kept whenever
it looks at everything. Objects in their place make a collective a quarter slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.messages import Call, Fetch, Run, Store
from disco_magic.core.timeline import FAILED, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType

    from disco_magic.core.messages import Command
    from disco_magic.core.timeline import Kind

    # The line of the user's code, in words, from a code object and where in it.
    Place = Callable[[CodeType, int], str]

LONG: Final = 200
"""Characters of a label that are kept."""

# Commands that a worker executes without a pause: when that began, number of the first one, what it calls if
# it is an ordinary call, and `Recorder.quiet` then. A bare tuple: a worker makes one whenever it wakes.
Spell = tuple[float, int, Any, int]
# Of a worker that sleeps: however late it is, this was not long ago.
ASLEEP: Final[Spell] = (float("inf"), 0, None, 0)


# A command, several, an error, or what the user has named: kind, start, end, label, detail, number of the
# command (of several the last one) if it has one, and how long the worker was asleep in its collectives, if
# that is known.
Done = tuple[str, float, float, str, str, int | None, float | None]
# A block that has a name: when it began, and the name.
Named = tuple[float, str]
SIMPLE: Final = 7
# What is called: the verb, behind ``allreduce_tree's`` if it is a part of that; dtype and shape of the array,
# or the name of another type and nothing; the other arguments without `out`; the code that calls it and where
# in it.
Facts = tuple[str, Any, Any, tuple[Any, ...], "CodeType", int]
# A collective, a send or a recv: when it was called, what, and its meeting (see `Span`; no members: none).
Joined = tuple[float, str, Any, Any, tuple[Any, ...], "CodeType", int, tuple[int, ...], int, int]
# That, its end, seconds asleep, name of the exception.
Parted = tuple[Any, ...]

# Of the arguments that are kept; the last one only where the call named who takes part.
_NAMES: Final = {
    "allreduce": ("op", "over"),
    "reduce": ("op", "root", "over"),
    "allgather": ("axis", "over"),
    "gather": ("root", "axis", "over"),
    "reduce_scatter": ("op", "axis", "over"),
    "broadcast": ("root", "over"),
    "scatter": ("root", "axis", "over"),
    "alltoall": ("axis", "counts", "over"),
    "barrier": ("over",),
    "send": ("to", "tag"),
    "recv": ("source", "tag"),
}


def start_of(done: Any) -> tuple[str, float]:
    """What it is and when it began, which no other span of the worker has in common with it."""
    return (done[0], done[1]) if len(done) == SIMPLE else ("collective", done[0])


def seq_of(done: Any) -> int | None:
    """Number of the command that it is of; None: of a block with a name, which may last for several."""
    seq: int | None = done[5] if len(done) == SIMPLE else done[8]
    return seq


def end_of(done: Any) -> float:
    """When it was over."""
    return float(done[2] if len(done) == SIMPLE else done[10])


def spans_of(worker: int, done: Any, place: Place) -> list[Span]:
    """What was kept, in words."""
    if len(done) == SIMPLE:
        kind, start, end, label, detail, seq, waited_s = done
        return [Span(worker, kind, label, start, end, "", detail, seq=seq, waited_s=waited_s)]
    *joined, end, asleep_s, error = done
    return attended(worker, joined, end, place, asleep_s=asleep_s, error=error)


def attended(
    worker: int,
    joined: Sequence[Any],
    end: float,
    place: Place,
    *,
    asleep_s: float | None = None,
    error: str = "",
    waiting_s: float | None = None,
) -> list[Span]:
    """A collective and the waiting in it, which is drawn at its beginning: nearly all of it is there.

    Args:
        worker: whose it is.
        joined: what was called.
        end: when it was over, or now.
        place: the line of the user's code in words.
        asleep_s: how long the worker was asleep in it; None: it is not over.
        error: name of the exception that it has raised.
        waiting_s: how long the worker has been asleep in it until now.
    """
    start, verb, kind, shape, rest, code, offset, members, scope, number = joined
    given = zip(_NAMES.get(verb.rpartition(" ")[2], ()), rest, strict=False)
    named = [f"{name}={value}" for name, value in given if value is not None]
    words = f"{verb}({', '.join(filter(None, [f'{kind} {shape}'.strip(), *named]))})"
    unfinished, where = asleep_s is None, place(code, offset)
    meeting = (members, scope, number) if members else None
    detail = f"{FAILED}{error}" if error else ""
    spans = [Span(worker, "collective", words, start, end, where, detail, unfinished, meeting)]
    slept = min(asleep_s or waiting_s or 0.0, end - start)
    if slept > 0:
        begin = end - slept if unfinished else start
        detail = "for others"
        source = rest[0] if rest and verb.rpartition(" ")[2] in ("recv", "send") else None
        spans.append(
            Span(worker, "waiting", words, begin, begin + slept, where, detail, unfinished, source=source)
        )
    return spans


def kind_of(command: Command) -> Kind:
    """What a command is that goes through the interpreter."""
    kind = type(command)
    return "cell" if kind is Run else "copy" if kind in (Store, Fetch) else "call"


def doing_of(
    worker: int, command: Command, opened: float | None, spell: Spell, *, until: float, words: str
) -> Span | None:
    """What goes on, if it is known when that began."""
    seq = command.seq
    detail = f"command {seq}"
    if opened is not None:
        return Span(worker, kind_of(command), words, opened, until, "", detail, unfinished=True, seq=seq)
    start, first, _, _ = spell
    if type(command) is not Call or start >= until or seq < first:
        return None
    if seq == first:
        return Span(worker, "call", words, start, until, "", detail, unfinished=True, seq=seq)
    detail = f"commands {first} to {seq}, now: {words}"
    return Span(worker, "calls", "calls", start, until, "", detail, unfinished=True, seq=seq)
