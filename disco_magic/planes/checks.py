"""Check whether the members' calls fit together: pure functions over `Call`, used before any byte is moved.

    calls in rank order -> kind, root, op -> dtype, dimensions, axis, shape -> even split -> `out`

The first mistake found gives the sentence; the table below it lists what every member called and where.
Nothing here knows threads, so each refusal can be tested as a function of its arguments.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from disco_magic.phrases import people
from disco_magic.planes.calls import FROM_ROOT, GATHERING, SPLITTING, Call, remedy_for_dtypes, table
from disco_magic.planes.layout import arriving, giver, results, sample
from disco_magic.planes.memory import HOST
from disco_magic.planes.outs import check_out_fits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


_LENGTH = "the length of the list"
_MOVE_FIRST = "move the array first, with xp.asarray(x) or x.get()"
_COUNTS = ", or pass counts=[...] with the length of each part"
ORDER = "members have to make the same collective calls in the same order"


def verdict(calls: Sequence[Call]) -> str | None:
    """What is wrong with these calls as one collective, with a table of all calls; None if nothing.

    Args:
        calls: one call per member, in rank order.
    """
    if _are_plain(calls):
        return None
    sentence = None
    if not _alike(calls):  # 5 us faster than comparing fact by fact
        sentence = _kinds(calls) or _arguments(calls)
    if sentence is None and calls[0].kind in SPLITTING and giver(calls).counts is None:
        sentence = _split(calls)
    if sentence is None:
        sentence = _room(calls) or _outs(calls)
    return None if sentence is None else f"{sentence}\n{table(calls)}"


def astray(calls: Sequence[Call]) -> int | None:
    """The first worker of the group whose call fewer workers made than any other; None if there is a tie."""
    few, *others = sorted(_groups(calls, Call.describe).values(), key=len)
    return few[0].worker if others and len(few) < len(others[0]) else None


def _are_plain(calls: Sequence[Call]) -> bool:
    """Whether nothing can be wrong: all calls are plain and have one form, and their outs do not overlap."""
    form = calls[0].form
    if form is None:
        return False
    outs = []
    for call in calls:
        if call.form != form:
            return False
        if call.out is not None:
            outs.append(call.out)
    memory, differ = calls[0].memory, len({*map(id, outs)}) == len(outs)
    # On the host, each `out` of a plain call has memory of its own: `are_apart` would ask that again.
    return differ if memory is HOST else len(outs) < 2 or memory.are_apart(outs)


def _alike(calls: Sequence[Call]) -> bool:
    """Whether all members made the same call, except that some bring no array where none is needed."""
    first = calls[0]
    kind, within, op, root, axis = first.kind, first.seat.within, first.op, first.root, first.axis
    giving = first if root is None else calls[root]
    array, memory = giving.array, giving.memory
    for call in calls:
        if call.kind != kind or call.op != op or call.root != root or call.axis != axis:
            return False
        if call.seat.within != within or _counts(call, giving) != _counts(first, giving):
            return False
        other = call.array
        if other is None and kind in FROM_ROOT:
            continue
        if other is not array and (
            other is None
            or array is None
            or other.dtype != array.dtype
            or other.shape != array.shape
            or call.memory is not memory
        ):
            return False
    return True


def _groups(calls: Sequence[Call], value: Callable[[Call], Any]) -> dict[Any, list[Call]]:
    groups: dict[Any, list[Call]] = {}
    for call in calls:
        groups.setdefault(value(call), []).append(call)
    return groups


def _workers(calls: Sequence[Call]) -> str:
    return people([call.worker for call in calls])


def _kinds(calls: Sequence[Call]) -> str | None:
    groups = sorted(_groups(calls, lambda call: (call.called, call.kind)).values(), key=len)
    if len(groups) == 1:
        return None
    verbs = {group[0].called for group in groups}
    said = [_said(group, by_name=len(verbs) == len(groups)) for group in groups]
    return f"{said[0]} while {' and '.join(said[1:])} - {ORDER}"


def _said(group: Sequence[Call], *, by_name: bool) -> str:
    """``workers [1-3] called allreduce at Cell 1, line 4``."""
    sites = {str(call.site) for call in group}
    where = f"{group[0].site}{' and elsewhere' if len(sites) > 1 else ''}"
    return f"{_workers(group)} called {group[0].called if by_name else group[0].describe()} at {where}"


def _arguments(calls: Sequence[Call]) -> str | None:
    with_array = [call for call in calls if call.array is not None]
    uneven = calls[0].kind == "alltoall" and calls[0].counts is None and calls[0].seat.theirs is None
    checks: list[tuple[str, Callable[[Call], Any], Sequence[Call], str]] = [
        ("root", attrgetter("root"), calls, "pass the same root everywhere"),
        ("op", attrgetter("op"), calls, "pass the same op everywhere"),
        ("device", attrgetter("memory.name"), with_array, _MOVE_FIRST),
        ("dtype", attrgetter("array.dtype"), with_array, remedy_for_dtypes(with_array)),
        (_LENGTH, attrgetter("objects"), with_array, "pass lists of one length on all"),
        ("shape", attrgetter("array.ndim"), with_array, "all arrays need the same number of dimensions"),
        ("axis", _axis(calls), calls, "pass the same axis everywhere"),
        (_of_counts(calls[0]), lambda call: _counts(call, giver(calls)), calls, _remedy(giver(calls))),
        ("shape", _shape, with_array, "make the shapes equal" + _COUNTS * uneven),
    ]
    for what, value, concerned, remedy in checks:
        sentence = _disagreement(concerned, what, value, remedy)
        if sentence is not None:
            return sentence
    return None


def _disagreement(calls: Sequence[Call], what: str, value: Callable[[Call], Any], remedy: str) -> str | None:
    if not calls:
        return None
    first = value(calls[0])
    if all(value(call) == first for call in calls):
        return None
    groups = sorted(_groups(calls, value).values(), key=len)
    said = [f"{_workers(group)} gave {_shown(what, group[0], value)}" for group in groups]
    if _are_elsewhere(groups):
        remedy += (
            f"; or, if these lines are not meant to meet, one worker has made a call more or less: {ORDER}"
        )
    return f"{calls[0].called}: the members disagree on {what}: {', '.join(said)} - {remedy}"


def _are_elsewhere(groups: Sequence[Sequence[Call]]) -> bool:
    """Whether no two groups have a line of code in common from which their members made the call."""
    sites = [{str(call.site) for call in group} for group in groups]
    return len(set().union(*sites)) == sum(map(len, sites))


def _shown(what: str, call: Call, value: Callable[[Call], Any]) -> str:
    if what == "shape" and call.array is not None:
        free = f" (only axis {call.axis} may differ)" if _may_differ(call) else ""
        return f"{call.shape}{free}"
    if what == "lengths" and call.seat.theirs is not None:
        return f"tensors of {call.seat.theirs.shown(call.shape)}"
    if what == "counts" and call.kind != "scatter" and (call.counts is None or call.kind == "alltoall"):
        return "no counts" if call.counts is None else "counts"
    return str(value(call)) if what == _LENGTH else f"{what}={value(call)}"


def _axis(calls: Sequence[Call]) -> Callable[[Call], int | None]:
    """Return a function that counts the axis from the front, by the root's array if a call has none."""
    ndim = max((call.array.ndim for call in calls if call.array is not None), default=0)

    def axis(call: Call) -> int | None:
        if call.axis is None or call.array is not None or not -ndim <= call.axis < ndim:
            return call.axis
        return call.axis % ndim

    return axis


