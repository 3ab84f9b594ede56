"""What is in an object: named tuples, dataclasses, PyTorch modules and optimizers, random generators.

Also in objects of the user's own classes, which come from a cell or from a file that is no library's, and of
Python's classes that have nothing but attributes.
"""

from __future__ import annotations

import abc
import sys
import types
import typing
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from disco_magic.values.content import Content, dotted
from disco_magic.values.kinds import home_of, is_any_of, is_the_users, module_of, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

_METACLASSES: Final = frozenset(map(id, (type, abc.ABCMeta)))
# Bases that add only methods.
_PLAIN_BASES: Final = (object, abc.ABC, typing.Generic, typing.Protocol)
_MRO: Final = type.__dict__["__mro__"]
_DICT: Final = type.__dict__["__dict__"]
_NONE: Final = object()
_MODULES: Final = "torch.nn.modules.module"
_EXTRA: Final = "get_extra_state"
# What a module's class may replace, and where hooks are kept, that write to its ``state_dict()``.
_WRITERS: Final = ("state_dict", "_save_to_state_dict")
_HOOKS: Final = ("_state_dict_hooks", "_state_dict_pre_hooks")
# These of PyTorch write nothing but parameters and buffers, under their names.
_LAZY: Final = "torch.nn.modules.lazy"
_QUANTIZED: Final = "torch.ao."
_OPTIMIZERS: Final = "torch.optim.optimizer"
# The state of random generators, by module and name of their class: how it is written, and how it is read.
_STATES: Final[dict[tuple[str, str], tuple[str, Callable[[Any], Any]]]] = {
    ("numpy.random._generator", "Generator"): ("bit_generator.state", lambda made: made.bit_generator.state),
    ("numpy.random.mtrand", "RandomState"): ("get_state()", lambda made: made.get_state(legacy=False)),
    ("random", "Random"): ("getstate()", lambda made: made.getstate()),
    ("torch._C", "Generator"): ("get_state()", lambda made: made.get_state()),
    **dict.fromkeys(
        (("jax._src.prng", "PRNGKeyArray"), ("jax._src.random.prng", "PRNGKeyArray")),
        ("key_data", lambda made: made._base_array),  # noqa: SLF001 - what is public runs a function of JAX
    ),
}
_NAMESPACES: Final = (("types", "SimpleNamespace"), ("argparse", "Namespace"))


def own_attributes(value: Any) -> dict[Any, Any]:
    """What is in an object's own dictionary, without asking the object; {} if it has none."""
    if issubclass(type(value), type):
        return dict(_DICT.__get__(value))
    place = _static(type(value), "__dict__")  # a property of the user's is not asked
    if type(place) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
        return {}
    return {**(place.__get__(value) or {})}


def classes_of(kind: type) -> tuple[type, ...]:
    """A class and its base classes, without asking its metaclass."""
    return tuple(_MRO.__get__(kind))


def is_random_generator(kind: type) -> bool:
    """Whether it is a class of random generators, by its name."""
    return (module_of(kind), name_of(kind)) in _STATES


def content_of_object(value: Any) -> Content | None:
    """What is in `value`, which is no container; None as for `content_of`."""
    kind = type(value)
    if is_random_generator(kind):  # PyTorch's has a metaclass of its own
        return _of_generator(value)
    if id(type(kind)) not in _METACLASSES:
        return None
    if (module_of(kind), name_of(kind)) in _NAMESPACES:
        return _of_attributes(object.__getattribute__(value, "__dict__")) if _is_what_it_says(kind) else None
    if issubclass(kind, tuple):
        return _of_named_tuple(value)
    if is_module(kind) or is_optimizer(kind):
        return _of_module(value) if is_module(kind) else _of_optimizer(value)
    return _of_dataclass(value) or (_of_fields(value) if _is_wholly_the_users(kind) else None)


def _is_what_it_says(kind: type) -> bool:
    """Whether a class really is the one of its name in its module; any class can claim to be."""
    return vars(sys.modules.get(module_of(kind), types)).get(name_of(kind)) is kind


