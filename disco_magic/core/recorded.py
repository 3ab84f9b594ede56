"""What a worker's recorder keeps, and how that becomes spans when it is read.

All of it is bare tuples of plain data, at most with tuples of plain data in them: the garbage collector
untracks such tuples when it has seen them twice, and need not visit the thousands that are kept in every full
collection. Objects instead would make a collective a quarter slower.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.messages import Call, Fetch, Run, Store
from disco_magic.core.timeline import FAILED, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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

# The arguments that are kept; `over` only if the call named the members.
_NAMES: Final = {
    "allreduce": ("op", "over"),
    "reduce": ("op", "root", "over"),
    "allgather": ("axis", "over"),
    "gather": ("root", "axis", "over"),
    "reduce_scatter": ("op", "axis", "over"),
    "broadcast": ("root", "over"),
    "scatter": ("root", "axis", "counts", "over"),
    "alltoall": ("axis", "counts", "over"),
    "all_reduce": ("op", "over"),
    "all_gather": ("over",),
    "all_gather_into_tensor": ("over",),
    "reduce_scatter_tensor": ("op", "over"),
    "all_to_all_single": ("over",),
    "all_to_all": ("over",),
    "all_gather_object": ("over",),
    "gather_object": ("root", "over"),
    "broadcast_object_list": ("root", "over"),
    "scatter_object_list": ("root", "over"),
    "barrier": ("over",),
    "send": ("to", "tag"),
    "recv": ("source", "tag"),
    "probe": ("from", "tag"),
}


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


def spans_of(worker: int, done: Any, place: Place) -> list[Span]:
    """Make spans of what was kept."""
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
    """Make the spans of a collective and of the waiting in it, drawn at its beginning, where most of it is.

    Args:
        worker: the caller.
        joined: what was called.
        end: when it ended, or now.
        place: the line of the user's code in words.
        asleep_s: how long the worker was asleep in it; None: it has not ended.
        error: name of the exception that it raised.
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
        source = rest[0] if rest and verb.rpartition(" ")[2] in ("recv", "send", "probe") else None
        spans.append(
            Span(
                worker,
                "waiting",
                words,
                begin,
                begin + slept,
                where,
                detail,
                unfinished,
                source=None if type(source) is tuple else source,  # a probe's, before a message has come
            )
        )
    return spans


def led(span: Span, by: Led | None, place: Place) -> Span:
    """The span of a collective with what led to it, if that was kept."""
    if by is None:
        return span
    task, spots = by
    return replace(span, callers=tuple(place(*spot) for spot in spots), task=task)


def kind_of(command: Command) -> Kind:
    """The kind of a command that goes through the interpreter."""
    kind = type(command)
    return "cell" if kind is Run else "copy" if kind in (Store, Fetch) else "call"


def doing_of(
    worker: int, command: Command, opened: float | None, spell: Spell, *, until: float, words: str
) -> Span | None:
    """The span of the current command, if its start is known."""
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
