"""Where values are in a worker's registers, found by identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.values.divergence import PARTS_BY_VALUE, parts_of
from disco_magic.values.fields import is_module
from disco_magic.values.inside import content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping


def paths_of(wanted: Container[int], names: Iterable[str], held: Mapping[str, Any]) -> dict[int, str]:
    """Map ids in `wanted` to paths of parts of the registers `names`; the first register with it counts."""
    found: dict[int, str] = {}
    for name in names:
        for path, part in parts_of(name, held[name], PARTS_BY_VALUE):
            if id(part) in wanted and part is not held[name]:
                found.setdefault(id(part), path)
    return found


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
