"""What callers give as an array, read as one: the only place of a collective where code of theirs may run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import UsageMistake, words
from disco_magic.functions.copies import copy_of
from disco_magic.functions.kinds import is_gpu_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disco_magic.core.interfaces import Place

# NumPy reads these by itself.
_PLAIN: Final = (np.ndarray, np.generic, bool, int, float, complex, type(None))


def read_array(kind: str, x: Any) -> NDArray[Any]:
    """`x` as NumPy reads it; may run code of its class (`__array__`, `__len__`, ...).

    Raises:
        UsageMistake: it cannot be read.
    """
    try:
        return np.asarray(x)
    except Exception as error:
        raise UsageMistake(
            f"{kind}: {type(x).__name__} cannot be read as a NumPy array ({words(error)}) - pass an array,"
            f" a number or a regular list of numbers"
        ) from error


def read_early(kind: str, x: Any, place: Place) -> Any:
    """`x`, read if that may run code of its class; arrays, numbers and None as they are.

    Arrays on the device of the worker's `place` are taken as that place reads them.

    Before a plane call, in which nothing is injected: an endless `__array__` could not be interrupted there.
    """
    if issubclass(type(x), _PLAIN):
        return x
    near = place.read(x)
    if near is not None:
        return near
    array = read_array(kind, x)
    return x if array.dtype.hasobject else array  # what is no array is refused by its own name


def host_array(verb: str, host: Any) -> NDArray[Any]:
    """What a controller gives as an array, as one of NumPy; it may still be the caller's own.

    Raises:
        UsageMistake: it is none, or holds Python objects.
    """
    if isinstance(host, np.ma.MaskedArray):
        raise UsageMistake(f"{verb}: a masked array would lose its mask; pass .filled(value) of it")
    try:
        array = copy_of(host).get() if is_gpu_array(type(host)) else np.asarray(host)
    except ValueError as reason:  # nested lists of different lengths
        raise UsageMistake(f"{verb}: NumPy makes no array of this {type(host).__name__}: {reason}") from None
    if array.dtype.hasobject:
        raise UsageMistake(
            f"{verb}: got {type(host).__name__}, which NumPy can only hold as objects; expected an array of "
            "numbers, or use session.put(name, value) for other objects"
        )
    return array
