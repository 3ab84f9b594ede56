"""Objects of cells' classes that cross the border become objects of the receiver's own classes.

A class that a cell defines is one class per worker, and so is one of a module that workers import for
themselves. Pickle names it, and who loads it gets their own; `copy.deepcopy` keeps the sender's, and
``isinstance(cfg, Cfg)`` and ``cfg == Cfg(1)`` say False there. The notebook's own are worker 0's, or those of
the process's module. A class goes by its name, also one that was defined anew since.
"""

from __future__ import annotations

import enum
import gc
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np

from disco_magic.callers.namespaces import CELL_MODULE, found_in, of_caller, of_session_of_caller, of_worker
from disco_magic.errors import UsageMistake
from disco_magic.isolation.module_homes import homes_of, is_of_workers
from disco_magic.values.kinds import module_of, qualname_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Inside = tuple[set[type], list[Any]]

# So few objects are looked through faster than all classes derived from Enum.
_FEW: Final = 64


class Receiver(NamedTuple):
    """Whose classes a copy is to have.

    `namespaces` gives those that are looked into, the first that has a class counts. `strict`: a value that
    cannot become of the classes found is refused; else it keeps those it has.
    """

    namespaces: Callable[[], Iterable[Mapping[str, Any]]]
    strict: bool = False


NOBODY: Final = Receiver(list)
"""A copy that stays on its side keeps all classes."""
CALLER: Final = Receiver(of_caller, strict=True)
"""The worker that copies."""
NOTEBOOK: Final = Receiver(of_session_of_caller)
"""The notebook that the copying worker's value is for: what a person asks for comes, of whatever class."""


def only_receiver(session: int, workers: tuple[int, ...] | None) -> Receiver:
    """The one worker that a value is copied for here; where there are several, each of them copies again."""
    if workers is None or len(workers) != 1:
        return NOBODY
    return Receiver(lambda: of_worker(session, workers[0]), strict=True)


def successors_in(
    copied: Any, memo: Mapping[int, Any], receiver: Receiver, inside: Sequence[Inside] = ()
) -> dict[type, type]:
    """The receiver's classes for those classes of other cells that a copy has objects of.

    Args:
        copied: what `copy.deepcopy` gave.
        memo: what it has copied.
        receiver: who gets it.
        inside: what `all_inside` gave of it, if that was asked.

    Cost: 5 us; of many objects 20 us, or a quarter of what that took if a cell has defined an Enum.
    """
    if receiver is NOBODY:
        return {}
    foreign = [kind for kind in _kinds_in(copied, memo, inside) if is_of_workers(module_of(kind))]
    namespaces = list(receiver.namespaces()) if foreign else []
    found = {kind: own_class(kind, namespaces, receiver) for kind in foreign}
    return {kind: own for kind, own in found.items() if own is not None and own is not kind}


def own_class(kind: type, namespaces: Iterable[Mapping[str, Any]], receiver: Receiver) -> type | None:
    """The class of that name in the first of these that has it; None if it is none of a cell.

    Of a class of a module that workers import for themselves, that in theirs, or the notebook's.
    """
    module = module_of(kind)
    if module != CELL_MODULE:
        namespaces = homes_of(module, None if receiver is NOTEBOOK else namespaces)
    found = (found_in(namespace, qualname_of(kind)) for namespace in namespaces)
    own = next((each for each in found if each is not None), None)
    return own if isinstance(own, type) and module_of(own) == module else None


def _kinds_in(copied: Any, memo: Mapping[int, Any], inside: Sequence[Inside]) -> set[type]:
    """The classes of all that was copied, and of the members of an Enum in it, which never are."""
    kinds = set(map(type, list(memo.values())))
    kinds.add(type(copied))
    if inside:
        return kinds.union(*(found for found, _ in inside))
    few = len(memo) + (len(copied) if type(copied) in (list, tuple, dict, set) else 0) <= _FEW
    return kinds | _kinds_inside(copied, memo) if few or _cells_have_enums() else kinds


