"""What is in a value: the parts of containers, named tuples, dataclasses, data frames, PyTorch's modules.

Only what can be had without running the user's code: no ``__iter__``, ``__hash__``, ``__eq__`` or property of
their classes is called, and none of their metaclasses either. So containers of exactly the types below are
looked into, and instances of classes whose attributes are found in their dictionaries.
"""

from __future__ import annotations

import abc
import types
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.functions.fingerprint import PLAIN
from disco_magic.functions.frames import column_of, columns_of, is_frame, is_series
from disco_magic.functions.kinds import home_of, module_of, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

# Compared by identity: ``in`` asks a metaclass, which may have an ``__eq__`` or a ``__hash__`` of its own.
_PLAIN: Final = frozenset(map(id, PLAIN))
_DICTS: Final = frozenset(map(id, (dict, defaultdict, Counter)))
_ORDERED: Final = id(OrderedDict)
_LISTS: Final = frozenset(map(id, (list, tuple, deque)))
_SETS: Final = frozenset(map(id, (set, frozenset)))
_COUNTED: Final = frozenset(map(id, (list, tuple, dict, set, frozenset)))
_METACLASSES: Final = frozenset(map(id, (type, abc.ABCMeta)))
# They are what they are called.
_ATOMS: Final = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    np.dtype,
    np.ufunc,
)
_MRO: Final = type.__dict__["__mro__"]
_DICT: Final = type.__dict__["__dict__"]
_NONE: Final = object()
_MODULES: Final = "torch.nn.modules.module"
# So many characters count as one item.
_TEXT: Final = 100
_BITS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a value.

    Attributes:
        items: all of it.
        places: of each a key, number or name; None where nothing could be written for it: a set, a dict whose
            keys are objects.
        written: how a place is written behind the value's name: ``['a']``, ``[0]`` or ``.a``.
        shape: the number of items; of a data frame, rows and columns; None for an object with fields.
        in_order: whether the order of the items is part of the value.
    """

    items: list[Any]
    places: Sequence[Any] | None
    written: Callable[[Any], str]
    shape: tuple[int, ...] | None
    in_order: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether all of it are numbers or text."""
        return all(map(is_plain, kinds_of(self.items)))

    def parts(self, *, plain: bool) -> Iterator[tuple[str, Any]]:
        """How each of the `plain` ones is written, or of the others, and what it is."""
        if self.places is not None:
            for place, item in zip(self.places, self.items, strict=True):
                if is_plain(type(item)) is plain:
                    yield self.written(place), item


def kinds_of(items: Iterable[Any]) -> list[type]:
    """The types of `items`, each once."""
    kinds = list(map(type, items))
    # By identity: a metaclass may have a __hash__ of its own.
    return [kinds[-1]] if len(set(map(id, kinds))) == 1 else list({id(kind): kind for kind in kinds}.values())


def _subscript(place: object) -> str:
    return f"[{place!r}]"


def _attribute(place: object) -> str:
    return f".{place}"


def is_plain(kind: type) -> bool:
    """Whether values of this type are numbers or text, that have no parts."""
    return id(kind) in _PLAIN or issubclass(kind, np.generic)


def is_atom(value: Any) -> bool:
    """Whether it is a class, function, module or the like."""
    return issubclass(type(value), _ATOMS)


def plain_copy(value: Any, room: int) -> Any:
    """A copy of a list, tuple, dict or set of numbers and texts, and of such containers; None of any other.

    Args:
        value: another thread may be filling it.
        room: so many items at most, those in containers in it counted too; a long text counts by its length.
    """
    try:
        return _copied(value, [room])
    except (ValueError, RuntimeError):
        return None


