"""Errors of the simulated GPU, with CUDA's numbers and texts."""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0
INVALID_VALUE: Final = 1
NO_DEVICE: Final = 100
INVALID_DEVICE: Final = 101
INVALID_HANDLE: Final = 400
NOT_FOUND: Final = 500
NOT_READY: Final = 600
ILLEGAL_ADDRESS: Final = 700
MISALIGNED: Final = 716
LAUNCH_FAILURE: Final = 719
CAPTURE_UNSUPPORTED: Final = 900
CAPTURE_INVALIDATED: Final = 901
CAPTURE_UNJOINED: Final = 904
CAPTURE_ISOLATION: Final = 905
CAPTURED_EVENT: Final = 907

_WORDS: Final = {
    INVALID_VALUE: "cudaErrorInvalidValue: invalid argument",
    NO_DEVICE: "cudaErrorNoDevice: no CUDA-capable device is detected",
    INVALID_DEVICE: "cudaErrorInvalidDevice: invalid device ordinal",
    INVALID_HANDLE: "cudaErrorInvalidResourceHandle: invalid resource handle",
    NOT_READY: "cudaErrorNotReady: device not ready",
    ILLEGAL_ADDRESS: "cudaErrorIllegalAddress: an illegal memory access was encountered",
    MISALIGNED: "cudaErrorMisalignedAddress: misaligned address",
    LAUNCH_FAILURE: "cudaErrorLaunchFailure: unspecified launch failure",
    CAPTURE_UNSUPPORTED: "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is"
    " capturing",
    CAPTURE_INVALIDATED: "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error during"
    " capture",
    CAPTURE_UNJOINED: "cudaErrorStreamCaptureUnjoined: capturing stream has unjoined work",
    CAPTURE_ISOLATION: "cudaErrorStreamCaptureIsolation: dependency created on uncaptured work in another"
    " stream",
    CAPTURED_EVENT: "cudaErrorCapturedEvent: operation not permitted on an event last recorded in a capturing"
    " stream",
}


class CUDARuntimeError(RuntimeError):
    """A call of the runtime failed; `status` is CUDA's number."""

    def __init__(self, status: int, infos: tuple[str, ...] = ()) -> None:
        self.status = status
        self.infos = infos
        super().__init__("; ".join([_WORDS[status], *infos]))


class CUDADriverError(RuntimeError):
    """A call of the driver failed, for example because a module has no such kernel; as `CUDARuntimeError`."""

    def __init__(self, status: int, words: str) -> None:
        self.status = status
        super().__init__(words)


class OutOfMemoryError(MemoryError):
    """The device has too little memory left, even after every free block was returned to it."""

    def __init__(self, nbytes: int, total: int, limit: int) -> None:
        super().__init__(
            f"Out of memory allocating {nbytes:,} bytes (allocated so far: {total:,} bytes, "
            f"limit set to: {limit:,} bytes)."
        )


class CompileException(Exception):
    """A kernel's source has errors; the message is the compiler's."""

    def __init__(self, message: str, source: str, name: str, options: tuple[str, ...]) -> None:
        super().__init__(message)
        self.source = source
        self.name = name
        self.options = options

    def get_message(self) -> str:
        """The compiler's output."""
        return str(self)


class NotSimulated(NotImplementedError, AttributeError):
    """The simulation lacks something that CuPy may have; an AttributeError, too, so that `hasattr` works."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the simulated GPU has no {what}: add it to disco_magic.testing.gpu if a test needs it"
        )
