"""Python objects as bytes that collectives and messages carry, and back."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import PlaneError, UsageMistake
from disco_magic.phrases import class_name, words

_NAMED: Final = " - make the function with def, so that it has a name"

if TYPE_CHECKING:
    from numpy.typing import NDArray


def packed(verb: str, x: Any) -> NDArray[np.uint8]:
    """`x` pickled, as an array of uint8."""
    try:
        return np.frombuffer(pickle.dumps(x, pickle.HIGHEST_PROTOCOL), np.uint8)
    except PlaneError:  # of a collective that its class has called
        raise
    except Exception as reason:
        told = f"{verb}: a {class_name(x)} cannot be pickled: {words(reason)}"
        _leave_out_ours(reason)
        raise UsageMistake(f"{told}{_NAMED if '<lambda>' in told else ''}") from reason


def unpacked(verb: str, content: NDArray[np.uint8], sender: int) -> Any:
    """A new object from what `packed` has made on worker `sender`."""
    try:
        return pickle.loads(content.data)  # noqa: S301 - written by another worker of this session
    except PlaneError:
        raise
    except Exception as reason:
        _leave_out_ours(reason)
        raise UsageMistake(
            f"{verb}: what worker {sender} sent cannot be read here: {words(reason)}"
        ) from reason


def _leave_out_ours(reason: Exception) -> None:
    """Remove the frame of ours that called `pickle`: below it are the user's own, if any."""
    trace = reason.__traceback__
    reason.__traceback__ = None if trace is None else trace.tb_next
