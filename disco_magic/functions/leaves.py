"""The arrays in a tree of dicts, lists and tuples: taken out, and put back into such a tree.

Errors name parts by their paths after ``x`` and ``out``; the verb that was given these adds its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.arrays import beyond_64_bits, read_array, read_early
from disco_magic.functions.returned import as_array_of, library_of
from disco_magic.phrases import class_name
from disco_magic.values.spans import entangled, layout_of, span_of
from disco_magic.values.tensors import filled, read_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from disco_magic.core.place import Place

# For larger arrays, two more copies take longer than a call of their own.
_ALONE_NBYTES: Final = 64 << 10
_TOGETHER_NBYTES: Final = 4 << 20
_DEEPEST: Final = 200
_NUMBERS: Final = (bool, int, float, complex, np.generic)


class _Tuple(NamedTuple):
    make: Callable[[Iterable[Any]], Any]
    forms: list[Any]


class Tree:
    """A tree taken apart; the original is not read again.

    Attributes:
        parts: path -> leaf, in the tree's order; a path is written as after the tree's name.
    """

    def __init__(self, name: str, tree: Any) -> None:
        """Take `tree` apart.

        Raises:
            UsageMistake: it contains itself or is too deep, or two keys of a dict are written alike.
        """
        self.parts: dict[str, Any] = {}
        self._name = name
        self._form = self._taken_apart("", tree, 0)

    def _taken_apart(self, path: str, tree: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise UsageMistake(f"{self._name} contains itself, or is nested more than {_DEEPEST} deep")
        if isinstance(tree, Mapping):
            return {key: self._taken_apart(f"{path}[{key!r}]", tree[key], depth + 1) for key in tree}
        if isinstance(tree, list | tuple):
            pairs = zip(_labels(tree), tree, strict=True)
            forms = [self._taken_apart(path + label, item, depth + 1) for label, item in pairs]
            return forms if isinstance(tree, list) else _Tuple(_maker(type(tree)), forms)
        if path in self.parts:
            raise UsageMistake(f"two keys have the same path, {self._name}{path}")
        self.parts[path] = tree
        return path

    def rebuilt(self, results: Mapping[str, Any]) -> Any:
        """A tree of the same form with the results, by path; None where there is none."""
        return _rebuilt(self._form, results)


def _labels(items: Sequence[Any]) -> Iterable[str]:
    if _maker(type(items)) is tuple:
        return (f"[{index}]" for index in range(len(items)))
    return (f".{name}" for name in items._fields)  # type: ignore[attr-defined]


def _maker(kind: type) -> Callable[[Iterable[Any]], Any]:
    """The function that makes named tuples of that class; for other classes `tuple`."""
    return kind._make if hasattr(kind, "_fields") and hasattr(kind, "_make") else tuple


def _rebuilt(form: Any, results: Mapping[str, Any]) -> Any:
    if isinstance(form, str):
        return results.get(form)
    if isinstance(form, dict):
        return {key: _rebuilt(item, results) for key, item in form.items()}
    if isinstance(form, list):
        return [_rebuilt(item, results) for item in form]
    return form.make([_rebuilt(item, results) for item in form.forms])


class Leaf:
    """An array or number of a tree.

    Attributes:
        path: see `Tree`.
        given: what the caller passed.
        near: `given` as an array, where it is.
        array: the same as the plane carries it; may be a copy.
        where: `` on cuda``; empty for the host.
        out: what is to be filled, as the caller passed it.
        target: `out` as the plane writes it.
        is_direct: whether results may be written there before all of the tree was read.
        is_lent: whether some of it is another library's memory on the GPU.
    """

    __slots__ = ("array", "given", "is_direct", "is_lent", "near", "out", "path", "target", "where")

    def __init__(self, path: str, given: Any, place: Place, out: Any) -> None:
        """Read it at once, because nothing may be refused later."""
        near, where = given, ""
        if type(given) is not np.ndarray:
            near = read_early(f"x{path}", given, place)
            where = _where(near, place)
            if not where:
                near = read_array(f"x{path}", near)
        if near.dtype.hasobject or near.dtype.kind in "SUT":
            why = f"a {class_name(given)} is neither a number nor an array of numbers"
            raise UsageMistake(f"x{path}: {beyond_64_bits('allreduce', given) or why}")
        target = out if out is None or type(out) is np.ndarray else read_out(f"out{path}", out, place)
        self.path, self.given, self.where = path, given, where
        self.out, self.target = out, target
        self.is_direct = target is not None
        self.is_lent = bool(where) and (near is not given or target is not out)
        self.near = self.array = near

    @property
    def looks(self) -> str:
        """What has to be the same on all members: ``float32 (3,)``."""
        return f"{_name_of(self.array.dtype)} {self.array.shape}{self.where}"

    def result(self, part: Any) -> Any:
        """What the caller gets: `out`, or `part`, with memory of its own, in the form of what was passed."""
        if self.out is not None:
            return filled(self.out)
        library = library_of(type(self.given))
        if library:
            return as_array_of(library, part, self.given)
        return part[()] if isinstance(self.given, _NUMBERS) else part


@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    return str(dtype)


def _where(array: Any, place: Place) -> str:
    is_there = isinstance(array, place.xp.ndarray) and not isinstance(array, np.ndarray)
    return f" on {place.device.kind}" if is_there else ""


def targets_in(tree: Tree, out: Any) -> dict[str, Any]:
    """Path -> the part of `out` to be filled for it; None for None."""
    targets = Tree("out", out).parts
    for path in sorted(tree.parts.keys() ^ targets.keys()):
        has, lacks = ("x", "out") if path in tree.parts else ("out", "x")
        raise UsageMistake(f"{has}{path} has no counterpart in {lacks}")
    for path, target in targets.items():
        if (target is None) != (tree.parts[path] is None):
            has, lacks = ("x", "out") if target is None else ("out", "x")
            raise UsageMistake(f"{has}{path} is there, {lacks}{path} is None")
    return targets


def see_who_waits(leaves: Sequence[Leaf]) -> None:
    """Find the leaves whose results must not be written before all others were read.

    For example, weights that layers share are in the tree twice.
    """
    takers: dict[Any, Leaf] = {}
    written, read = [], []
    for number, leaf in enumerate(leaves):
        written.append((number, span_of(leaf.target)))
        if leaf.near is not leaf.target:
            read.append((number, span_of(leaf.near)))
        if leaf.near.size:
            first = takers.setdefault(layout_of(leaf.target), leaf)
            if first is not leaf and layout_of(first.near) != layout_of(leaf.near):
                raise UsageMistake(
                    f"out{first.path} and out{leaf.path} share memory and get different results"
                )
    for number in entangled(written, read):
        leaves[number].is_direct = False


def buckets(leaves: Iterable[Leaf]) -> Iterator[list[Leaf]]:
    """Yield leaves that share one array, and large ones alone; in the same order on all members."""
    begun: dict[tuple[str, str], list[Leaf]] = {}
    nbytes: dict[tuple[str, str], int] = {}
    for leaf in sorted(leaves, key=lambda leaf: leaf.path):
        if leaf.array.nbytes > _ALONE_NBYTES:
            yield [leaf]
            continue
        kind = _name_of(leaf.array.dtype), leaf.where
        begun.setdefault(kind, []).append(leaf)
        nbytes[kind] = nbytes.get(kind, 0) + leaf.array.nbytes
        if nbytes[kind] >= _TOGETHER_NBYTES:
            nbytes[kind] = 0
            yield begun.pop(kind)
    yield from begun.values()


def split(whole: Any, bucket: list[Leaf]) -> Iterator[tuple[Leaf, Any]]:
    """Yield each leaf of the bucket with its part of `whole`, in its shape; a view."""
    begin = 0
    for leaf in bucket:
        end = begin + leaf.array.size
        yield leaf, whole[begin:end].reshape(leaf.array.shape)
        begin = end
