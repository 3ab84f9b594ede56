"""Workers as a mesh with named axes, such as ``dp=2, tp=4``: coordinates, and groups that share them.

Workers are numbered along the last axis first, as NumPy numbers the elements of an array of that shape.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Final

from disco_magic.core.markup import NUMBERS, TableLook, head_cells
from disco_magic.core.numbers import whole_number
from disco_magic.core.words import aligned, plural
from disco_magic.errors import UnknownName, UsageMistake
from disco_magic.phrases import nearest

_EXPECTED: Final = "expected names of axes with their lengths: {'dp': 2, 'tp': 4} or 'dp=2,tp=4'"
_PART: Final = re.compile(r"\s*(\w+)\s*=\s*(\d{1,9})\s*")


class Mesh(Mapping[str, int]):
    """Named axes and their lengths, as a mapping; false if there are no axes.

    Args:
        axes: name -> length; along the last axis, neighbours have consecutive ids.

    Raises:
        UsageMistake: a name is no identifier, or a length no whole number of at least 1.

    Example:
        >>> mesh = disco.Mesh({"dp": 2, "tp": 3})
        >>> print(mesh)
              tp=0  tp=1  tp=2
        dp=0     0     1     2
        dp=1     3     4     5
        >>> mesh.groups("dp")
        ((0, 3), (1, 4), (2, 5))
    """

    __slots__ = ("_groups", "_lengths", "_workers")

    def __init__(self, axes: Mapping[str, int]) -> None:
        self._lengths: dict[str, int] = {}
        if not isinstance(axes, Mapping):
            raise UsageMistake(f"a mesh is made of a mapping, {{'dp': 2, 'tp': 4}}, not of {axes!r}")
        for name, length in axes.items():
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
                raise UsageMistake(
                    f"{name!r} is not a name for an axis; use a Python identifier, such as 'dp'"
                )
            known = whole_number(length)
            if known is None or known < 1:
                raise UsageMistake(
                    f"axis {name!r} of a mesh has length {length!r}, expected a whole number of at least 1"
                )
            self._lengths[name] = known
        self._workers = math.prod(self._lengths.values()) if axes else 0
        self._groups: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}

    # --- a mapping ----------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> int:
        return self._lengths[self._known(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lengths)

    def __len__(self) -> int:
        return len(self._lengths)

    def __contains__(self, name: object) -> bool:
        return name in self._lengths

    def __getattr__(self, name: str) -> int:
        if not name.startswith("_") and name in self._lengths:
            raise AttributeError(
                f"mesh[{name!r}] is the length of that axis, worker.coordinates[{name!r}] where a worker is "
                "on it"
            )
        raise AttributeError(f"'Mesh' object has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        """Whether the axes are the same in the same order; for a plain mapping the order does not matter."""
        if isinstance(other, Mesh):
            return list(self.items()) == list(other.items())
        return Mapping.__eq__(self, other)

    def __hash__(self) -> int:
        return hash(tuple(self._lengths.items()))

    # --- who is where -------------------------------------------------------------------------------------

    @property
    def num_workers(self) -> int:
        """How many workers the mesh has; 0 without axes."""
        return self._workers

    def coordinates(self, worker: int) -> dict[str, int]:
        """Axis -> the position of `worker` along it, from 0.

        Raises:
            UsageMistake: the mesh has no such worker.
        """
        rest = whole_number(worker)
        if rest is None or not 0 <= rest < self._workers:
            raise UsageMistake(f"there is no worker {worker!r} in {self!r}")
        found = {}
        for name in reversed(self._lengths):
            rest, found[name] = divmod(rest, self._lengths[name])
        return {name: found[name] for name in self._lengths}

    def worker(self, /, **coordinates: int) -> int:
        """The id of the worker at these coordinates, one for every axis.

        Raises:
            UsageMistake: an axis is missing or unknown, or no worker has these coordinates.
        """
        if not self._lengths:
            raise UsageMistake(self._there)
        if missing := [name for name in self._lengths if name not in coordinates]:
            raise UsageMistake(f"worker() needs {', '.join(missing)} as well; workers() takes some axes")
        return self.workers(**coordinates)[0]

    def workers(self, /, **coordinates: int) -> tuple[int, ...]:
        """Ids of the workers at these coordinates, ascending; an axis that is not named may have any value.

        Raises:
            UsageMistake: an axis is unknown, or no worker has these coordinates.

        Example:
            >>> disco.Mesh({"dp": 2, "tp": 3}).workers(dp=1)
            (3, 4, 5)
        """
        at = {name: self._place(name, given) for name, given in coordinates.items()}
        ranges = [(at[name],) if name in at else range(length) for name, length in self._lengths.items()]
        return self._ids(ranges) if self._lengths else ()

    def groups(self, *axes: str) -> tuple[tuple[int, ...], ...]:
        """The workers in groups, ids ascending; the workers of a group differ along `axes` only.

        Raises:
            UsageMistake: an axis is unknown, named twice, or none is named.
        """
        found = self._groups.get(axes) if all(type(name) is str for name in axes) else None
        if found is None:
            others = self._others(axes)
            places = product(*(range(self._lengths[name]) for name in others))
            found = tuple(self.workers(**dict(zip(others, place, strict=True))) for place in places)
            self._groups[axes] = found
        return found

    def group_of(self, worker: int, axes: tuple[str, ...]) -> tuple[int, ...]:
        """The group of ``groups(*axes)`` that a worker is in, without making all of them."""
        others = self._others(axes)  # first: it raises if there is no mesh
        at = self.coordinates(worker)
        return self.workers(**{name: at[name] for name in others})

    def in_order(self, axes: Iterable[str]) -> tuple[str, ...]:
        """`axes`, each once, in the order of the mesh; UsageMistake for a name that is no axis."""
        named = {self._known(name) for name in axes}
        return tuple(name for name in self._lengths if name in named)

    def places(self, *axes: str) -> tuple[str, ...]:
        """Where each of `groups` is on the other axes, in words: ``"tp=1"``; without axes, each worker."""
        groups = self.groups(*axes) if axes else [(worker,) for worker in range(self._workers)]
        found = []
        for group in groups:
            at = self.coordinates(group[0])
            found.append(" ".join(f"{name}={at[name]}" for name in self._lengths if name not in axes))
        return tuple(found)

    def _others(self, axes: tuple[str, ...]) -> list[str]:
        """The axes that are not named; UsageMistake unless `axes` names at least one, each once."""
        for name in axes:
            self._known(name)
        if not axes or len(set(axes)) < len(axes):
            raise UsageMistake(f"{axes!r} should name axes, each once; {self._there}")
        return [name for name in self._lengths if name not in axes]

    def _ids(self, ranges: Iterable[Iterable[int]]) -> tuple[int, ...]:
        strides, step = [], self._workers
        for length in self._lengths.values():
            step //= length
            strides.append(step)
        return tuple(
            sum(place * stride for place, stride in zip(each, strides, strict=True))
            for each in product(*ranges)
        )

    def _place(self, name: str, given: int) -> int:
        length = self[name]
        place = whole_number(given)
        if place is None:
            raise UsageMistake(f"{name}={given!r} is not a coordinate along {name}, expected a whole number")
        if not 0 <= place < length:
            raise UsageMistake(f"no worker has {name}={place}; {name} goes from 0 to {length - 1}")
        return place

    def _known(self, name: str) -> str:
        if not isinstance(name, str) or name not in self._lengths:
            raise UnknownName(f"there is no axis {name!r}; {self._hint(name)}")
        return name

    def _hint(self, name: object) -> str:
        return nearest(name, self._lengths) if self._lengths and isinstance(name, str) else self._there

    @property
    def _there(self) -> str:
        if not self._lengths:
            return (
                "this session has no mesh: start it with one, ThreadedSession(mesh={'dp': 2, 'tp': 4}) or "
                "%disco start --mesh dp=2,tp=4"
            )
        return f"there are: {', '.join(self._lengths)}"

    # --- as text ------------------------------------------------------------------------------------------

    @property
    def words(self) -> str:
        """``dp=2 tp=4``."""
        return " ".join(f"{name}={length}" for name, length in self._lengths.items())

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={length}' for name, length in self._lengths.items())})"

    def __str__(self) -> str:
        """A table of the ids: the last axis runs to the right, all others run down."""
        heads, rows = self._table()
        lines = [["", *heads], *([where, *map(str, ids)] for where, ids in rows)]
        return "\n".join(aligned(lines, words=1)) if self._lengths else "no mesh"

    def _repr_html_(self) -> str:
        heads, rows = self._table()
        body = "".join(
            f'<tr><th scope="row">{where}</th>'
            + "".join(f'<td class="number">{worker}</td>' for worker in ids)
            + "</tr>"
            for where, ids in rows
        )
        caption = f"{plural(self._workers, 'worker')} in a mesh"
        return TableLook("disco-mesh", NUMBERS).html(caption, f"<td></td>{head_cells(heads)}", body)

    def _table(self) -> tuple[list[str], list[tuple[str, tuple[int, ...]]]]:
        """The column heads; the rows, each with its place on the other axes and its ids."""
        if not self._lengths:
            return [], []
        last = next(reversed(self._lengths))
        heads = [f"{last}={place}" for place in range(self._lengths[last])]
        return heads, list(zip(self.places(last), self.groups(last), strict=True))


NO_MESH: Final = Mesh({})
"""The mesh of sessions that were started without one."""


def mesh_of(given: Mapping[str, int] | str | None) -> Mesh:
    """Return `given` as a mesh: a mapping, text like ``dp=2,tp=4``, or None for no mesh."""
    if given is None:
        return NO_MESH
    if isinstance(given, Mesh):
        return given
    if isinstance(given, str):
        parts = [_PART.fullmatch(part) for part in given.split(",")]
        named = {found[1]: int(found[2]) for found in parts if found}
        if all(parts) and len(named) < len(parts):
            raise UsageMistake(f"mesh is {given!r}, which names an axis twice")
        if len(named) < len(parts):
            raise UsageMistake(f"mesh is {given!r}, {_EXPECTED}")
        return Mesh(named)
    if not isinstance(given, Mapping):
        raise UsageMistake(f"mesh is {given!r}, {_EXPECTED}")
    return Mesh(given)
