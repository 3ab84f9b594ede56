"""Fingerprints of objects by what pickle writes of them, for values that nothing else is known of."""

from __future__ import annotations

import copyreg
import io
import marshal
import pickle
import re
import sys
import types
from typing import Any, Final

import numpy as np

from disco_magic.callers.namespaces import CELL_MODULE, is_defined
from disco_magic.values.digests import digest, of_array, of_tensor
from disco_magic.values.kinds import (
    home_of,
    is_all_elements,
    is_any_of,
    is_like_tensor,
    is_of_framework,
    is_scripted,
    is_the_users,
    name_of,
    type_name,
)

PLACES: Final = re.compile(r"0x[0-9a-fA-F]{4,}|(?<=\b(?:cuda|rocm):)\d+")
"""Addresses and GPU numbers: equal objects may differ in these without any other difference."""

_PROTOCOL: Final = 4  # with older ones, times lack their `fold`
_VIEWS: Final = (*map(type, ({}.keys(), {}.values(), {}.items())), types.MappingProxyType, memoryview)
_STORAGES: Final = ("TypedStorage", "UntypedStorage")
# What Python and NumPy make of other values has these in it.
_CONTAINERS: Final = ("builtins", "collections", "functools", "numpy", "types")


def pickled_fingerprint(value: Any) -> bytes:
    """The fingerprint of an object by its pickled form; if it has none, by all of it that has one.

    What cannot be pickled, such as a lock or a file, is then represented by its repr, and so is an object of
    a library with such a part.
    """
    whole = _Pickler(value)
    return (
        _written(whole, value)
        or _written(_PicklerOfParts(value, whole.last), value)
        or digest(repr(value).encode("utf-8", "surrogatepass"))
    )


def _written(pickler: _Pickler, value: Any) -> bytes:
    """The fingerprint of what that writes; b"" if it cannot, or if the value is too deep."""
    try:
        pickler.dump(value)
    except Exception:  # noqa: BLE001 - whatever a user's __reduce__ raises
        return b""
    return digest(pickler.stream.getvalue())


class _Pickler(pickle.Pickler):
    """Writes arrays and tensors by their elements, and what any worker's cells have defined by its name.

    Functions of cells that cannot be reached by name, such as lambdas, are written by their code, defaults
    and closure. Without this, PyTorch would also write where it keeps tensors, and zip files with dates;
    pickle would accept the caller's classes and functions only, and no lambdas.

    Attributes:
        root: the argument.
        stream: what is written.
        last: the object that was to be written last: if something went wrong, that one cannot be.
    """

    def __init__(self, root: Any) -> None:
        self.stream = io.BytesIO()
        super().__init__(self.stream, protocol=_PROTOCOL)
        self.root, self.last = root, None
        self._usual: dict[int, type] = {}  # by identity: their metaclass may not be able to hash them

    def reducer_override(self, value: Any) -> Any:
        """Called for what is neither number, text nor container."""
        self.last = value
        kind = type(value)
        if id(kind) in self._usual:
            return NotImplemented
        if _is_usual(kind):
            self._usual[id(kind)] = kind
            return NotImplemented
        if not issubclass(kind, (type, types.FunctionType)):
            return _by_what_is_in_it(value)
        if value.__module__ != CELL_MODULE:
            return NotImplemented
        if is_defined(value):
            return _mark, ("named", value.__qualname__)
        return _by_code(value) if kind is types.FunctionType else NotImplemented


class _PicklerOfParts(_Pickler):
    """Writes what can be pickled of a value that cannot be as a whole, and the rest as text.

    It goes into containers and objects of the user's classes. Those of libraries are written as a whole or
    as text: in them are counters, threads and names that are each worker's own.

    Args:
        root: the value that will be dumped.
        refused: an object that cannot be: its code is not called a second time.
    """

    def __init__(self, root: Any, refused: Any) -> None:
        super().__init__(root)
        self._refused = refused

    def reducer_override(self, value: Any) -> Any:
        """See `_Pickler`."""
        kind = type(value)
        if value is self._refused and value is not None:
            return _mark, ("told", self._text(value))
        try:
            found = super().reducer_override(value)
            if found is NotImplemented and _is_looked_into(kind):
                found = _reduced(value)
        except Exception:  # noqa: BLE001 - whatever a __reduce__ raises
            found = None
        if found is NotImplemented:
            whole = _written(_Pickler(value), value)
            if whole and issubclass(kind, type | types.FunctionType):
                return NotImplemented  # by its name, as the functions here that mark something
            found = (_mark, ("whole", whole)) if whole else None
        return found if type(found) is tuple else (_mark, ("told", self._text(value)))

    def _text(self, value: Any) -> str:
        """The repr of what cannot be pickled; of a part without addresses, in which all of these differ."""
        try:
            text = repr(value)
        except Exception:  # noqa: BLE001 - a user's own code
            text = ""
        return f"{type_name(type(value))} {text if value is self.root else PLACES.sub('', text)}"


