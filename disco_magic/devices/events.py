"""Whether a GPU has come to an event, or never will: cupy's own ``Event.done`` does not tell these apart."""

from __future__ import annotations

from typing import Any, Final

_NOT_READY: Final = 600  # cudaErrorNotReady, and hipErrorNotReady
# cudaError_t, and hipError_t where it has them: errors after which the GPU refuses everything else that this
# process asks for. Memory and links that failed (214, 220, 226) are among them, illegal addresses (700),
# time limits (702), assertions (710), failed launches (719), and leaked tensor memory (721).
_LOST: Final = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})


def is_lost(error: BaseException) -> bool:
    """Whether `error`, of CUDA's runtime, says that nothing more can be done on the GPU by this process."""
    return getattr(error, "status", 0) in _LOST


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