def _copied(value: Any, room: list[int]) -> Any:
    kind = type(value)
    room[0] -= 1 + (len(value) // _TEXT if kind in (str, bytes) else 0)
    if room[0] < 0 or (id(kind) in _COUNTED and len(value) > room[0]):
        raise ValueError
    if id(kind) in _PLAIN or (home_of(kind) == "numpy" and issubclass(kind, np.number | np.bool_)):
        if kind is int and value.bit_length() > _BITS:  # Python may refuse to write it
            raise ValueError
        return value
    if id(kind) not in _COUNTED:
        raise ValueError
    if kind is dict:
        return {_copied(key, room): _copied(item, room) for key, item in list(value.items())}
    return kind([_copied(item, room) for item in list(value)])


def content_of(value: Any) -> Content | None:
    """What is in `value`, as it is now; None if that cannot be had without running code of the user's."""
    try:
        return _content(value)
    except RuntimeError:  # a thread of the user's fills it at this moment
        return None


def _content(value: Any) -> Content | None:
    kind = type(value)
    if id(kind) in _DICTS or id(kind) == _ORDERED:
        return _of_dict(value)
    if id(kind) in _LISTS:
        return _of_list(list(value))  # a thread of the user's may be filling it; such a copy is one step
    if id(kind) in _SETS:
        return Content(list(value), None, _subscript, (len(value),), in_order=False)
    if is_frame(kind) or is_series(kind):
        return _of_frame(value) if is_frame(kind) else _of_series(value)
    return _of_object(value)


def _of_object(value: Any) -> Content | None:
    kind = type(value)
    if id(type(kind)) not in _METACLASSES:
        return None
    if issubclass(kind, tuple):
        return _of_named_tuple(value)
    return _of_module(value) if is_module(kind) else _of_dataclass(value)


def _of_list(items: list[Any]) -> Content:
    return Content(items, range(len(items)), _subscript, (len(items),))


def _of_dict(value: Any) -> Content:
    if id(type(value)) == _ORDERED:
        return _of_ordered_dict(value)
    held = dict(value)  # one step, as above
    keys, items = list(held), list(held.values())
    places = keys if all(map(is_plain, kinds_of(keys))) else None
    return Content(items, places, _subscript, (len(items),), in_order=False)


def _of_ordered_dict(value: Any) -> Content:
    # It would be copied by its own methods, which hash its keys.
    pairs = list(dict.items(value))
    written = all(map(is_plain, kinds_of(key for key, _ in pairs)))
    if written:
        order = {key: place for place, key in enumerate(value)}
        pairs.sort(key=lambda pair: order.get(pair[0], 0))
    keys, items = [key for key, _ in pairs], [item for _, item in pairs]
    return Content(items, keys if written else None, _subscript, (len(items),))


def _of_named_tuple(value: Any) -> Content | None:
    fields = _static(type(value), "_fields")
    items = list(tuple.__iter__(value))
    if type(fields) is not tuple or len(fields) != len(items) or not all(type(f) is str for f in fields):
        return None
    return Content(items, fields, _attribute, None)


def _of_dataclass(value: Any) -> Content | None:
    kind = type(value)
    fields = _static(kind, "__dataclass_fields__")
    if type(fields) is not dict or _static(kind, "__getattribute__") is not object.__getattribute__:
        return None
    place = _static(kind, "__dict__")
    own = place.__get__(value) if type(place) is types.GetSetDescriptorType else {}
    pairs = []
    for name in fields:
        item = own[name] if name in own else _inherited(value, name)
        if item is not _NONE:
            pairs.append((name, item))
    return Content([item for _, item in pairs], [name for name, _ in pairs], _attribute, None, in_order=False)


def is_module(kind: type) -> bool:
    """Whether it is derived from ``torch.nn.Module``."""
    bases = _MRO.__get__(kind)
    return any(name_of(base) == "Module" and module_of(base) == _MODULES for base in bases)


def _of_module(value: Any) -> Content | None:
    """A module's parameters and buffers, by the names that they have in its ``state_dict()``."""
    found: dict[str, Any] = {}
    if not _gather(value, "", found, ()):
        return None
    return Content(list(found.values()), list(found), _attribute, None, in_order=False)


def _gather(module: Any, prefix: str, found: dict[str, Any], above: tuple[int, ...]) -> bool:
    """Put what `module` holds into `found`; False if that is not kept where PyTorch keeps it."""
    place = _static(type(module), "__dict__")
    own = place.__get__(module) if type(place) is types.GetSetDescriptorType else {}
    held = [own.get(name) for name in ("_parameters", "_buffers", "_modules")]
    if not all(type(each) is dict for each in held):
        return False
    # One step each: a thread of the user's may fill them.
    parameters, buffers, modules = ({**each} for each in held if each is not None)
    passing = own.get("_non_persistent_buffers_set")
    for name, tensor in [*parameters.items(), *buffers.items()]:
        if tensor is not None and not (type(passing) is set and name in passing):
            found[f"{prefix}{name}"] = tensor
    inner = [(name, each) for name, each in modules.items() if each is not None]
    above = (*above, id(module))
    return all(
        id(each) not in above and _gather(each, f"{prefix}{name}.", found, above) for name, each in inner
    )


def _inherited(value: Any, name: str) -> Any:
    """What an object has in a slot or from its class; `_NONE` if nothing, or if that is the user's to say."""
    held = _static(type(value), name, _NONE)
    if type(held) is types.MemberDescriptorType:
        try:
            return held.__get__(value)
        except AttributeError:
            return _NONE
    return held if _static(type(held), "__get__") is None else _NONE


def _static(kind: type, name: str, default: Any = None) -> Any:
    """An attribute of a class, as it stands in its dictionary or in those of its bases."""
    dictionaries = map(_DICT.__get__, _MRO.__get__(kind))
    return next((own[name] for own in dictionaries if name in own), default)


def _of_frame(frame: Any) -> Content:
    columns = columns_of(frame)
    names = [label for label, _ in columns]
    plain = all(is_plain(type(name)) for name in names) and len(set(names)) == len(names)
    places = names if plain else range(len(names))
    return Content([each for _, each in columns], places, _subscript, tuple(frame.shape))


def _of_series(series: Any) -> Content:
    return Content([column_of(series)], ["values"], _attribute, tuple(series.shape))
