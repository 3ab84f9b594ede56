"""Which registers of a worker are meant to be equal on all workers: the marks of `worker.replicated`.

A mark belongs to a name, so that it survives the training step that binds the name anew. The name is found

  * at once, from the call itself: ``w = worker.replicated(w)``, ``a, b = worker.replicated(a, b)``;
  * else from the value, if a register holds it: ``worker.replicated(w)``;
  * else when a register has come to hold it, looked up before and after every cell and by every check: for
    what a function has returned, a plan has loaded or ``session["w"] = ...`` has named.

A value that no register holds at the end of the cell in which it was marked may be a part of what one holds.
Then the mark belongs to its path, ``model.norm.weight``, and likewise survives. If the cell has replaced the
part by then, it belongs to the path where the part was. The variable of a loop over parts does not count as
their name: it moves on. Nor does a name that happens to hold the value where the call names a part,
``worker.replicated(model.norm.weight)``. A view of all that a register or a part has, as ``w.T`` or
``parameter.data``, stands for it. For what is nothing of all this a warning says that it is not marked.

Numbers and text cannot be recognised by identity: Python keeps one object for all small equal ones.
"""

from __future__ import annotations

import weakref
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers.source_text import names_of_arguments
from disco_magic.core.registers import RegisterFile, is_public, register_of
from disco_magic.errors import UsageMistake
from disco_magic.functions.cell_copies import ATOMS
from disco_magic.functions.execution.bindings import MODULE, deleted_names, hold, loop_names, names_of_result
from disco_magic.functions.marked_values import Pending, places_of, warn_of_lost
from disco_magic.values.finding import PresentPlaces, paths_of
from disco_magic.values.kinds import type_name

if TYPE_CHECKING:
    import types
    from collections.abc import Iterable

    from disco_magic.functions.marked_values import Axes

_HIDDEN: Final = (
    "worker.replicated: {!r} begins with an underscore, so it is no register and never compared; "
    "give what is meant to be equal on all workers a name that does not"
)
_VERB: Final = "replicated"


