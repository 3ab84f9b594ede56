"""Makes the spans of a timeline of what a worker's recorder has kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.messages import Call
from disco_magic.core.recorded import SIMPLE, kind_of
from disco_magic.core.timeline import FAILED, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.messages import Command
    from disco_magic.core.recorded import Led, Place, Spell

# The arguments that are kept; `over` only if the call named the members.
_NAMES: Final = {
    "allreduce": ("op", "over"),
    "reduce": ("op", "root", "over"),
    "allgather": ("axis", "over"),
    "gather": ("root", "axis", "over"),
    "reduce_scatter": ("op", "axis", "counts", "over"),
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
