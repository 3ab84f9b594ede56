"""What a worker holds in its registers, as far as it can be compared, and what it marked as equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from disco_magic.core.registers import is_within, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_IMPORTED: Final = "lazy import"
"""The type of what Python 3.15's ``lazy import`` has bound until it is used: it agrees with anything."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one worker holds in a register, or in a part of one such as ``params['w']``.

    Attributes:
        type: qualified name of the type; without its module if Python or a cell defines it.
        shape: lengths of the axes; the length of a list, tuple, dict or set; None where there is none.
        dtype, device: of an array, else None. The worker's own GPU is ``"cuda"``, whatever its number, any
            other one ``"cuda:1"``.
        elements: types of the plain values in a list, tuple, dict or set.
        text: a short value as text; only if values are compared.
        digest: of the value, equal for equal bits; b"" if values are not compared.
        opaque: why the value cannot be compared though that was requested, else "".
        unseen: what in it was not looked at, else "".
        cut: whether some of its parts were left out because there are too many.
        shard: which part of a tensor split over a mesh it is, ``"tp=1"``, or ``""``: all of it; None: it is
            no such tensor. Equal parts have to agree in shape and value.
        mesh: the ranks in that mesh, with `shard`; not shown.
        marked: how the register is marked, ``"replicated"``, ``"replicated over dp"`` or ``""``; None if
            workers agree on that.
    """

    type: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str | None = None
    elements: str = ""
    text: str = ""
    digest: bytes = b""
    opaque: str = ""
    unseen: str = ""
    cut: bool = False
    shard: str | None = None
    mesh: tuple[int, ...] = ()
    marked: str | None = None

    @property
    def kind(self) -> str:
        """``float32 (3, 4)``, ``list of 3 (int)``, else the type."""
        mark = "" if self.marked is None else f", marked {self.marked}" if self.marked else ", not marked"
        return f"{self._kind}{mark}"

    @property
    def _kind(self) -> str:
        if self.dtype is not None:
            name = "" if self.type == "ndarray" else self.type
            shape = "" if self.shape is None else str(self.shape)
            where = self.device if self.device not in (None, "cpu") else ""
            return " ".join(filter(None, (name, self.dtype, shape, where)))
        of = ""
        if self.shape is not None:
            of = f" of {self.shape[0]}" if len(self.shape) == 1 else f" {self.shape}"
        return f"{self.type}{of}{f' ({self.elements})' if self.elements else ''}"

    @property
    def written(self) -> str:
        """Kind and text, or only the text if it names the type: ``slice(0, 2, None)``; empty without text."""
        last = self.type.rpartition(".")[2]
        says_all = self.text.startswith((f"{last}(", f"{last}.", f"{self.type}(", f"{self.type}."))
        return self.text if says_all or not self.text else f"{self.kind} {self.text}"


@dataclass(frozen=True, slots=True)
class Found:
    """What one worker found in its registers.

    Attributes:
        bound: names that its last checked cell bound.
        marked: names marked as equal -> the axes of the mesh along which; no axes: on all workers.
            Parts have marks of their own: ``w['a']``.
        registers: name -> the register, then its parts: ``("w", Held)``, ``("w['a']", Held)``. Parts that
            were looked at by themselves have entries, too.
    """

    bound: frozenset[str]
    marked: Mapping[str, tuple[str, ...]]
    registers: Mapping[str, Sequence[tuple[str, Held]]]

    @property
    def is_split(self) -> bool:
        """Whether this worker holds its own part of a split tensor; other workers may hold other parts."""
        return any(held.shard for rows in self.registers.values() for _, held in rows)

    @property
    def opaque(self) -> bool:
        """Whether a value cannot be compared though that was requested."""
        return any(held.opaque for rows in self.registers.values() for _, held in rows)

    def column(self, name: str) -> dict[str, Held]:
        """A register with its parts, or a part with the parts in it; empty if the worker has none."""
        rows = self.registers.get(name)
        if rows is None:  # a part that other workers looked at by itself
            outer = nearest(name, self.registers)
            around = () if outer is None else self.registers[outer]
            rows = [(path, held) for path, held in around if is_within(path, name)]
        return dict(rows)


def marked_anywhere(found: Mapping[int, Found]) -> frozenset[str]:
    """Names that at least one worker has marked as equal."""
    return frozenset().union(*(each.marked for each in found.values()))


def marked_everywhere(found: Mapping[int, Found]) -> dict[str, tuple[str, ...]]:
    """Names marked as equal along the same axes by every worker that has them, with these axes."""
    agreed = {}
    for name in marked_anywhere(found):
        marks = {each.marked.get(name) for each in found.values() if each.column(name)}
        (axes, *others) = marks or {None}
        if axes is not None and not others:
            agreed[name] = axes
    return agreed


def mark_in_words(found: Found, name: str) -> str:
    """How a worker has marked a register: ``replicated``, ``replicated over dp``, or ``""``: not at all."""
    if name not in found.marked:
        return ""
    axes = found.marked[name]
    return f"replicated over {', '.join(axes)}" if axes else "replicated"
