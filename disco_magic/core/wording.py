"""A command in words, for errors and status lines; runs no user code."""

from __future__ import annotations

from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.messages import Call, DropNames, Fetch, Kill, LoadName, Run, Store, StoreName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from disco_magic.core.messages import Command

# Types made by a class statement: their attributes and repr may run user code.
_HEAP_TYPE: Final = 1 << 9
# Used in place of `kind.__qualname__` and so on, which a metaclass may redefine.
_MODULE: Final = type.__dict__["__module__"]
_QUALNAME: Final = type.__dict__["__qualname__"]
_MRO: Final = type.__dict__["__mro__"]
_DICT: Final = type.__dict__["__dict__"]
_OURS: Final = f"{__name__.partition('.')[0]}."

_WORDS: Final[dict[type, Callable[[Any], str]]] = {
    Run: lambda command: str(command.cell.label),
    Fetch: lambda command: f"get register #{command.register}",
    LoadName: lambda command: f"read register {command.name!r}",
    StoreName: lambda command: f"bind register {command.name!r}",
    Store: lambda command: f"copy into register #{command.dest}",
    DropNames: lambda command: f"drop of {', '.join(map(repr, command.names))}",
    Kill: lambda command: f"drop of {', '.join(f'#{register}' for register in command.kills)}",
}


def describe(command: Command, values: Mapping[int, Any]) -> str:
    """``Cell In[7]`` or ``call demo.scale``, for instance; `values` are the worker's registers."""
    if isinstance(command, Call):
        function = command.function
        return f"call {_name_of(values.get(function, function) if type(function) is int else function)}"
    words = _WORDS.get(type(command))
    return type(command).__name__.lower() if words is None else words(command)


def _name_of(function: object) -> str:
    """A callable's own name, or its attribute `disco_name` if it has one."""
    kind = type(function)
    if kind is int:
        return f"register #{function}"
    try:
        if _has_name(kind):
            return str(object.__getattribute__(function, "disco_name"))
        if kind.__flags__ & _HEAP_TYPE:
            return str(_QUALNAME.__get__(kind))
        return str(
            getattr(function, "__qualname__", None) or getattr(function, "__name__", kind.__qualname__)
        )
    except BaseException:  # noqa: BLE001 - whatever a class of the user's raises here must not end the worker
        return str(_QUALNAME.__get__(kind))


def _has_name(kind: type) -> bool:
    """Whether objects of a class have a `disco_name` that can be read without running user code."""
    for base in _MRO.__get__(kind):
        found = _DICT.__get__(base).get("disco_name")
        if found is not None:
            return type(found) in (str, MemberDescriptorType) or str(_MODULE.__get__(base)).startswith(_OURS)
    return False
