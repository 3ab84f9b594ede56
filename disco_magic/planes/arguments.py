"""Read one caller's arguments, and refuse whatever is known to be wrong before the caller joins the others.

A refusal here does not affect the other members: the caller has not joined yet, and may call again.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.sites import call_spot, site_of
from disco_magic.core.numbers import whole_number
from disco_magic.errors import UsageMistake
from disco_magic.phrases import class_name, people, ranges
from disco_magic.planes.calls import ALONG_AXIS, FROM_ROOT, GATHERING, REDUCING, ROOTED, SPLITTING, Call
from disco_magic.planes.memory import HOST
from disco_magic.planes.reductions import OPS, check_op, reduction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disco_magic.core.seat import Seat, Spot
    from disco_magic.planes.memory import Memory


def read_call(
    kind: str,
    seat: Seat,
    x: object = None,
    *,
    op: object = None,
    root: object = None,
    axis: object = None,
    counts: tuple[int, ...] | None = None,
    out: object = None,
    memory: Memory = HOST,
) -> Call:
    """The caller's `Call`; raise UsageMistake for what is wrong whatever the others do.

    `memory` is where `x` and `out` are.
    """
    # The first lines of `check_seat`, `check_op` and `spot_of` are repeated here, so that usually they are
    # not called: that saves 0.3 us of 1.4.
    present = seat.present
    if seat.worker not in seat.members or (present is not None and present != seat.members):
        check_seat(kind, seat)
    rank = check_root(kind, root, seat.members) if kind in ROOTED else None
    array, scalar, known, rule = None, False, None, None
    if x is not None or needs_array(kind, seat, rank):
        array, scalar = memory.read(kind, seat.worker, x)
        if kind in REDUCING:
            known = op if type(op) is str and op in OPS else check_op(kind, op)
            rule = reduction(kind, known, array.dtype)
            if memory is not HOST:  # the host reduces every dtype that has a rule
                memory.check_reduction(kind, known, array.dtype)
    along = check_axis(kind, axis, array) if kind in ALONG_AXIS else None
    if counts is not None:
        length = None if array is None else array.shape[along or 0]
        check_counts(kind, counts, len(seat.members), length, along)
    target = None if out is None else memory.check_out(kind, seat.worker, out)
    # By position: CPython makes a dictionary of a class's keywords, with which this takes 1.4 us, not 0.9.
    call = Call(kind, seat, seat.spot or call_spot(), memory, array, known, rule, rank, along, counts, target)
    call.scalar = scalar
    return call


def spot_of(seat: Seat) -> Spot | None:
    """The place in the user's code where the calling thread makes the call of `seat`."""
    return seat.spot or call_spot()


def needs_array(kind: str, seat: Seat, root: int | None) -> bool:
    """Whether this member must bring an array; receivers of a root's array and a barrier need none."""
    if kind == "barrier":
        return False
    return kind not in FROM_ROOT or seat.members[root or 0] == seat.worker


def check_seat(kind: str, seat: Seat) -> None:
    """Raise UsageMistake for a call that its seat makes impossible."""
    if seat.worker not in seat.members:
        raise UsageMistake(
            f"{kind}: worker {seat.worker} is not one of the members {ranges(seat.members)} of this"
            f" communicator - only members may call it"
        )
    present = seat.present
    if present is not None and present != seat.members and not set(seat.members).issubset(present):
        absent = sorted(set(seat.members).difference(present))
        raise UsageMistake(
            f"{seat.within or kind} at {site_of(spot_of(seat))}: it needs workers {ranges(seat.members)}, but"
            f" this command was sent to {people(present)} only, so {people(absent)} can never join - send it"
            f" to all workers (drop -w or workers=), or call it on a group whose members all have it"
        )


