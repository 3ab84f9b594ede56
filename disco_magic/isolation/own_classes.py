"""Copied objects of classes that cells define become objects of the receiver's own classes.

A class that a cell defines exists once per worker, and so does one of a module that workers import for
themselves. Pickle stores its name, and the process that loads it gets its own; `copy.deepcopy` keeps the
sender's, for which ``isinstance(cfg, Cfg)`` and ``cfg == Cfg(1)`` are False at the receiver. The notebook's
classes are worker 0's, or those of the process's module. Classes are matched by name, also if one was
redefined since.
"""

from __future__ import annotations

import enum
import gc
import sys
import types
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from disco_magic.callers.namespaces import CELL_MODULE, found_in, of_caller, of_session_of_caller, of_worker
from disco_magic.errors import UsageMistake
from disco_magic.isolation.own_modules import Importer
from disco_magic.isolation.standing_modules import (
    IMPORTS,
    Standing,
    imports_of,
    imports_of_process,
)
from disco_magic.values.kinds import module_of, qualname_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Inside = tuple[set[type], list[Any]]

# Up to this many objects are searched faster than all classes derived from Enum.
_FEW: Final = 64


class Receiver(NamedTuple):
    """Whose classes a copy is to have.

    `namespaces` returns the namespaces to be searched: the first that has a class is used. `strict`: a value
    that cannot take the classes found is refused; otherwise it keeps those it has.
    """

    namespaces: Callable[[], Iterable[Mapping[str, Any]]]
    strict: bool = False


NOBODY: Final = Receiver(list)
"""For a copy that stays on its side: it keeps all classes."""
CALLER: Final = Receiver(of_caller, strict=True)
"""The worker that makes the copy."""
NOTEBOOK: Final = Receiver(of_session_of_caller)
"""The notebook gets the copying worker's value: what a person asks for is delivered, whatever its class."""


def only_receiver(session: int, workers: tuple[int, ...] | None) -> Receiver:
    """The receiver of a copy for one worker; `NOBODY` if there are several, of which each copies again."""
    if workers is None or len(workers) != 1:
        return NOBODY
    return Receiver(lambda: of_worker(session, workers[0]), strict=True)


def successors_in(
    copied: Any, memo: Mapping[int, Any], receiver: Receiver, inside: Sequence[Inside] = ()
) -> dict[type, type]:
    """Map the classes of other cells that a copy has objects of to the receiver's classes.

    Args:
        copied: what `copy.deepcopy` returned.
        memo: its memo, with what it has copied.
        receiver: who gets the copy.
        inside: what `all_inside` returned for it, if that was called.

    Cost: 5 us; for many objects 20 us, or a quarter of the copy's time if a cell has defined an Enum.
    """
    if receiver is NOBODY:
        return {}
    foreign = [kind for kind in _kinds_in(copied, memo, inside) if is_of_workers(module_of(kind))]
    namespaces = list(receiver.namespaces()) if foreign else []
    found = {kind: own_class(kind, namespaces, receiver) for kind in foreign}
    return {kind: own for kind, own in found.items() if own is not None and own is not kind}


def own_class(kind: type, namespaces: Iterable[Mapping[str, Any]], receiver: Receiver) -> type | None:
    """The class of that name in the first of these namespaces that has it; None if that is no cell's class.

    For a class of a module that workers import for themselves: the one in their module, or in the notebook's.
    """
    module = module_of(kind)
    if module != CELL_MODULE:
        namespaces = homes_of(module, None if receiver is NOTEBOOK else namespaces)
    found = (found_in(namespace, qualname_of(kind)) for namespace in namespaces)
    own = next((each for each in found if each is not None), None)
    return own if isinstance(own, type) and module_of(own) == module else None


def _kinds_in(copied: Any, memo: Mapping[int, Any], inside: Sequence[Inside]) -> set[type]:
    """Return the classes of all that was copied, and of Enum members in it, which are never copied."""
    kinds = set(map(type, list(memo.values())))
    kinds.add(type(copied))
    if inside:
        return kinds.union(*(found for found, _ in inside))
    few = len(memo) + (len(copied) if type(copied) in (list, tuple, dict, set) else 0) <= _FEW
    return kinds | _kinds_inside(copied, memo) if few or _cells_have_enums() else kinds


def _cells_have_enums() -> bool:
    """Whether any cell has defined an Enum, whose members may then be anywhere. Costs 15 us."""
    known: list[type] = [enum.Enum]
    for kind in known:  # the list grows meanwhile
        known += type.__subclasses__(kind)
    return any(map(is_of_workers, map(module_of, known)))


