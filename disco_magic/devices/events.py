"""Whether a GPU has come to an event: what cupy's own ``Event.done`` does not tell of one that has failed."""

from __future__ import annotations

from typing import Any, Final

_NOT_READY: Final = 600  # cudaErrorNotReady, and hipErrorNotReady


def has_passed(cupy: Any, event: Any) -> bool:
    """Whether a stream has come to `event`; costs 1 us.

    Not ``event.done``: where the device has failed that is False, for ever, for cupy looks at nothing but
    whether the answer is success.

    Raises:
        CUDARuntimeError: the device has failed.
    """
    runtime = cupy.cuda.runtime
    status = runtime.eventQuery(event.ptr)
    if status not in (0, _NOT_READY):
        raise runtime.CUDARuntimeError(status)
    return bool(status == 0)
