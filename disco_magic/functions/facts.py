"""What the record keeps of a worker's call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.callers.sites import is_of_torch
from disco_magic.phrases import class_name
from disco_magic.values.kinds import is_gpu_array

if TYPE_CHECKING:
    from disco_magic.core.recorded import Facts


def facts_of(
    verb: str, arguments: tuple[Any, ...], here: tuple[str, ...], along: str = ""
) -> tuple[Facts, str]:
    """Facts about the array of a call, its other arguments, and who called it; no array itself.

    And the verb that was called, where this call is a part of it.

    Of the place only the code and where in it: that is a quarter of the time that its line would take. It is
    called by what a verb calls; verbs that call verbs are in the files `here`. `along` says who took part, if
    neither the group nor all did, or how a message is tagged.
    """
    frame: Any = sys._getframe(3)  # noqa: SLF001 - this, _call, the verb, who called it
    code, within = frame.f_code, ""
    while code.co_filename in here:  # send_to_next_group and its like
        within = code.co_name
        frame = frame.f_back
        code = frame.f_code
    if within and is_of_torch(frame):  # a process group's call: the user's is what called PyTorch
        caller = frame
        while caller is not None and is_of_torch(caller):
            caller = caller.f_back
        frame, within = caller or frame, ""
        code = frame.f_code
    if within == verb:  # of a process group, which a user may also call
        within = ""
    at = code, frame.f_lasti
    called = f"{within}'s {verb}" if within else verb  # as those are told who wait in it
    if verb == "deliver":
        sent = arguments[0]
        to = (sent.receiver, along) if along else (sent.receiver,)
        return (called.replace(verb, "send"), sent.dtype, sent.shape, to, *at), within
    if not arguments or verb == "recv":
        return (called, "", "", (*arguments[:1], along) if along else arguments[:1], *at), within
    x = arguments[0]
    rest = arguments[1:] if verb == "send" else arguments[1:-1]
    if along:
        rest = *rest, along
    kind = type(x)
    if kind is np.ndarray or is_gpu_array(kind):
        return (called, x.dtype, x.shape, rest, *at), within
    return (called, "no array" if x is None else class_name(x), "", rest, *at), within
