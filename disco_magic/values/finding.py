"""Where values are in a worker's registers, found by identity."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.registers import RegisterFile
from disco_magic.values.fields import is_module
from disco_magic.values.inside import PARTS_BY_VALUE, content_of, parts_of
from disco_magic.values.spans import ground_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Mapping


_WALKED: Final = 1 << 14


def paths_of(wanted: Container[int], names: Iterable[str], held: Mapping[str, Any]) -> dict[int, str]:
    """Map ids in `wanted` to paths of parts of the registers `names`; the first register with it counts."""
    found: dict[int, str] = {}
    for name in names:
        for path, part in parts_of(name, held[name], PARTS_BY_VALUE):
            if id(part) in wanted and part is not held[name]:
                found.setdefault(id(part), path)
    return found


class PresentPlaces:
    """Looks up where values are in a worker's registers while a cell goes on.

    It walks the registers at every value that it does not know, until it has seen `_WALKED` parts: 50 ms.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}
        # The same by what the arrays have in memory, and those of registers; made when it is needed.
        self._grounds: dict[Hashable, tuple[weakref.ref[Any], str]] | None = None
        self._walked = 0

    def path_of(self, value: Any, namespace: Mapping[str, Any]) -> str | None:
        """The path of a part of a register, if it is known; None for what has no weak references.

        Of a view that has all elements of an array, as ``w.T``, and of ``parameter.data``: the array's.
        """
        path = self._look_up(value)
        if path is None and self._walked < _WALKED:
            self._walk(dict(namespace))
            path = self._look_up(value)
        return path or self._path_of_ground(value, namespace)

    def _look_up(self, value: Any) -> str | None:
        reference, path = self._known.get(id(value), (None, ""))
        return path if reference is not None and reference() is value else None

    def _path_of_ground(self, value: Any, namespace: Mapping[str, Any]) -> str | None:
        ground = ground_of(value)
        if ground is None:
            return None
        if self._grounds is None:
            self._grounds, held = {}, dict(namespace)
            # Parts first: the name of one may be the variable of a loop over them.
            known = [(reference(), path) for reference, path in self._known.values()]
            known += [(held[name], name) for name in RegisterFile(held).public_names()]
            for part, path in known:
                if (where := ground_of(part)) is not None:
                    self._grounds.setdefault(where, (weakref.ref(part), path))
        reference, path = self._grounds.get(ground, (None, ""))
        # Memory of an array that is gone may belong to another one now.
        return path if reference is not None and ground_of(reference()) == ground else None

    def _walk(self, held: dict[str, Any]) -> None:
        self._known.clear()
        self._grounds = None
        for name in RegisterFile(held).public_names():
            for path, part in parts_of(name, held[name], PARTS_BY_VALUE):
                self._walked += 1
                if part is not held[name]:
                    with suppress(TypeError):  # containers
                        self._known.setdefault(id(part), (weakref.ref(part), path))


def all_paths(
    wanted: Mapping[int, Callable[[], Any]], names: Iterable[str], held: Mapping[str, Any]
) -> dict[int, tuple[str, ...]]:
    """Like `paths_of`, for what these functions return; a module, which is no part, by all that it holds."""
    found: dict[int, tuple[str, ...]] = {key: (path,) for key, path in paths_of(wanted, names, held).items()}
    inside = {key: _parameters(each()) for key, each in wanted.items() if key not in found}
    paths = paths_of(set().union(*inside.values()), names, held) if any(inside.values()) else {}
    for key, parameters in inside.items():
        if parameters and paths.keys() >= parameters:
            found[key] = tuple(path for each, path in paths.items() if each in parameters)
    return found


def _parameters(module: Any) -> set[int]:
    """The ids of a module's parameters and buffers; empty for anything else."""
    content = content_of(module) if is_module(type(module)) else None
    return set() if content is None else set(map(id, content.items))