def _counts(call: Call, giving: Call) -> object:
    """What has to agree of `counts`: their lengths, in a scatter unless a call leaves them to the root's.

    In an alltoall, only whether there are any.
    """
    if call.kind == "alltoall":
        return call.counts is not None
    if call.kind != "scatter":
        return call.counts
    return giving.counts if call.counts is None else call.counts


def _of_counts(call: Call) -> str:
    """What users call it: of PyTorch's, they pass tensors, and of counts they know nothing."""
    return "lengths" if call.kind == "reduce_scatter" and call.seat.theirs is not None else "counts"


def _remedy(giving: Call) -> str:
    """What to do about counts that disagree."""
    if _of_counts(giving) == "lengths":
        return "pass lists of tensors of the same lengths everywhere"
    if giving.kind == "alltoall":
        return "pass counts everywhere, or nowhere"
    if giving.kind == "reduce_scatter":
        return "pass the same counts everywhere, or nowhere"
    if giving.counts is None:
        return f"the root, worker {giving.worker}, has to pass them"
    return "those of the root are enough"


def _may_differ(call: Call) -> bool:
    """Whether the members' arrays may differ in length along the axis."""
    if call.kind == "alltoall":
        return call.counts is not None
    theirs = call.seat.theirs
    # PyTorch's rule: only what goes into a list may differ, and `_room` compares that with what it has.
    return call.kind in GATHERING and (theirs is None or theirs.takes is not None)