def _cells_have_enums() -> bool:
    """Whether any cell has defined an Enum: then members of it can be anywhere. Costs 15 us."""
    known: list[type] = [enum.Enum]
    for kind in known:  # which grows meanwhile
        known += type.__subclasses__(kind)
    return any(map(is_of_workers, map(module_of, known)))


def _kinds_inside(copied: Any, memo: Mapping[int, Any]) -> set[type]:
    """The classes of what stands in all that was copied, 50 ns per element."""
    return {type(copied)}.union(*(kinds for kinds, _ in all_inside(copied, memo)))


def all_inside(copied: Any, memo: Mapping[int, Any]) -> Iterator[Inside]:
    """What stands in all that was copied, in several lists, and before each the classes of what is in it.

    Cost: 50 ns per element.
    """
    kept = memo.get(id(memo))  # the originals, which `copy` keeps alive meanwhile
    rest = [copied, *(made for made in list(memo.values()) if made is not kept)]
    seen = set[int]()
    while rest:
        inside = gc.get_referents(*rest)
        for each in rest:  # which the collector does not look into
            if type(each) is np.ndarray and each.dtype.hasobject and each.dtype.names is None:
                inside.extend(each.flat)
        kinds = set(map(type, inside))
        yield kinds, inside
        if kinds.isdisjoint((tuple, frozenset)):
            break
        # Those that hold nothing to be copied are handed over as they are, and nobody notes them.
        rest = [each for each in inside if type(each) in (tuple, frozenset) and id(each) not in seen]
        seen.update(map(id, rest))


def stand_ins(successors: Mapping[type, type]) -> dict[int, Any]:
    """By `id`, what `copy.deepcopy` is to take for copies: the classes, and members of an Enum.

    It looks up members always, and until Python 3.14 the class of most objects before it makes one: they are
    right from the start. Else the class is set afterwards (`hand_over`), which Python does not allow where a
    class with slots derives from one of a cell without.
    """
    taken: dict[int, Any] = {id(kind): own for kind, own in successors.items()}
    for kind, own in successors.items():
        if issubclass(kind, enum.Enum) and issubclass(own, enum.Enum):
            taken.update({id(each): _member(own, each) for each in _members(kind) if _has(own, each)})
    return taken


def _members(kind: type[enum.Enum]) -> list[enum.Enum]:
    """Its members, and of a Flag those without a name of their own, ``READ | WRITE``."""
    return [*kind, *(kind._value2member_map_.values() if issubclass(kind, enum.Flag) else ())]


def _has(own: type[enum.Enum], member: enum.Enum) -> bool:
    return member.name in own.__members__ or (issubclass(own, enum.Flag) and isinstance(member, enum.Flag))


def _member(own: type[enum.Enum], member: enum.Enum) -> enum.Enum:
    return own.__members__[member.name] if member.name in own.__members__ else own(member.value)


def hand_over(
    copied: Any, memo: Mapping[int, Any], successors: Mapping[type, type], former: Mapping[int, Any]
) -> None:
    """Make objects of the receiver's classes of those that are not yet.

    What another copy, with `former`, has given as well was made for neither: it is the sender's.

    Raises:
        TypeError: one of them cannot become that: its class has other slots or bases, or lacks a member.
    """
    for key, made in list(memo.items()):
        own = successors.get(type(made))
        if own is not None and former.get(key) is not made:
            object.__setattr__(made, "__class__", own)
    left = _kinds_inside(copied, memo) & successors.keys()
    if any(issubclass(kind, enum.Enum) for kind in left):
        raise TypeError


def refuse(successors: Iterable[type], reason: Exception) -> NoReturn:
    """Say that a value cannot become one of the receiver's classes."""
    names = ", ".join(sorted(map(qualname_of, successors)))
    raise UsageMistake(
        f"it holds an object of a class that the receiver's cells define differently, one of {names}; run "
        "the cell with the class on all workers, and make the object anew"
    ) from reason
