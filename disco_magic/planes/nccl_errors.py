"""NCCL's own errors: those that it reports later, and those that cupy has no name for."""

from __future__ import annotations

from typing import Any, Final

_IN_PROGRESS: Final = 7
_UNNAMED: Final = {  # ncclResult_t of nccl.h
    (_IN_PROGRESS,): "NCCL_IN_PROGRESS: the operation is not finished yet",
    (8,): "NCCL_TIMEOUT: NCCL has given up waiting for a member",
}


def async_error(communicator: Any, nccl: Any) -> Exception | None:
    """The error that NCCL reports since the last call; None if there is none."""
    try:
        communicator.check_async_error()
    except (nccl.NcclError, KeyError) as error:  # KeyError: a status that cupy has no name for, remote errors
        if isinstance(error, KeyError) and error.args == (_IN_PROGRESS,):
            return None
        return known(error)
    return None


def known(error: Exception) -> Exception:
    """`error`, or one with NCCL's name for it if cupy has none."""
    if isinstance(error, KeyError) and error.args in _UNNAMED:
        return RuntimeError(_UNNAMED[error.args])
    return error
