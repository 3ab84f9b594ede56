"""What is in a tree, dicts, lists and tuples of arrays: taken out, and put back into one.

Errors name parts as they are written behind ``x`` and ``out``; the verb that has got these says what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.arrays import read_array, read_early
from disco_magic.functions.returned import as_array_of, library_of
from disco_magic.functions.tensors import filled, read_out
from disco_magic.phrases import class_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from disco_magic.core.place import Place

# Of a larger one two more copies take longer than a call of its own.
_ALONE_NBYTES: Final = 64 << 10
_TOGETHER_NBYTES: Final = 4 << 20


class Leaf:
    """What is no dict, list or tuple in a tree.

    Attributes:
        path: how it is written behind the tree's name, ``['w'][0]``.
        given: as the caller has it.
        array: as planes carry it, of NumPy or of the library that computes at the worker's place; None if
            there is none.
        where: `` on cuda``; empty for the host.
        out: what is to be filled, as the caller has it.
        target: that, as planes write it.
        tied: the path of another one that is the same memory, from which the same is filled.
    """

    __slots__ = ("array", "given", "out", "path", "target", "tied", "where")

    def __init__(self, path: str, given: Any, array: Any = None, where: str = "") -> None:
        self.path = path
        self.given = given
        self.array = array
        self.where = where
        self.out: Any = None
        self.target: Any = None
        self.tied: str | None = None

    @property
    def looks(self) -> str:
        """What all members have to have in common: ``float32 (3,)``."""
        text = _looks(self.array, self.where)
        return text if self.tied is None else f"{text}, the memory of x{self.tied}"


def _looks(array: Any, where: str) -> str:
    return "None" if array is None else f"{_native(array.dtype)} {array.shape}{where}"


@cache
def _native(dtype: np.dtype[Any]) -> str:
    """What it is called in native byte order."""
    return str(dtype.newbyteorder("="))


def leaves_of(tree: Any, place: Place) -> list[Leaf]:
    """What is in `tree`, in its order, read as `place` reads it.

    Raises:
        UsageMistake: not all of it is arrays and numbers, it contains itself, or two keys of a dict cannot be
            told apart in writing.
    """
    return [_read(path, given, place) for path, given in _parts("x", tree).items()]


def _parts(name: str, tree: Any) -> dict[str, Any]:
    """Path -> what is there."""
    parts: dict[str, Any] = {}
    try:
        for path, part in _walk("", tree):
            if path in parts:
                raise UsageMistake(f"two keys are both written {name}{path}")
            parts[path] = part
    except RecursionError:
        raise UsageMistake(f"{name}, a {class_name(tree)}, contains itself, or is nested too deep") from None
    return parts


def _walk(path: str, tree: Any) -> Iterator[tuple[str, Any]]:
    if type(tree) is np.ndarray:  # the usual case, at once
        yield path, tree
    elif isinstance(tree, Mapping):
        for key, item in tree.items():
            yield from _walk(f"{path}[{key!r}]", item)
    elif isinstance(tree, list | tuple):
        for label, item in zip(_labels(tree), tree, strict=True):
            yield from _walk(path + label, item)
    else:
        yield path, tree


def _labels(items: Sequence[Any]) -> Iterable[str]:
    if hasattr(items, "_fields"):
        return (f".{name}" for name in items._fields)
    return (f"[{index}]" for index in range(len(items)))


def rebuilt(tree: Any, leaves: Iterator[Leaf], results: dict[str, Any]) -> Any:
    """A tree as `tree` with the results, path -> result, of its `leaves`, which come in its order."""
    if isinstance(tree, Mapping):
        return {key: rebuilt(item, leaves, results) for key, item in tree.items()}
    if not isinstance(tree, list | tuple):
        return results.get(next(leaves).path)
    items = [rebuilt(item, leaves, results) for item in tree]
    if hasattr(tree, "_fields"):
        return type(tree)(*items)
    return items if isinstance(tree, list) else tuple(items)


def _read(path: str, given: Any, place: Place) -> Leaf:
    if given is None:
        return Leaf(path, given)
    array, where = given, ""
    if type(given) is not np.ndarray:
        array = read_early(f"x{path}", given, place)
        where = _where(array, place)
        if not where:
            array = read_array(f"x{path}", array)
    if array.dtype.kind in "OSU":
        raise UsageMistake(f"x{path}: a {class_name(given)} is no number, and no array of numbers")
    return Leaf(path, given, array, where)


def _where(array: Any, place: Place) -> str:
    is_there = isinstance(array, place.xp.ndarray) and not isinstance(array, np.ndarray)
    return f" on {place.device.kind}" if is_there else ""


def give_targets(leaves: list[Leaf], out: Any, op: str, place: Place) -> None:
    """Tell `leaves` what `out` has for each.

    Raises:
        UsageMistake: there are others in it, or what they have to take does not fit.
    """
    targets = _parts("out", out)
    paths = {leaf.path for leaf in leaves}
    for path in sorted(paths ^ targets.keys()):
        lacks, has = ("out", "x") if path in paths else ("x", "out")
        raise UsageMistake(f"{has}{path} has no counterpart in {lacks}")
    first: dict[Any, str] = {}
    for leaf in leaves:
        _give_target(leaf, targets[leaf.path], op, place)
        # Weights that layers share are not to be added twice.
        if leaf.array is not None and leaf.array.size:
            same = first.setdefault((_memory(leaf.array), _memory(leaf.target)), leaf.path)
            leaf.tied = same if same != leaf.path else None


def _give_target(leaf: Leaf, out: Any, op: str, place: Place) -> None:
    if leaf.array is None and out is None:
        return
    leaf.out = out
    leaf.target = target = out if type(out) is np.ndarray else read_out(f"out{leaf.path}", out, place)
    have = f"a {class_name(out)}"
    if target is None or hasattr(target, "dtype"):
        have = _looks(target, _where(target, place))
    need = _looks(leaf.array, leaf.where)
    if op == "avg" and leaf.array is not None and leaf.array.dtype.kind in "biu":
        need = need.replace(_native(leaf.array.dtype), "float64", 1)
    if have != need:
        raise UsageMistake(f"out{leaf.path} is {have}, the result is {need}")
    if isinstance(target, np.ndarray) and not target.flags.writeable:
        raise UsageMistake(f"out{leaf.path} is read-only")


def _memory(array: Any) -> tuple[Any, ...]:
    begin = array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else int(array.data.ptr)
    return begin, array.shape, array.strides, array.dtype


def buckets(leaves: Iterable[Leaf]) -> Iterator[list[Leaf]]:
    """Leaves of which one array is made, and those that travel alone; in the same order everywhere."""
    begun: dict[tuple[str, str], list[Leaf]] = {}
    nbytes: dict[tuple[str, str], int] = {}
    for leaf in sorted((leaf for leaf in leaves if leaf.array is not None), key=lambda leaf: leaf.path):
        if leaf.tied is not None:
            continue
        if leaf.array.nbytes > _ALONE_NBYTES:
            yield [leaf]
            continue
        kind = _native(leaf.array.dtype), leaf.where
        begun.setdefault(kind, []).append(leaf)
        nbytes[kind] = nbytes.get(kind, 0) + leaf.array.nbytes
        if nbytes[kind] >= _TOGETHER_NBYTES:
            nbytes[kind] = 0
            yield begun.pop(kind)
    yield from begun.values()


def split(whole: Any, bucket: list[Leaf]) -> Iterator[tuple[Leaf, Any]]:
    """Each leaf of the bucket with what is its own of `whole`, in its shape; a view."""
    begin = 0
    for leaf in bucket:
        end = begin + leaf.array.size
        yield leaf, whole[begin:end].reshape(leaf.array.shape)
        begin = end


def result(leaf: Leaf, part: Any) -> Any:
    """`part`, memory of its own or that of `leaf.target`, as the caller gets it."""
    if leaf.out is not None:
        return filled(leaf.out)
    library = library_of(type(leaf.given))
    if library:
        return as_array_of(library, part, leaf.given)
    return part if leaf.array is leaf.given or part.ndim else part[()]