def _of_generator(value: Any) -> Content | None:
    kind = type(value)
    written, state_of = _STATES[module_of(kind), name_of(kind)]
    if not _is_what_it_says(kind):
        return None
    source = getattr(value, "bit_generator", None)
    if source is not None and home_of(type(source)) != "numpy":  # made by the user
        return None
    if home_of(kind) == "torch" and value.device.type != "cpu":
        return None
    return Content([state_of(value)], [written], dotted, None)


def _of_named_tuple(value: Any) -> Content | None:
    fields = _static(type(value), "_fields")
    items = list(tuple.__iter__(value))
    if type(fields) is not tuple or len(fields) != len(items) or not all(type(f) is str for f in fields):
        return None
    if _attributes(value):
        return None  # a derived class may have further attributes
    return Content(items, fields, dotted, None)


def _of_dataclass(value: Any) -> Content | None:
    kind = type(value)
    fields = _static(kind, "__dataclass_fields__")
    if type(fields) is not dict or _static(kind, "__getattribute__") is not object.__getattribute__:
        return None
    own = {**(_attributes(value) or {})}
    if not all(type(name) is str for name in own):
        return None
    names = dict.fromkeys([*fields, *_slots_of(kind)])
    held = {name: own[name] if name in own else _inherited(value, name) for name in names}
    # Its fields, slots of other bases, and what `__post_init__` or others have added.
    found = {name: item for name, item in {**held, **own}.items() if item is not _NONE}
    return Content(list(found.values()), list(found), dotted, None, in_order=False)


def _is_wholly_the_users(kind: type) -> bool:
    """Whether a class and all its bases are the user's, so that its objects have plain attributes."""
    return all(is_the_users(base) for base in classes_of(kind) if not is_any_of(base, _PLAIN_BASES))


def _slots_of(kind: type) -> list[str]:
    """The names of all slots that classes written in Python have given to the objects of a class."""
    owned = (_DICT.__get__(base) for base in classes_of(kind) if module_of(base) != "builtins")
    return [name for own in owned for name, each in own.items() if type(each) is types.MemberDescriptorType]


def _of_fields(value: Any) -> Content | None:
    kind = type(value)
    held = _attributes(value)
    asked = _static(kind, "__getattribute__") is not object.__getattribute__
    if asked or _slots_of(kind) or held is None:
        return None
    found = _of_attributes(held)
    names = [] if found is None else list(found.places or ())
    if all(name in names or _static(kind, name, _NONE) is not _NONE for name in ("shape", "dtype")):
        return None  # it is like an array
    return found


def _of_attributes(held: dict[str, Any]) -> Content | None:
    own = {**held}  # one step: a thread of the user's may be filling it
    if not all(type(name) is str for name in own):
        return None
    return Content(list(own.values()), list(own), dotted, None, in_order=False)


def is_module(kind: type) -> bool:
    """Whether a class is derived from ``torch.nn.Module``."""
    return _base(kind, "Module", _MODULES) is not None


def is_optimizer(kind: type) -> bool:
    """Whether a class is derived from ``torch.optim.Optimizer``."""
    return _base(kind, "Optimizer", _OPTIMIZERS) is not None


def module_in(module: Any, written: str) -> Any:
    """The submodule of `module` with a path like ``.layers.9``; None if there is none."""
    for name in written.split(".")[1:]:
        modules = (_attributes(module) or {}).get("_modules")
        module = modules.get(name) if type(modules) is dict else None
        if module is None or not is_module(type(module)):
            return None
    return module if written.startswith(".") else None


class ExtraState:
    """Represents what a module's own code writes to its ``state_dict()``; that code is not called."""


def _base(kind: type, name: str, module: str) -> type | None:
    """The base of a class that has that name in that module; None: it is not derived from that one."""
    found = (base for base in classes_of(kind) if name_of(base) == name and module_of(base) == module)
    return next(found, None)


