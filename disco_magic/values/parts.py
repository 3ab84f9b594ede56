"""Parts of values by how they are written behind a name: ``.0.weight`` of a model, ``['w'][2]`` of a dict.

For looks from outside of the workers: no code of the values runs.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.core.registers import register_of
from disco_magic.values.describe import describe, describe_all
from disco_magic.values.divergence import parts_of
from disco_magic.values.fields import is_module, module_in
from disco_magic.values.inside import content_of
from disco_magic.values.kinds import is_gpu_array, is_of_framework, is_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from disco_magic.core.snapshot import RegisterInfo

NOTHING: Final = object()
_GRADIENT: Final = ".grad"
MOST: Final = 200
"""Arrays of a value that are listed."""

# Of these Python itself writes most between single ones.
_QUOTED: Final = re.compile(r'\[("(?:[^"\\]|\\.)*")\]')
_INDEX: Final = re.compile(r"\[(\d+)\]")


class Part(NamedTuple):
    """An array in a value.

    Attributes:
        written: behind the value's name.
        kind: as `RegisterInfo.kind`.
    """

    written: str
    kind: str


def split(label: str) -> tuple[str, str]:
    """A register's label, and what is written behind it: ``("#5", ".0.weight")``."""
    name = register_of(label)
    return name, label[len(name) :]


def as_listed(written: str) -> str:
    """What is written behind a name, or with it, with quotes as tables have them: ``['w']`` of ``["w"]``."""
    return _QUOTED.sub(lambda found: f"[{ast.literal_eval(found[1])!r}]", written)


def part_at(value: Any, written: str) -> Any:
    """The part that is written so, `NOTHING` if there is none; of PyTorch's modules ``[0]`` is ``.0`` too.

    And modules in these are parts, ``.layers[9]``, which tables list by what is in them.
    """
    listed = as_listed(written)
    return parts_at(value, [listed]).get(listed, NOTHING)


def parts_at(value: Any, written: Collection[str]) -> dict[str, Any]:
    """Those which there are of parts that tables write so; it is asked once what is in `value`."""
    if not is_module(type(value)):
        return _parts_in(value, sorted(written))
    listed = {each: _INDEX.sub(r".\1", each) for each in written}
    found = _parts_in(value, sorted(set(listed.values())))
    for name in set(listed.values()).difference(found):
        if (inner := module_in(value, name)) is not None:
            found[name] = inner
    return {each: found[name] for each, name in listed.items() if name in found}


def _parts_in(value: Any, written: list[str]) -> dict[str, Any]:
    """`written` is sorted, so that those that begin alike stand together."""
    found = {"": value} if "" in written else {}
    content = content_of(value) if written[len(found) :] else None
    if content is not None:
        for label, item in chain(content.parts(plain=False), content.parts(plain=True)):
            inner = _behind(label, written)
            for rest, part in (parts_at(item, inner) if inner else {}).items():
                found.setdefault(f"{label}{rest}", part)
    elif _GRADIENT in written and (gradient := _gradient(value)) is not None:
        found[_GRADIENT] = gradient
    return found


def _behind(label: str, written: list[str]) -> list[str]:
    """What stands behind `label` in those that begin with it."""
    first = bisect_left(written, label)
    beginning = takewhile(lambda each: each.startswith(label), islice(written, first, None))
    return [each.removeprefix(label) for each in beginning]


def _gradient(value: Any) -> Any:
    """That of a tensor, None if it has none; PyTorch warns who asks a computed one for it."""
    return value.grad if is_tensor(type(value)) and getattr(value, "is_leaf", False) else None


def describe_parts(value: Any, written: Collection[str], sample: int) -> list[RegisterInfo | None]:
    """What `describe` says of each of these parts; None where there is none."""
    found = parts_at(value, written)
    told = dict(zip(found, describe_all(found.values(), sample), strict=True))
    return [told.get(each) for each in written]


def arrays_in(value: Any) -> list[Part]:
    """The first arrays in a container, a module of PyTorch or the like, in its order."""
    return [Part(path, describe(part, 0).kind) for path, part in islice(_arrays(value), MOST)]


def together(lists: Iterable[list[Part] | None]) -> list[Part]:
    """What `arrays_in` gave on several workers, each part once, as the first that has it."""
    kinds: dict[str, str] = {}
    for part in [part for parts in lists if parts for part in parts]:
        kinds.setdefault(part.written, part.kind)
    return [Part(written, kind) for written, kind in kinds.items()]


def _arrays(value: Any) -> Iterator[tuple[str, Any]]:
    for path, part in islice(parts_of("", value), 1, None):
        kind = type(part)
        if issubclass(kind, np.ndarray) or is_gpu_array(kind) or is_of_framework(kind):
            yield path, part


def on_part(written: str, function: Callable[..., Any], value: Any, *arguments: Any) -> Any:
    """``function(part, *arguments)``; None if `value` has no such part."""
    part = part_at(value, written)
    return None if part is NOTHING else function(part, *arguments)


def on_parts(written: str, function: Callable[..., Any], first: Any, second: Any, *arguments: Any) -> Any:
    """``function(part, part, *arguments)`` of two values; None if one of them has no such part."""
    parts = part_at(first, written), part_at(second, written)
    return None if any(part is NOTHING for part in parts) else function(*parts, *arguments)


def has_part(value: Any, written: str) -> bool:
    """Whether `value` has a part that is written so."""
    return part_at(value, written) is not NOTHING