def _kinds_inside(copied: Any, memo: Mapping[int, Any]) -> set[type]:
    """Return the classes of all that is contained in what was copied. Costs 50 ns per element."""
    return {type(copied)}.union(*(kinds for kinds, _ in all_inside(copied, memo)))


def all_inside(copied: Any, memo: Mapping[int, Any]) -> Iterator[Inside]:
    """Yield all that is contained in what was copied, in several lists, each after the set of its classes.

    Cost: 50 ns per element.
    """
    kept = memo.get(id(memo))  # the originals, which `copy` keeps alive meanwhile
    rest = [copied, *(made for made in list(memo.values()) if made is not kept)]
    seen = set[int]()
    while rest:
        inside = gc.get_referents(*rest)
        for each in rest:  # the collector does not look into these
            if type(each) is np.ndarray and each.dtype.hasobject and each.dtype.names is None:
                inside.extend(each.flat)
        kinds = set(map(type, inside))
        yield kinds, inside
        if kinds.isdisjoint((tuple, frozenset)):
            break
        # Those that contain nothing to be copied are used as they are, and are not in the memo.
        rest = [each for each in inside if type(each) in (tuple, frozenset) and id(each) not in seen]
        seen.update(map(id, rest))


def stand_ins(successors: Mapping[type, type]) -> dict[int, Any]:
    """Return, by `id`, what `copy.deepcopy` is to take for copies: the classes, and members of an Enum.

    It always looks up members and, before Python 3.14, also the class of most objects before it makes one:
    these are right from the start. Otherwise the class is set afterwards (`hand_over`), which Python does not
    allow where a class with slots derives from a cell's class without slots.
    """
    taken: dict[int, Any] = {id(kind): own for kind, own in successors.items()}
    for kind, own in successors.items():
        if issubclass(kind, enum.Enum) and issubclass(own, enum.Enum):
            taken.update({id(each): _member(own, each) for each in _members(kind) if _has(own, each)})
    return taken


def _members(kind: type[enum.Enum]) -> list[enum.Enum]:
    """The members of an Enum; of a Flag, also those without a name of their own, ``READ | WRITE``."""
    return [*kind, *(kind._value2member_map_.values() if issubclass(kind, enum.Flag) else ())]


def _has(own: type[enum.Enum], member: enum.Enum) -> bool:
    return member.name in own.__members__ or (issubclass(own, enum.Flag) and isinstance(member, enum.Flag))


def _member(own: type[enum.Enum], member: enum.Enum) -> enum.Enum:
    return own.__members__[member.name] if member.name in own.__members__ else own(member.value)


def hand_over(
    copied: Any, memo: Mapping[int, Any], successors: Mapping[type, type], former: Mapping[int, Any]
) -> None:
    """Set the classes of objects in a copy that do not have the receiver's yet.

    What another copy, with the memo `former`, has also returned was created by neither: it is the sender's.
    """
    for key, made in list(memo.items()):
        own = successors.get(type(made))
        if own is not None and former.get(key) is not made:
            object.__setattr__(made, "__class__", own)
    left = _kinds_inside(copied, memo) & successors.keys()
    if any(issubclass(kind, enum.Enum) for kind in left):
        raise TypeError


def refuse(successors: Iterable[type], reason: Exception) -> NoReturn:
    """Raise UsageMistake: a value cannot take the receiver's classes."""
    names = ", ".join(sorted(map(qualname_of, successors)))
    raise UsageMistake(
        f"it holds an object of a class that the receiver's cells define differently, one of {names}; run "
        "the cell with the class on all workers, and make the object anew"
    ) from reason


def is_of_workers(module: object) -> bool:
    """Whether the module of that name exists once per worker: cells' own, or one that workers import."""
    if not IMPORTS or type(module) is not str:
        return module == CELL_MODULE
    return module == CELL_MODULE or isinstance(sys.modules.get(module), Standing)


def homes_of(name: str, namespaces: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """The contents of the own modules of that name, of the workers whose cells have these namespaces.

    None: of the process's. The caller's module, and the process's, is imported if necessary, as pickle would.
    """
    if namespaces is None:
        found = [Context().run(_imported, imports_of_process(), name)]  # an empty context: no worker
    else:
        behind = [each.get("__builtins__") for each in namespaces]
        imports = [each.get("__import__") for each in behind if isinstance(each, dict)]
        mine = imports_of(name)
        found = [
            _imported(each, name) if each is mine else each.modules.get(name)
            for each in imports
            if isinstance(each, Importer)
        ]
    return [vars(each) for each in found if isinstance(each, types.ModuleType)]


def _imported(imports: Importer, name: str) -> types.ModuleType | None:
    try:
        return imports.load(name)
    except Exception:  # noqa: BLE001 - whatever its execution raises: the caller does without it
        return None
