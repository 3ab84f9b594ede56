"""Finds what keeps a numbered register alive: the notebook's variables and results."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import UnknownName
from disco_magic.session.dref import CellValues, DPackedFunc, DRef
from disco_magic.session.results import CellResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from disco_magic.session.session import Session


MOST: Final = 100
"""Most items of a container that are looked at."""

_NAMED: Final = 3


def holders(session: Session, names: Mapping[str, Any]) -> dict[str, str]:
    """``"#5"`` -> what keeps it, in words, for every numbered register that a reference keeps.

    Looks at variables, items of lists, tuples and dicts in them, and results; runs none of their code.
    """
    found: dict[str, list[str]] = {}
    for who, reference in _references(dict(names)):
        if reference.session is session and reference.life is session.life:
            found.setdefault(f"#{reference.register}", []).append(who)
    said = {label: _named(list(dict.fromkeys(who))) for label, who in found.items()}
    for register, drop in session.drops.copy().items():
        kept = drop()
        if kept is not None and kept.life is session.life:
            said.setdefault(f"#{register}", _unnamed(kept))
    return said


def _named(holding: list[str]) -> str:
    left = len(holding) - _NAMED
    return ", ".join(holding[:_NAMED]) + (f" and {left:,} more" if left > 0 else "")


def reference_of(session: Session, label: str) -> DRef:
    """The reference that keeps the numbered register `label`, ``"#5"``."""
    drop = session.drops.get(int(label[1:]))
    reference = None if drop is None else drop()
    if reference is None or reference.life is not session.life:
        raise UnknownName(f"nothing in the notebook refers to register {label} any more")
    return reference


def _unnamed(reference: DRef) -> str:
    if isinstance(reference, DPackedFunc):
        return f"function {reference.name}"
    return f"value of {reference.label}" if isinstance(reference, CellValues) else "a reference without name"


def _references(names: dict[str, Any]) -> Iterator[tuple[str, DRef]]:
    for number, value in dict(names.get("_oh", ())).items():
        yield from _inside(f"Out[{number}]", value)
    for name, value in names.items():
        if type(name) is str and not name.startswith("_") and name not in ("Out", "In"):
            yield from _inside(name, value)


def _inside(who: str, value: Any) -> Iterator[tuple[str, DRef]]:
    for place, each in [
        ("", value),
        *((f"[{key!r}]", item) for key, item in _items(value) if type(key) in (int, str)),
    ]:
        if issubclass(type(each), CellResult):  # isinstance would read __class__, which may be a property
            each = each.reference  # noqa: PLW2901 - what the result keeps
        if issubclass(type(each), DRef):
            yield who + place, each


def _items(value: Any) -> list[tuple[Any, Any]]:
    """The first items of a container; not all, because copying a long one blocks all threads."""
    kind = type(value)
    if kind in (list, tuple):
        return list(enumerate(value[:MOST]))
    try:
        return list(islice(value.items(), MOST)) if kind is dict else []
    except RuntimeError:  # another thread is changing it
        return []