def _shape(call: Call) -> tuple[int | None, ...]:
    if call.array is None:
        return ()
    shape = call.array.shape
    if not _may_differ(call) or call.axis is None or not shape:
        return shape
    return (*shape[: call.axis], None, *shape[call.axis + 1 :])


def _split(calls: Sequence[Call]) -> str | None:
    kind, size = calls[0].kind, len(calls)
    array = sample(calls)
    axis = next(call.axis for call in calls if call.array is array)
    length = array.shape[axis or 0]
    if length % size == 0:
        return None
    theirs = calls[0].seat.theirs
    if theirs is not None:
        return (
            f"{theirs.verb}: {length} elements, of shape {calls[0].shape}, cannot be shared evenly by {size}"
            f" members - pad them to {-(-length // size) * size}"
        )
    return (
        f"{kind}: axis {axis} has length {length}, which {size} members cannot share evenly - pad it to"
        f" {-(-length // size) * size}, or split another axis{_COUNTS}"
    )


def _room(calls: Sequence[Call]) -> str | None:
    """A sentence if what comes to a member does not fit, rank by rank, what it has said to have room for."""
    said = [call.seat.theirs for call in calls]
    rows = {0 if theirs is None else theirs.row for theirs in said}
    unit, what = (max(rows), "rows") if len(rows) == 1 and 0 not in rows else (1, "elements")
    for rank, (call, theirs) in enumerate(zip(calls, said, strict=True)):
        if theirs is None or theirs.takes is None:
            continue
        come = arriving(calls, rank)
        if come != [*theirs.takes]:
            gives, room = ([each // unit for each in lengths] for lengths in (come, theirs.takes))
            shown = "" if theirs.out is None else f" in an output of shape {theirs.out}"
            return (
                f"{theirs.verb}: the members give worker {call.worker} {gives} {what}, by rank, and it has"
                f" room for {room}{shown} - lengths have to fit rank by rank"
            )
    return None


def _outs(calls: Sequence[Call]) -> str | None:
    if not any(call.out is not None for call in calls):
        return None
    memory = giver(calls).memory
    kept: list[tuple[Call, NDArray[Any]]] = []
    apart = memory.are_apart([call.out for call in calls if call.out is not None and call.memory is memory])
    for call, expected in zip(calls, results(calls), strict=True):
        if call.out is None or expected is None:
            continue  # the out of a member that gets no result is ignored
        if call.memory is not memory:
            return (
                f"{call.kind}: out of worker {call.worker} is on {call.memory.name}, the result on"
                f" {memory.name} - pass an array that is there, or no out"
            )
        named, theirs = f"out of worker {call.worker}", call.seat.theirs
        sentence = check_out_fits(call.kind, named, call.out, expected, memory, theirs)
        if sentence is not None:
            return sentence
        for other, out in () if apart else kept:
            if memory.share(call.out, out):
                return (
                    f"{call.kind}: out of workers {other.worker} and {call.worker} share memory"
                    f" - every member needs an out of its own"
                )
        kept.append((call, call.out))
    return None
