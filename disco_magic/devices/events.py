"""Whether a GPU has reached an event, or never will: cupy's ``Event.done`` does not distinguish these."""

from __future__ import annotations

from typing import Any, Final

_NOT_READY: Final = 600  # cudaErrorNotReady, and hipErrorNotReady
# cudaError_t, and hipError_t where it has them: errors after which the GPU refuses everything else from this
# process. Among them are failures of memory and links (214, 220, 226), illegal addresses (700), time limits
# (702), assertions (710), failed launches (719), and leaked tensor memory (721).
_LOST: Final = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})


def is_lost(error: BaseException) -> bool:
    """Whether `error`, from CUDA's runtime, says that this process can no longer use the GPU."""
    return getattr(error, "status", 0) in _LOST


def has_passed(cupy: Any, event: Any) -> bool:
    """Whether a stream has reached `event`; costs 1 us.

    Not ``event.done``, which stays False for ever if the device has failed: cupy only checks whether the
    answer is success.
    """
    runtime = cupy.cuda.runtime
    status = runtime.eventQuery(event.ptr)
    if status not in (0, _NOT_READY):
        raise runtime.CUDARuntimeError(status)
    return bool(status == 0)
