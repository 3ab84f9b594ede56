"""What may be asked of streams and events: how far they are, and whether that may be asked at all."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from disco_magic.values.kinds import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_READY: Final = 600  # cudaErrorNotReady, and hipErrorNotReady
# cudaError_t, and hipError_t where it has them: errors after which the GPU refuses everything else from this
# process. Among them are failures of memory and links (214, 220, 226), illegal addresses (700), time limits
# (702), assertions (710), failed launches (719), and leaked tensor memory (721).
_LOST: Final = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})


# Errors of cupy and PyTorch, and where they have the number. CUDA's runtime and its driver have the same.
_NUMBERS: Final = {
    "CUDARuntimeError": "status",
    "CUDADriverError": "status",
    "AcceleratorError": "error_code",
}


def is_lost(error: BaseException) -> bool:
    """Whether `error`, of CUDA, says that this process can no longer use the GPU."""
    number = vars(error).get(_NUMBERS.get(name_of(type(error)), ""))
    return isinstance(number, int) and number in _LOST


@contextmanager
def lost_gpus_ignored() -> Iterator[None]:
    """Context that ends without an error if that says that the GPU is lost: the next call says so, too."""
    try:
        yield
    except RuntimeError as error:
        if not is_lost(error):
            raise


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


def is_captured(cupy: Any, stream: Any) -> bool:
    """Whether what is queued on `stream` is recorded for a CUDA graph; costs 1 us.

    Nothing of it is done before the graph is launched. To ask how far the stream is would spoil the
    recording, and a stream that waits for it would record, too.

    Raises:
        CUDARuntimeError: the device has failed.
    """
    if cupy.cuda.runtime.is_hip:  # before cupy 14, `is_capturing` raises there
        return False
    try:
        return bool(stream.is_capturing())
    except cupy.cuda.runtime.CUDARuntimeError:
        raise
    except RuntimeError:  # a recording that was spoilt, and has not ended
        return True
