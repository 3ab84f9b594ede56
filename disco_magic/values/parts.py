"""Parts of values, listed, or found by paths that are written after a name: ``.0.weight``, ``['w'][2]``.

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
from disco_magic.values.content import is_plain
from disco_magic.values.describe import describe, describe_all
from disco_magic.values.fields import is_module, module_in
from disco_magic.values.frames import Column
from disco_magic.values.inside import DEPTH, content_of, parts_of
from disco_magic.values.kinds import is_gpu_array, is_of_framework, is_tensor
from disco_magic.values.members import NOTHING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.values.content import Content

_GRADIENT: Final = ".grad"
MOST_PARTS: Final = 1000
"""How many parts of a value are listed at most, with what is in each."""
MOST_ARRAYS: Final = 200
"""How many of the arrays in it, and how many paths."""

# A text in double quotes, where Python itself mostly writes single ones; or any other, to be passed over.
_QUOTED: Final = re.compile(r"""\[("(?:[^"\\]|\\.)*")\]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")
_INDEX: Final = re.compile(r"\[(\d+)\]")


class Part(NamedTuple):
    """An array in a value."""

    written: str
    kind: str


def split(label: str) -> tuple[str, str]:
    """Split a label into the register's label and the path after it: ``("#5", ".0.weight")``."""
    name = register_of(label)
    return name, label[len(name) :]


def as_listed(written: str) -> str:
    """Return a path, or a name with one, with quotes as in tables: ``['w']`` for ``["w"]``."""
    return _QUOTED.sub(lambda it: f"[{ast.literal_eval(it[1])!r}]" if it[1] else it[0], written)


def part_at(value: Any, written: str) -> Any:
    """Return the part at that path, `NOTHING` if there is none; in PyTorch modules ``[0]`` means ``.0``, too.

    Submodules are parts, too, ``.layers[9]``; tables list what is in them instead.
    """
    listed = as_listed(written)
    return parts_at(value, [listed]).get(listed, NOTHING)


def parts_at(value: Any, written: Collection[str]) -> dict[str, Any]:
    """Return those of the parts, written as in tables, that exist; looks into `value` once."""
    if not is_module(type(value)):
        return _parts_in(value, sorted(written))
    listed = {each: _INDEX.sub(r".\1", each) for each in written}
    found = _parts_in(value, sorted(set(listed.values())))
    for name in set(listed.values()).difference(found):
        if (inner := module_in(value, name)) is not None:
            found[name] = inner
    return {each: found[name] for each, name in listed.items() if name in found}


def _parts_in(value: Any, written: list[str]) -> dict[str, Any]:
    """As `parts_at`. `written` is sorted, so that paths with the same beginning are adjacent."""
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
    """The rest of those paths that begin with `label`."""
    first = bisect_left(written, label)
    beginning = takewhile(lambda each: each.startswith(label), islice(written, first, None))
    return [each.removeprefix(label) for each in beginning]


def _gradient(value: Any) -> Any:
    """The gradient of a tensor, None if it has none; not of a computed one, for which PyTorch would warn."""
    return value.grad if is_tensor(type(value)) and getattr(value, "is_leaf", False) else None


def describe_parts(value: Any, written: Collection[str], sample: int) -> list[RegisterInfo | None]:
    """Describe each of these parts, as `describe` does; None where there is none."""
    found = parts_at(value, written)
    told = dict(zip(found, describe_all(found.values(), sample), strict=True))
    return [told.get(each) for each in written]


def arrays_in(value: Any) -> list[Part]:
    """The first arrays in a container, a PyTorch module or the like, in its order; columns of tables, too."""
    return [Part(path, describe(part, 0).kind) for path, part in islice(_arrays(value), MOST_ARRAYS)]


def paths_in(name: str, value: Any) -> list[str]:
    """The paths of the first parts of a value, after its name, and of the numbers and texts in it itself."""
    paths = [path for path, _ in islice(parts_of(name, value), 1, 1 + MOST_ARRAYS)]
    content = content_of(value)
    plain = () if content is None else content.parts(plain=True)
    return paths + [f"{name}{label}" for label, _ in islice(plain, MOST_ARRAYS)]


def together(lists: Iterable[list[Part] | None]) -> list[Part]:
    """Merge what `arrays_in` gave on several workers: each part once, as the first worker with it has it."""
    kinds: dict[str, str] = {}
    for part in [part for parts in lists if parts for part in parts]:
        kinds.setdefault(part.written, part.kind)
    return [Part(written, kind) for written, kind in kinds.items()]


def _arrays(value: Any) -> Iterator[tuple[str, Any]]:
    for path, part in islice(parts_of("", value), 1, None):
        kind = type(part)
        if issubclass(kind, np.ndarray) or is_gpu_array(kind) or is_of_framework(kind) or kind is Column:
            yield path, part


class PartList(NamedTuple):
    """What is in a value.

    Attributes:
        parts: path of each part, as written after the value's name -> its type, shape and bytes.
        is_all: whether there are no more.
    """

    parts: dict[str, RegisterInfo]
    is_all: bool


def list_parts(value: Any) -> PartList:
    """List what is in a value, in its order, 1,000 parts at most; nothing for a value without parts.

    Parts are arrays, numbers and texts, objects that are not looked into, and what lies in more than 8
    containers; a list of numbers, or a set, is one part.
    """
    found = list(islice(_leaves("", value, ()), MOST_PARTS + 1))
    shown = found[:MOST_PARTS]
    infos = describe_all([part for _, part in shown], 0)
    return PartList(dict(zip([path for path, _ in shown], infos, strict=True)), len(found) <= MOST_PARTS)


def _leaves(path: str, value: Any, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each part; `above`: ids of the containers that `value` is in."""
    content = content_of(value) if len(above) < DEPTH else None
    if content is None or content.places is None or not content.items or _is_series(value, content):
        if path:
            yield path, value
        return
    inside = (*above, id(value))
    for place, item in zip(content.places, content.items, strict=True):
        label = f"{path}{content.written(place)}"
        if is_plain(type(item)):
            yield label, item
        elif id(item) not in inside:  # a value that contains itself has no end
            yield from _leaves(label, item, inside)


def _is_series(value: Any, content: Content) -> bool:
    """Whether it is a list or tuple of numbers and texts, which is shown as one part."""
    return content.is_plain and (type(value) is list or type(value) is tuple)