def _of_optimizer(value: Any) -> Content | None:
    """An optimizer as its ``state_dict()`` has it: with numbers for parameters, in the groups as well."""
    own = _attributes(value) or {}
    state: Any = own.get("state")
    groups: Any = own.get("param_groups")
    if type(state) not in (dict, defaultdict) or type(groups) is not list:
        return None
    if not all(type(group) is dict and type(group.get("params")) is list for group in groups):
        return None
    parameters = [parameter for group in groups for parameter in list(group["params"])]
    held = list(dict(state).items())
    of_parameter = {id(parameter): each for parameter, each in held}
    numbered: dict[Any, Any] = {
        n: of_parameter[id(p)] for n, p in enumerate(parameters) if id(p) in of_parameter
    }
    numbered |= {name: each for name, each in held if type(name) is str}  # of all parameters together
    settings, first = [], 0
    for group in groups:
        last = first + len(group["params"])
        settings.append({**group, "params": list(range(first, last))})
        first = last
    return Content([numbered, settings], ["state", "param_groups"], dotted, None, in_order=False)


def _of_module(value: Any) -> Content | None:
    """A module's parameters and buffers, by their names in its ``state_dict()``."""
    found: dict[str, Any] = {}
    if not _gather(value, "", found, ()):
        return None
    return Content(list(found.values()), list(found), dotted, None, in_order=False)


def _gather(module: Any, prefix: str, found: dict[str, Any], above: tuple[int, ...]) -> bool:
    """Put what `module` holds into `found`; return False if it is not where PyTorch keeps it."""
    own = _attributes(module) or {}
    held = [own.get(name) for name in ("_parameters", "_buffers", "_modules")]
    if not all(type(each) is dict for each in held):
        return False
    # One step each: a thread of the user's may be filling them.
    parameters, buffers, modules = ({**each} for each in held if each is not None)
    passing = own.get("_non_persistent_buffers_set")
    for name, tensor in [*parameters.items(), *buffers.items()]:
        if tensor is not None and not (type(passing) is set and name in passing):
            found[f"{prefix}{name}"] = tensor
    kind = type(module)
    base = _base(kind, "Module", _MODULES) or kind
    if _static(kind, _EXTRA) is not _static(base, _EXTRA):
        found[f"{prefix}_extra_state"] = ExtraState()
    if _writes_its_own(kind, base, own):
        found[f"{prefix}state_dict()"] = ExtraState()
    inner = [(name, each) for name, each in modules.items() if each is not None]
    above = (*above, id(module))
    return all(
        id(each) not in above and _gather(each, f"{prefix}{name}.", found, above) for name, each in inner
    )


def _writes_its_own(kind: type, base: type, own: dict[str, Any]) -> bool:
    """Whether a module's own class, or a hook, writes its part of the ``state_dict()``."""
    for name in _WRITERS:
        found = _static(kind, name)
        if name in own or (found is not _static(base, name) and _home(found) != _LAZY):
            return True
    kept = [own[name] for name in _HOOKS if issubclass(type(own.get(name)), dict)]
    homes = [_home(hook) for each in kept for hook in list(dict.values(each))]
    return any(home.partition(".")[0] != "torch" or home.startswith(_QUANTIZED) for home in homes)


def _home(hook: Any) -> str:
    """The module that a function, or what is called like one, comes from."""
    while type(hook) in (partial, types.MethodType):
        hook = hook.func if type(hook) is partial else hook.__func__
    return str(hook.__module__) if type(hook) is types.FunctionType else module_of(type(hook))


def _attributes(value: Any) -> dict[str, Any] | None:
    """The dictionary of an object's own attributes, not a copy; None if it has none."""
    place = _static(type(value), "__dict__")
    return place.__get__(value) if type(place) is types.GetSetDescriptorType else None


def _inherited(value: Any, name: str) -> Any:
    """What an object has in a slot or from its class; `_NONE` if nothing, or if user code would run."""
    held = _static(type(value), name, _NONE)
    if type(held) is types.MemberDescriptorType:
        try:
            return held.__get__(value)
        except AttributeError:
            return _NONE
    return held if _static(type(held), "__get__") is None else _NONE


def _static(kind: type, name: str, default: Any = None) -> Any:
    """An attribute of a class, as it is in its dictionary or in those of its bases."""
    dictionaries = map(_DICT.__get__, classes_of(kind))
    return next((own[name] for own in dictionaries if name in own), default)
