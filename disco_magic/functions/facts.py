"""What the record keeps of a worker's call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers.sites import is_of_torch
from disco_magic.core.words import plural
from disco_magic.phrases import class_name
from disco_magic.values.kinds import is_gpu_array

if TYPE_CHECKING:
    from disco_magic.core.recorded import Facts
    from disco_magic.core.seat import Theirs

# Which other arguments of a verb are the plane's alone in a call of PyTorch's.
_OURS: Final = {
    "allgather": slice(0, 1),
    "gather": slice(1, 2),
    "reduce_scatter": slice(1, 3),
    "scatter": slice(1, 3),
    "alltoall": slice(0, 2),
}


def facts_of(
    verb: str, arguments: tuple[Any, ...], here: tuple[str, ...], along: str = ""
) -> tuple[Facts, str]:
    """Return facts about a call's array, its other arguments and its caller, but no array itself.

    Also return the verb that was called, if this call is a part of it.

    Of the caller only the code and the offset in it are kept, in a quarter of the time of finding the line.
    Must be called by what a verb calls; verbs that call verbs are in the files `here`. `along` says who took
    part, if neither the group nor all workers did, or how a message is tagged.
    """
    frame: Any = sys._getframe(3)  # noqa: SLF001 - this function, _call, the verb, its caller
    code, within = frame.f_code, ""
    while code.co_filename in here:  # send_to_next_group and the like
        within = code.co_name
        frame = frame.f_back
        code = frame.f_code
    if within and is_of_torch(frame):  # a process group's call: the user's is what called PyTorch
        caller = frame
        while caller is not None and is_of_torch(caller):
            caller = caller.f_back
        frame, within = caller or frame, ""
        code = frame.f_code
    if within == verb:  # a process group's method, which users may also call directly
        within = ""
    at = code, frame.f_lasti
    called = f"{within}'s {verb}" if within else verb  # the words for workers that wait in it
    if verb == "deliver":
        sent = arguments[0]
        to = (sent.receiver, along) if along else (sent.receiver,)
        return (called.replace(verb, "send"), sent.dtype, sent.shape, to, *at), within
    if not arguments or verb in ("recv", "probe"):
        return (called, "", "", (*arguments[:1], along) if along else arguments[:1], *at), within
    x = arguments[0]
    rest = arguments[1:] if verb == "send" else arguments[1:-1]
    if along:
        rest = *rest, along
    kind = type(x)
    if kind is np.ndarray or is_gpu_array(kind):
        return (called, x.dtype, x.shape, rest, *at), within
    return (called, "no array" if x is None else class_name(x), "", rest, *at), within


def as_theirs(facts: Facts, verb: str, theirs: Theirs) -> Facts:
    """The facts of a call of `verb` for a user who knows it as a call of `torch.distributed`."""
    if verb in ("probe", "recv"):  # of a `probe` the record makes a `recv` of its own, which takes what came
        return facts
    _, dtype, shape, rest, *at = facts
    if verb in _OURS:
        others, ours = [*rest], _OURS[verb]
        # By position the others are named: of a verb of the same name, ours keep their places.
        others[ours] = [None] * (ours.stop - ours.start) if theirs.verb == verb else []
        rest = tuple(others)
    if theirs.objects:
        dtype, shape = plural(theirs.objects, "object"), ""
    # Without a shape there is no array.
    return (theirs.verb, dtype, shape if shape == "" else theirs.shown(shape), rest, *at)