def _is_looked_into(kind: type) -> bool:
    """Whether it is the class of a container, or one of the user's."""
    return not issubclass(kind, type | types.FunctionType) and (
        home_of(kind) in _CONTAINERS or is_the_users(kind)
    )


def _reduced(value: Any) -> Any:
    """What the value's class says to pickle."""
    reduce = copyreg.dispatch_table.get(type(value))
    return value.__reduce_ex__(_PROTOCOL) if reduce is None else reduce(value)


def _is_usual(kind: type) -> bool:
    """Whether it is left to pickle what it writes of objects of a class."""
    own = issubclass(kind, type | types.FunctionType | np.ndarray) or is_any_of(kind, _VIEWS)
    of_torch = home_of(kind) == "torch" or is_like_tensor(kind) or hasattr(kind, "_save_to_state_dict")
    return not (own or of_torch or is_of_framework(kind))


def _by_what_is_in_it(value: Any) -> Any:
    """Reduce an array or a tensor to its elements, and a view of a dictionary to what is in it."""
    kind = type(value)
    if kind is not memoryview and is_any_of(kind, _VIEWS):
        held = dict(value) if kind is types.MappingProxyType else list(value)
        return _mark, ("within", kind.__name__, held)
    if kind is memoryview:
        value = np.asarray(value)
    found = _of_elements(value) if is_all_elements(type(value)) else of_tensor(value)
    return (_mark, ("whole", found)) if found else _of_torch(value)


def _of_torch(value: Any) -> Any:
    """Reduce what of PyTorch's pickle refuses, or writes with numbers that all of the process share."""
    kind = type(value)
    if is_scripted(kind):
        return _mark, ("within", type_name(kind), dict(value.state_dict()), str(getattr(value, "code", "")))
    if "_state_dict_hooks" in getattr(value, "__dict__", ()):
        return tuple(_without_numbers(each) if type(each) is dict else each for each in _reduced(value))
    if home_of(kind) == "torch" and name_of(kind) == "RemovableHandle":
        return _mark, ("within", kind)
    is_tensor = is_like_tensor(kind)
    tensor = value.detach().as_subclass(sys.modules["torch"].Tensor) if is_tensor else _bytes_in(value)
    found = of_tensor(tensor)
    own = (str(value.dtype), value.requires_grad) if is_tensor else ()
    return (_mark, ("within", kind, found, *own), vars(value) if own else None) if found else NotImplemented


def _bytes_in(storage: Any) -> Any:
    """The bytes of PyTorch's memory as a tensor; None for anything else."""
    kind = type(storage)
    if home_of(kind) != "torch" or name_of(kind) not in _STORAGES:
        return None
    storage = storage._untyped_storage if name_of(kind) == _STORAGES[0] else storage  # noqa: SLF001 - its own method would warn
    torch = sys.modules["torch"]
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _without_numbers(held: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a module of PyTorch; its hooks without the numbers, which all modules share."""
    return {
        name: list(each.values()) if "_hooks" in name and isinstance(each, dict) else each
        for name, each in held.items()
    }


def _of_elements(array: np.ndarray[Any, Any]) -> bytes:
    """The fingerprint of an array of NumPy, b"" if there are objects in it."""
    return b"" if array.dtype.hasobject else of_array(array, type(array).__name__)


def _mark(what: str, *content: object) -> None:
    """Marks in what is digested of which kind it is; never called."""


def _by_code(function: types.FunctionType) -> tuple[Any, ...]:
    """Reduce a function to its code, and to what that was given: defaults, closure and attributes.

    The latter are its state, which is written when the function is in the memo: they may refer to the
    function.
    """
    closure = [_content(cell) for cell in function.__closure__ or ()]
    given = (function.__defaults__, function.__kwdefaults__, closure, vars(function))
    return _mark, ("coded", marshal.dumps(function.__code__, 2)), given


def _content(cell: types.CellType) -> Any:
    try:
        return (cell.cell_contents,)
    except ValueError:  # the variable is not bound yet
        return None