class Marks:
    """The marks of one worker; only its own thread uses them. False if there are none.

    Attributes:
        names: marked registers, and parts of what they hold, each with the axes along which it is equal.
        namespace: the worker's namespace.
    """

    def __init__(self) -> None:
        self.names: dict[str, Axes] = {}
        self.namespace: dict[str, Any] = {}
        # Marked values by their identity. Those without weak references are kept until the next look.
        self._alive: dict[int, tuple[weakref.ref[Any], Axes]] = {}
        self._kept: dict[int, tuple[Any, Axes]] = {}
        self._fresh: set[str] = set()  # marked since the cell began
        self._assigned: set[str] = set()  # those of them that the call itself has assigned
        self._seen: dict[str, Axes] = {}  # paths of values marked in this cell, at the time of a check
        self._pending: dict[int, Pending] = {}  # by identity, values marked in this cell
        self._placed: set[tuple[str, int]] = set()  # lines with marks of values that are parts
        self._present = PresentPlaces()

    def __bool__(self) -> bool:
        return bool(self.names or self._alive or self._kept or self._seen or self._pending)

    def add(self, value: Any, axes: Axes = ()) -> None:
        """Mark any register that comes to hold `value`, an array or another object of its own."""
        key = id(value)
        try:
            # The callback gets the reference, `pop`'s default, before another object can have that id.
            self._alive[key] = weakref.ref(value, partial(self._alive.pop, key)), axes
        except TypeError:  # containers
            self._kept[key] = value, axes

    def add_result(self, values: tuple[Any, ...], frame: types.FrameType, axes: Axes = ()) -> None:
        """Mark `values`, which the call that `frame` is making returns, as equal along `axes`.

        Raises:
            UsageMistake: a number or text whose name the call does not show; a name that is no register.
        """
        own = frame.f_globals is self.namespace
        said = names_of_result(frame) if own else []
        names = [name for name in said if is_public(name)]
        self._assigned.update(names)
        if not names:
            if own and frame.f_code.co_name == MODULE:
                self._refuse(values, said)
            names = self._find(values, axes, frame)
        for value in values:
            # A value's own mark would override that of its name at the next look.
            if self._mark_of(value) is not None:
                self.add(value, axes)
        self.names.update(dict.fromkeys(names, axes))
        self._fresh.update(names)

    def _refuse(self, values: tuple[Any, ...], said: list[str]) -> None:
        """Refuse values whose mark would be lost."""
        for value in values:
            if is_anonymous(value):
                if said:
                    raise UsageMistake(_HIDDEN.format(said[0]))
                raise UsageMistake(
                    "worker.replicated cannot tell which register is meant by a number or a text; "
                    "write `step = worker.replicated(step)`"
                )
            held = self._names_of(value)
            if (said or held) and not any(map(is_public, held)) and not self._is_part(value):
                raise UsageMistake(_HIDDEN.format((said or held)[0]))

    def _is_part(self, value: Any) -> bool:
        held = dict(self.namespace)
        return bool(paths_of({id(value)}, RegisterFile(held).public_names(), held))

    def _names_of(self, value: Any) -> list[str]:
        return [name for name, bound in dict(self.namespace).items() if bound is value]

    def _find(self, values: tuple[Any, ...], axes: Axes, frame: types.FrameType) -> list[str]:
        """The names of `values`; values without a name get their marks later. `frame` makes the call."""
        names: list[str] = []
        where = frame.f_code.co_filename, frame.f_lineno
        for number, value in enumerate(values):
            if not is_anonymous(value):
                mine = [name for name in self._names_of(value) if is_public(name)]
                is_part = bool(mine) and _is_part_by_call(frame, number, len(values))
                if is_part or not mine:
                    self.add(value, axes)
                else:
                    names += mine
                moves_on = is_part or loop_names(frame.f_code).issuperset(mine)
                then = self._present.path_of(value, self.namespace) if moves_on else None
                former = self._pending.get(id(value))
                if former is not None and former.reference() is None:  # of another one, which is gone
                    self._pending[id(former)] = former
                marked = hold(value), axes, where, tuple(mine), is_part, type_name(type(value)), then
                self._pending[id(value)] = Pending(*marked)
        return names

    def cell_begins(self) -> None:
        """Prepare for a cell, which may bind names anew whose values show that they are marked."""
        self.settle()
        self._fresh.clear()
        self._assigned.clear()
        self._pending.clear()
        self._present = PresentPlaces()

    def settle(self) -> None:
        """Mark names that have come to hold a marked value; forget those that are no longer bound."""
        held = dict(self.namespace)  # a thread of the user's may unbind a name meanwhile
        present = RegisterFile(held).public_names()
        if self._pending:
            self._settle_parts(held, frozenset())
        if self._alive or self._kept:
            found = {name: self._mark_of(held[name]) for name in present}
            self.names.update({name: axes for name, axes in found.items() if axes is not None})
            self._kept.clear()
        self._drop([label for label in self.names if register_of(label) not in present])

    def now(self) -> dict[str, Axes]:
        """`names` as the end of the cell would leave them, except loop variables; changes none of them."""
        held = dict(self.namespace)
        present = RegisterFile(held).public_names()
        found = {label: axes for label, axes in self.names.items() if register_of(label) in present}
        at_home = {id(held[name]) for name in present}
        wanted = {key: each for key, each in self._pending.items() if each.is_part or key not in at_home}
        found_at = places_of(wanted, present, held)
        for key, paths in found_at.items():
            self._seen.update(dict.fromkeys(paths, wanted[key].axes))  # whatever the cell puts there next
        for name in present:
            axes = self._mark_of(held[name])
            if axes is not None and id(held[name]) not in found_at:
                found[name] = axes
        return found | {path: axes for path, axes in self._seen.items() if register_of(path) in present}

    def _mark_of(self, value: Any) -> Axes | None:
        key = id(value)
        reference, axes = self._alive.get(key, (None, ()))
        if reference is not None and reference() is value:
            return axes
        return self._kept[key][1] if key in self._kept else None

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self.names.pop(name, None)

    def cell_ended(self, codes: Iterable[types.CodeType]) -> None:
        """After a cell of these `codes`: names that it has unbound lose their marks, even if bound again."""
        for code in codes:
            gone = deleted_names(code) - self._fresh
            self._drop([label for label in self.names if register_of(label) in gone])
        if self._pending:
            loops = frozenset().union(*map(loop_names, codes))
            passing = self._settle_parts(dict(self.namespace), loops)
            at_home = {id(self.namespace[name]) for name in RegisterFile(self.namespace).public_names()}
            warn_of_lost(self._pending, at_home, self._placed, passing)
            self._pending.clear()
            self._placed.clear()
            for path in (path for path in self._seen if register_of(path) not in passing):
                self.names.setdefault(path, self._seen[path])
        self._seen.clear()
        self.settle()

    def _settle_parts(self, held: dict[str, Any], loops: frozenset[str]) -> frozenset[str]:
        """Mark the paths of marked values that have no name; return passing names, which lose their marks."""
        # A name that is bound anew keeps the mark, unless it held several marked values one after the other.
        often = Counter(name for each in self._pending.values() for name in each.names)
        passing = loops.union(name for name, times in often.items() if times > 1)
        names = [name for name in RegisterFile(held).public_names() if name not in passing]
        at_home = {id(held[name]) for name in names}
        wanted = {
            key: each
            for key, each in self._pending.items()
            if each.is_part or (key not in at_home and passing.issuperset(each.names))
        }
        found = places_of(wanted, names, held)
        for key, paths in found.items():
            each = self._pending.pop(key)
            self.names.update(dict.fromkeys(paths, each.axes))
            self._placed.add(each.where)
            self._alive.pop(key, None)  # else the next name that holds it for a while would get the mark
            self._kept.pop(key, None)
        if found or not wanted:
            self._drop(passing.intersection(often) - self._assigned)
        return passing


_ATOM_IDS: Final = frozenset(map(id, ATOMS))  # a metaclass may have an ``__eq__`` of its own


def is_anonymous(value: Any) -> bool:
    """Whether another name may hold the same object by chance. Runs no code of the value's class."""
    kind = type(value)
    return (
        id(kind) in _ATOM_IDS
        or issubclass(kind, np.generic)
        or (kind is tuple and _ATOM_IDS.issuperset(map(id, map(type, value))))
    )


def _is_part_by_call(frame: types.FrameType, number: int, count: int) -> bool:
    """Whether the call that `frame` makes names argument `number` as ``params["w"]`` or ``net.weight``."""
    written = names_of_arguments(frame, _VERB, count)[number]
    return written.endswith("]") or (written.rpartition(".")[2].isidentifier() and "." in written)
