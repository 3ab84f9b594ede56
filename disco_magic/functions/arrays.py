"""Read what callers pass as an array: the only step of a collective in which their code may run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.array_advice import ARRAYS, advice
from disco_magic.functions.copies import copy_of
from disco_magic.functions.returned import library_of
from disco_magic.phrases import class_name, words
from disco_magic.values.content import kinds_of
from disco_magic.values.frames import is_frame, is_labelled, is_series
from disco_magic.values.kinds import (
    home_of,
    is_gpu_array,
    is_jax_array,
    is_of_framework,
    is_tensor,
    name_of,
)
from disco_magic.values.tensors import array_of, has_dlpack, lent, over_memory, without_history

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disco_magic.core.place import Place

# Of tables, and of arrays with labels.
_CARRIERS: Final = {
    **dict.fromkeys(("broadcast", "scatter"), "broadcast_object(x)"),
    "send": "send_object(x, to)",
}
_ROUNDED: Final = "NumPy would round these integers to float64: it reads some as int64, others as uint64"
_WHOLE: Final = frozenset({int, *(np.dtype(each).type for each in "bhilqBHILQ")})
_PART: Final = "pass this worker's part of it, x.to_local(), or all of it, x.full_tensor()"
_FROM_ROOT: Final = ("broadcast", "scatter")
_VERBS: Final = frozenset(
    {"allreduce", "reduce", "reduce_scatter", "allgather", "gather", "alltoall", "send", *_FROM_ROOT}
)
_GRADIENT: Final = "; where a gradient has to come back, call it in a torch.autograd.Function"
# Types that NumPy reads by itself.
_PLAIN: Final = (np.ndarray, np.generic, bool, int, float, complex, str, bytes, type(None))


def _as_array(x: Any) -> NDArray[Any]:
    if is_tensor(type(x)) and str(x.device) == "cpu":
        return array_of(x)
    array = np.asarray(x)
    return lent(x) if array.dtype.hasobject and has_dlpack(x) else array


def read_array(kind: str, x: Any) -> NDArray[Any]:
    """`x` as NumPy reads it, or DLPack; may run code of its class (`__array__`, `__len__`, ...)."""
    if isinstance(x, np.ma.MaskedArray):
        raise UsageMistake(
            f"{kind}: masked arrays would lose their masks - pass x.filled(...), or x.data and x.mask"
        )
    if is_frame(type(x)) or is_series(type(x)) or is_labelled(type(x)):
        lost = "names and missing values" if home_of(type(x)) == "polars" else "labels"
        raise UsageMistake(
            f"{kind}: {lost} of a {class_name(x)} are not carried, and rows would meet by their place - pass "
            f"x.to_numpy(), or let {_CARRIERS.get(kind, 'allgather_objects(x)')} carry all of it"
        )
    if home_of(type(x)) == "pandas" and hasattr(x, "isna") and np.any(x.isna()):
        raise UsageMistake(
            f"{kind}: missing values of this {class_name(x)} would become NaN - pass x.to_numpy(na_value=...)"
        )
    if type(x) in (list, tuple) and any(map(is_of_framework, kinds_of(x))):
        raise UsageMistake(f"{kind}: NumPy would stack what is in this {class_name(x)} - {advice(kind, x)}")
    try:
        array = _as_array(x)
    except Exception as error:  # noqa: BLE001 - raised again, with advice
        refuse_traced(kind, x)
        why = f"{kind}: {type(x).__name__} cannot be read as a NumPy array"
        if is_tensor(type(x)) and x.requires_grad:  # what carries anything would lose its history
            raise UsageMistake(f"{why}: {words(error)}{_GRADIENT if kind in _VERBS else ''}") from None
        sharded = home_of(type(x)) == "torch" and hasattr(type(x), "full_tensor")
        said = "its arrays differ in shape" if _differ_in_shape(x) else words(error)
        mistake = UsageMistake(f"{why} ({said}) - {_PART if sharded else advice(kind, x)}")
        # If the user's code was called, its traceback says more.
        raise mistake from None if _is_of_numpy(error) else error
    changed = _changed(x, array)
    if changed:
        raise UsageMistake(f"{kind}: {changed} - {_instead(kind, x, changed)}")
    return array


def _changed(x: Any, array: NDArray[Any]) -> str:
    """What NumPy would make of numbers and texts without a word; "" if they stay what they are."""
    if type(x) in (str, bytes) and array.item() != x:
        return "NumPy would drop the zeros at the end of this text"
    if type(x) not in (list, tuple) or not array.size:
        return ""
    if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds_of(x)):
        return f"NumPy would drop the masks of what is in this {class_name(x)}"
    if array.dtype.kind in "US":
        return _changed_texts(x, array)
    if array.dtype.kind == "f" and _are_whole(x):
        return _ROUNDED
    return ""


def _changed_texts(x: Any, array: NDArray[Any]) -> str:
    items = np.asarray(x, object).ravel().tolist()
    text = str if array.dtype.kind == "U" else bytes
    if not all(isinstance(each, text) for each in items):
        return "NumPy would turn the numbers in this list into text"
    return "" if array.ravel().tolist() == items else "NumPy would drop the zeros at the end of a text"


def _are_whole(x: Any) -> bool:
    """Whether a list, of lists perhaps, has whole numbers only."""
    kinds = set(kinds_of(x))
    if kinds <= _WHOLE:
        return True
    if not kinds <= _WHOLE | {list, tuple}:
        return False
    return set(kinds_of(np.asarray(x, object).ravel().tolist())) <= _WHOLE


def beyond_64_bits(kind: str, x: Any) -> str:
    """What to do with an integer, or a list of integers, of which NumPy makes objects; "" for all others."""
    if type(x) is not int and not (type(x) in (list, tuple) and _are_whole(x)):
        return ""
    what = "the integer does not fit" if type(x) is int else "these integers do not all fit"
    return f"{what} into 64 bits - {_as_floats(kind)}"


def _instead(kind: str, x: Any, changed: str) -> str:
    """What to pass instead of `x`, which NumPy would have `changed`."""
    if changed != _ROUNDED:
        return advice(kind, x)
    if min(np.asarray(x, object).ravel().tolist()) >= 0:
        return "pass np.array(x, 'uint64') on all"
    return f"no type of 64 bits holds both: {_as_floats(kind)}"


def _as_floats(kind: str) -> str:
    carrier = _CARRIERS.get(kind, "allgather_objects(x)")
    return f"pass floats; or let {carrier} carry Python's own integers"


def refuse_traced(kind: str, x: Any) -> None:
    """Raise UsageMistake if `x` represents an array in code that JAX traces."""
    if home_of(type(x)) == "jax" and name_of(type(x)).endswith("Tracer"):
        raise UsageMistake(
            f"{kind} was called in code that JAX traces, where there are no arrays yet - "
            "call it outside of what is jitted, differentiated or mapped"
        ) from None


def _differ_in_shape(x: Any) -> bool:
    """Whether it is a list of arrays that NumPy cannot stack; its own error says more than is of use."""
    arrays = x if type(x) in (list, tuple) else []
    return all(isinstance(each, np.ndarray) for each in arrays) and len({each.shape for each in arrays}) > 1


def _is_of_numpy(error: Exception) -> bool:
    """Whether `_as_array` or C code that it called has raised the error, not the user's code."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_code is _as_array.__code__


