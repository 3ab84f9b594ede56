"""Documentation of a function, a class or a value on a worker: signature, docstring, source, place.

For `Session.examine_names`: plain text, made without running code of the values, except for `__signature__`.
"""

from __future__ import annotations

import inspect
import re
import types
from collections import abc
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.module_classes import is_plain_module
from disco_magic.callers.sites import Site
from disco_magic.values.fingerprint import PLAIN
from disco_magic.values.kinds import home_of, module_of, name_of, qualname_of
from disco_magic.values.members import Member, attribute, member

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Section = tuple[str, str]
_FUNCTIONS: Final = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_NAMED: Final = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
# Metaclasses of these packages show a class as Python does.
_METACLASSES_OF: Final = ("builtins", "abc", "enum", "typing", "numpy")
_ALIASES: Final = (types.GenericAlias, types.UnionType, type(abc.Callable[[], None]))
_PARTS: Final = ("__origin__", "__args__", "__metadata__")
# Well-known types, whose docstrings would say nothing new.
_WELL_KNOWN: Final = (*PLAIN, list, tuple, dict, set, frozenset)
_ATTRIBUTE: Final = r"^( *)(?:\w+, )*{}(?:, \w+)*(?: \(.*\))?: (.*(?:\n\1 +\S.*)*)"


def document(
    bound: Mapping[str, Any],
    behind: Mapping[str, Any],
    path: Sequence[str],
    with_source: bool,  # noqa: FBT001 - `examine_names` hands over by position
) -> list[Section]:
    """``(title, text)`` of all that can be said about what a path means; the titles are IPython's.

    Args:
        bound: what the worker's cells have bound.
        behind: their builtins.
        path: a name and the attributes after it.
        with_source: show the source, where it is known, instead of the docstring, which it contains.
    """
    found = member(bound, behind, path)
    if found is None:
        return []
    source = _source(found.value) if with_source else ""
    sections = [
        *_signatures(found, path),
        ("Docstring", "" if source else _docstring(found, path[-1])),
        ("Init docstring", "" if source else _init_docstring(found.value)),
        ("Source", source),
        ("File", _place(found.value)),
        ("Type", name_of(type(found.value))),
    ]
    return [(title, text) for title, text in sections if text]


def _signatures(found: Member, path: Sequence[str]) -> list[Section]:
    title = "Signature" if found.is_definition else "Call signature"
    if isinstance(found.value, type):
        title = "Init signature"
    text = signature_of(called_of(found.value))
    return [(title, f"{path[-1]}{text}")] if text else []


def called_of(value: Any) -> Any:
    """Return what a call of `value` executes: for an object, its class's method; None if that is unknown."""
    if Member(value).is_definition:
        return value
    call = inspect.getattr_static(type(value), "__call__", None)
    return types.MethodType(call, value) if type(call) is types.FunctionType else None


def signature_of(value: Any) -> str:
    """``(x, *, out=None)`` of a function or a class; "" if it has none, or nothing is known.

    Defaults and annotations are shown without running their code. `__signature__` is read, as Python itself
    does: where an object of the user's computes that, its code runs.
    """
    if value is None or type(value) is property or is_plain_module(type(value)):
        return ""
    try:
        found = inspect.signature(value)
        shown = [
            each.replace(default=_worded(each.default), annotation=_annotated(each.annotation))
            for each in found.parameters.values()
        ]
        return str(found.replace(parameters=shown, return_annotation=_annotated(found.return_annotation)))
    except Exception:  # noqa: BLE001 - there is none for some of C, and a class of the user's may say anything
        return ""


class _Word:
    """Text in place of a value whose repr would run user code, fill pages, or add quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _annotated(annotation: Any) -> Any:
    kind = type(annotation)
    if kind is str:
        return _Word(annotation)
    if _is_known(annotation):
        return annotation
    if issubclass(kind, type):
        return _Word(f"{module_of(annotation)}.{qualname_of(annotation)}")
    return _Word(f"<{name_of(kind)}>")


def _is_known(annotation: Any) -> bool:
    """Whether the repr of an annotation runs no user code."""
    kind = type(annotation)
    if issubclass(kind, type):
        return home_of(kind) in _METACLASSES_OF
    if kind is types.EllipsisType or _is_plain(annotation):
        return True
    if kind not in _ALIASES and home_of(kind) != "typing":
        return False
    return all(_is_known(part) for name in _PARTS for part in _part(annotation, name))


def _part(annotation: Any, name: str) -> tuple[Any, ...]:
    try:
        found = object.__getattribute__(annotation, name)  # their own method goes on to what they are made of
    except AttributeError:
        return ()
    return found if type(found) is tuple else (found,)


def _worded(default: Any) -> Any:
    if default is inspect.Parameter.empty or _is_plain(default):
        return default
    if issubclass(type(default), type):  # `isinstance` asks `__class__`
        return _Word(name_of(default))
    return _Word(default.__name__ if type(default) in _NAMED else f"<{name_of(type(default))}>")


def _is_plain(value: Any) -> bool:
    kind = type(value)
    return kind in PLAIN or (kind in (tuple, list, set, frozenset) and all(map(_is_plain, value)))


def _docstring(found: Member, name: str) -> str:
    value = found.value
    if type(value) in (*_FUNCTIONS, property) or issubclass(type(value), type):
        return _doc_of(value)
    described = _doc_in_class(found.owner, name) if found.owner is not None else ""
    if described or type(value) in _WELL_KNOWN:
        return described
    own = attribute(value, "__doc__")
    if type(own) is str and own is not inspect.getattr_static(type(value), "__doc__", None):
        return inspect.cleandoc(own)
    return _doc_of(type(value))


def _doc_of(value: Any) -> str:
    try:
        return inspect.getdoc(value) or ""
    except Exception:  # noqa: BLE001 - a metaclass of the user's may raise
        return ""


def _doc_in_class(owner: type, name: str) -> str:
    """What a class says about an attribute of its own: a property's docstring, or ``name: words`` in its."""
    declared = inspect.getattr_static(owner, name, None)
    if type(declared) is property:
        return _doc_of(declared)
    text = _doc_of(owner).partition("Attributes:")[2]
    found = re.search(_ATTRIBUTE.format(re.escape(name)), text, re.MULTILINE)
    return re.sub(r"\s*\n\s*", " ", found[2]) if found else ""


def _init_docstring(value: Any) -> str:
    if not issubclass(type(value), type):
        return ""
    init = inspect.getattr_static(value, "__init__", None)
    text = init.__doc__ if type(init) is types.FunctionType else None
    return inspect.cleandoc(text) if type(text) is str else ""


def _source(value: Any) -> str:
    try:
        return inspect.getsource(_code_of(value)).rstrip()
    except Exception:  # noqa: BLE001 - there may be none, for many reasons
        return ""


def _code_of(value: Any) -> Any:
    """The object that has the source: for a value its class, for a property its getter."""
    if type(value) is property:
        return value.fget
    return value if Member(value).is_definition else type(value)


def _place(value: Any) -> str:
    """The file, or the line of a cell; "" for what C code has made."""
    origin: Any = value.fget if type(value) is property else value
    try:
        if is_plain_module(type(origin)) or isinstance(origin, type):
            return inspect.getfile(origin)
        code = inspect.unwrap(origin).__code__ if type(origin) in _FUNCTIONS else None
    except Exception:  # noqa: BLE001 - built in, or of a cell's own module, which has no file
        return ""
    if type(code) is not types.CodeType:
        return ""
    site = Site(code.co_filename, code.co_firstlineno)
    return str(site) if site.is_labelled else site.filename
