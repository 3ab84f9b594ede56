"""What a check asks a worker: what is in its registers, and which of them are meant to be equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disco_magic.core.held import Found
from disco_magic.core.registers import RegisterFile, inside, register_of
from disco_magic.functions.context import worker
from disco_magic.functions.divergence import survey
from disco_magic.functions.parts import NOTHING, parts_at, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Survey:
    """Says what the calling worker's registers hold; a worker function.

    Attributes:
        names: look at these only, registers or parts of some; None: at all.
        values: digest values of `names`; without names, those of registers and parts marked as replicated.
        parts: with `names`, also those parts of them that have marks of their own.
    """

    names: tuple[str, ...] | None = None
    values: bool = False
    parts: bool = False

    @property
    def disco_name(self) -> str:
        """What errors and tables of commands call it."""
        return "check registers"

    def __call__(self) -> Found:
        """Look at the calling worker's registers."""
        me = worker()
        me.marks.settle()
        if self.values:
            me.place.finish()  # an interrupt ends this wait; one for a copy from the GPU it would not
        marked = dict(me.marks.names)
        for label in self.names or ():
            if register_of(label) in marked:  # a part of what is marked is meant to be equal as that is
                marked.setdefault(label, marked[register_of(label)])
        held = dict(me.marks.namespace)  # a thread of the user's may unbind one
        public = {name: held[name] for name in RegisterFile(held).public_names()}
        registers = {}
        labels = list(self._labels(public, marked))
        parts = _parts(public, [label for label in labels if label not in public])
        for label in labels:
            value = public.get(label, parts.get(label, NOTHING))
            if value is not NOTHING:
                values = self.values and (self.names is not None or label in marked)
                registers[label] = survey(label, value, values=values, own=me.place.device)
        return Found(me.bound, marked, registers)

    def _labels(self, public: Iterable[str], marked: Iterable[str]) -> Iterable[str]:
        """What to look at: of parts only those that are asked for, and compared by value."""
        if self.names is not None:
            within = tuple(sign for name in self.names for sign in inside(name))
            return dict.fromkeys(
                [*self.names, *(each for each in marked if self.parts and each.startswith(within))]
            )
        return dict.fromkeys([*public, *(marked if self.values else ())])


def _parts(public: Mapping[str, Any], labels: Iterable[str]) -> dict[str, Any]:
    """The parts of registers that these are, as far as there are such."""
    wanted: dict[str, dict[str, str]] = {}
    for label in labels:
        name, written = split(label)
        if name in public:
            wanted.setdefault(name, {})[written] = label
    return {
        of[written]: part
        for name, of in wanted.items()
        for written, part in parts_at(public[name], of).items()
    }