def taken(
    verb: str, arguments: tuple[Any, ...], worker: int, members: tuple[int, ...], place: Place
) -> tuple[tuple[Any, ...], bool, str]:
    """Read the first of a collective's arguments, which `worker` passes as an array.

    Returns:
        The arguments; whether the array's memory is another library's on the GPU; the name of its library.

    Raises:
        UsageMistake: see `check_brought` and `read_early`.
    """
    given, *others = arguments
    x = read_early(verb, given, place)
    if given is None:
        check_brought(verb, arguments, worker, members)
    if x is given:
        return arguments, False, ""
    return (x, *others), not isinstance(x, np.ndarray), library_of(type(given))


def check_brought(verb: str, arguments: tuple[Any, ...], worker: int, members: tuple[int, ...]) -> None:
    """Refuse None from `worker`, unless another member is the root, which alone passes the array."""
    if verb in _FROM_ROOT:
        root = arguments[1]
        if type(root) is int and 0 <= root < len(members) and members[root] == worker:
            raise UsageMistake(
                f"{verb}: worker {worker} is the root and gave None - the root has to pass {ARRAYS};"
                " or set root= to the rank that has one"
            )
        return
    raise UsageMistake(f"{verb}: worker {worker} gave None - {advice(verb, None)}")


def read_early(kind: str, x: Any, place: Place) -> Any:
    """Read `x` if that may run code of its class; return arrays, numbers and None as they are.

    Arrays on the device of the worker's `place` are read by that place.

    Called before a plane call, because nothing is injected there: an endless `__array__` could not be
    interrupted.
    """
    if issubclass(type(x), _PLAIN):
        return x
    near = place.read(without_history(x))
    if near is not None:
        return near
    array = read_array(kind, x)
    return x if array.dtype.hasobject else array  # refused later, by its own name


def shared(verb: str, value: Any, place: Place) -> Any:
    """`value` as an array to read from: its memory, see `over_memory`; of a JAX array, the elements.

    Raises:
        UsageMistake: it is a tensor that requires grad, or there is no such array.
    """
    if is_jax_array(type(value)):
        return read_array(verb, value)
    return over_memory(value, place, f"{verb}: a {type(value).__name__} cannot be taken")


def host_array(verb: str, host: Any) -> NDArray[Any]:
    """The array that a controller passes, as one of NumPy; it may still be the caller's own."""
    if isinstance(host, np.ma.MaskedArray):
        raise UsageMistake(f"{verb}: a masked array would lose its mask; pass .filled(value) of it")
    is_column = is_series(type(host)) and home_of(type(host)) == "pandas"
    if is_column or is_frame(type(host)):
        lost = "index and its name" if is_column else "columns' names and its index"
        raise UsageMistake(
            f"{verb}: a {type(host).__name__} would lose its {lost}; pass .to_numpy() of it, or use"
            " session.put(name, value), and in a notebook %disco scatter"
        )
    try:
        array = copy_of(host).get() if is_gpu_array(type(host)) else _as_array(host)
    except Exception as reason:  # noqa: BLE001 - nested lists of different lengths, or an error of `lent`
        raise UsageMistake(f"{verb}: NumPy makes no array of this {type(host).__name__}: {reason}") from None
    if array.dtype.hasobject or isinstance(host, Mapping):  # of a `ChainMap` NumPy would take the keys
        held = f" of {array.dtype}" if array is host else ", which NumPy can only hold as objects"
        raise UsageMistake(
            f"{verb}: got {type(host).__name__}{held}; expected an array of "
            "numbers, or use session.put(name, value) for other objects"
        )
    if changed := _changed(host, array):
        raise UsageMistake(f"{verb}: {changed}; use session.put(name, value)")
    return array


def host_target(verb: str, host: Any) -> NDArray[Any]:
    """The array to fill that a controller passes: NumPy's, or the memory of another library's tensor."""
    array = host
    if has_dlpack(host):
        with suppress(Exception):  # refused below
            array = lent(host)
    if isinstance(array, np.ndarray) and array.flags.writeable:
        return array
    raise UsageMistake(f"{verb}: host must be a writeable array on the CPU, got {class_name(host)}")