def check_root(kind: str, root: object, members: tuple[int, ...]) -> int:
    """`root` as a rank among `members`, or UsageMistake."""
    rank, size = as_index(kind, "root", root), len(members)
    if not 0 <= rank < size:
        hint = f"; worker {rank} has rank {members.index(rank)}" if rank in members else ""
        raise UsageMistake(
            f"{kind}: root={rank} is not a rank of a communicator of {size}, within which root counts;"
            f" expected 0 to {size - 1}{hint}"
        )
    return rank


def check_axis(kind: str, axis: object, array: NDArray[Any] | None) -> int:
    """`axis` counted from the front, or as given if there is no array; else UsageMistake."""
    index = as_index(kind, "axis", axis)
    if array is None:
        return index
    if array.ndim == 0 and kind not in GATHERING:
        raise UsageMistake(
            f"{kind}: an array of shape () has no axis that could be split - expected 1-d or more"
        )
    ndim = max(array.ndim, 1)  # 0-d arrays are gathered into a 1-d one
    if not -ndim <= index < ndim:
        raise UsageMistake(
            f"{kind}: axis={index} is out of range for shape {array.shape}; expected {-ndim} to {ndim - 1}"
        )
    return index % ndim


def check_counts(
    kind: str, counts: tuple[int, ...], size: int, length: int | None = None, axis: int | None = None
) -> None:
    """Raise UsageMistake if `counts` do not divide an axis of this length, if known, among `size` members."""
    if len(counts) != size or min(counts) < 0:
        given = "" if len(counts) == size else f"these are {len(counts)}, "
        wrong = f"{given}expected {size} of them, none below 0: how much along the axis goes to each rank"
    elif length is not None and sum(counts) != length:
        wrong = f"they are {sum(counts)} in all, axis {axis} has length {length}"
    else:
        return
    raise UsageMistake(f"{kind}: counts={reprlib.repr(list(counts))} - {wrong}")


def not_a_worker(kind: str, name: str, peer: int, num_workers: int) -> UsageMistake:
    """The error of a message to or from a worker that does not exist; -1 is MPI's ``ANY_SOURCE``."""
    from_any = f" - {kind}() takes a message from any worker" if (name, peer) == ("source", -1) else ""
    return UsageMistake(
        f"{kind}: {name}={peer} is not a worker; expected a worker id from 0 to {num_workers - 1}{from_any}"
    )


def as_index(kind: str, name: str, value: object) -> int:
    """`value` as an int, or raise UsageMistake."""
    number = whole_number(value)
    if number is None:
        given = f"a value of type {class_name(value)}" if _is_array(value) else repr(value)
        hint = _meant(kind, name, value)
        raise UsageMistake(f"{kind}: {name} must be an integer, got {given}{hint}")
    return number


def _is_array(value: object) -> bool:
    """Whether it has elements: not a number of NumPy, an array without axes, or a class of arrays."""
    has_method = hasattr(value, "__array__") and not isinstance(value, type)
    return has_method and getattr(value, "shape", None) != ()


# As in `dist.recv(t, src=None)`, and for a neighbour that a worker at the border has not.
_OF_NONE: Final = {
    "source": "; {}() takes a message from any worker",
    "to": "; a worker that has nobody to send to leaves the send out",
}


def _meant(kind: str, name: str, value: object) -> str:
    """What to write for an array, a list or None that stands where the number `name` belongs."""
    if value is None:
        return _OF_NONE.get(name, "").format(kind)
    array = _is_array(value)
    lengths = "int" in str(getattr(value, "dtype", "")) if array else isinstance(value, list | tuple)
    if kind in SPLITTING and lengths:
        return "; the lengths of the parts are counts="
    if array and name == "to":
        return "; what is sent comes first"
    # As in `comm.Recv(y, 1)`, `dist.recv(t, 0)` or `comm.Allgather(x, y)`. To probe gives no array.
    if not array or "probe" in kind:
        return ""
    # As in `dist.all_gather(parts, x)`.
    fills = f"; no list is filled, {kind}(x) returns the whole" if kind in GATHERING else ""
    return f"; for an array that takes the result write out={fills}"
