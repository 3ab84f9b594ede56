"""What a worker holds in its registers, as far as it can be compared, and what it says should be equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disco_magic.core.registers import is_within, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Held:
    """What one worker holds in a register, or in a part of one such as ``params['w']``.

    Attributes:
        type: qualified name of the type; without its module if Python or a cell defines it.
        shape: lengths of the axes; the length of a list, tuple, dict or set; None where there is none.
        dtype, device: of an array, else None. The worker's own GPU is ``"cuda"``, whatever its number, any
            other one ``"cuda:1"``.
        elements: types of the plain values in a list, tuple, dict or set.
        text: a short value as text; only where values are compared.
        digest: of the value, equal for equal bits; b"" where values are not compared.
        opaque: why the value cannot be compared though it was asked for, else "".
        unseen: what is in it that was not looked at, else "".
        cut: whether parts of it were left out, because they are too many.
        shard: which part it is of a tensor that is split over a mesh, ``"tp=1"``, or ``""``, all of it; None:
            of no such one. Those of equal parts have to agree in shape and value.
        mesh: ids along it, with `shard`; not shown.
        marked: how the register is marked, ``"replicated"``, ``"replicated over dp"`` or ``""``; None where
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
        """What it is and its text, which may say that itself: ``slice(0, 2, None)``; empty without a text."""
        last = self.type.rpartition(".")[2]
        says_all = self.text.startswith((f"{last}(", f"{last}.", f"{self.type}(", f"{self.type}."))
        return self.text if says_all or not self.text else f"{self.kind} {self.text}"


@dataclass(frozen=True, slots=True)
class Found:
    """What one worker found in its registers.

    Attributes:
        bound: names that its last checked cell bound.
        marked: names that are marked as equal, with the axes of the mesh along which; none: on all workers.
            Parts have marks of their own: ``w['a']``.
        registers: name -> the register, then its parts: ``("w", Held)``, ``("w['a']", Held)``; likewise of
            parts that were looked at by themselves.
    """

    bound: frozenset[str]
    marked: Mapping[str, tuple[str, ...]]
    registers: Mapping[str, Sequence[tuple[str, Held]]]

    @property
    def is_split(self) -> bool:
        """Whether a part of something is this worker's own, and that of others may be another."""
        return any(held.shard for rows in self.registers.values() for _, held in rows)

    @property
    def opaque(self) -> bool:
        """Whether there is a value that cannot be compared though it was asked for."""
        return any(held.opaque for rows in self.registers.values() for _, held in rows)

    def column(self, name: str) -> dict[str, Held]:
        """A register with its parts, or a part with those in it; empty if the worker has none."""
        rows = self.registers.get(name)
        if rows is None:  # a part that others have looked at by itself
            outer = nearest(name, self.registers)
            around = () if outer is None else self.registers[outer]
            rows = [(path, held) for path, held in around if is_within(path, name)]
        return dict(rows)


def marked_anywhere(found: Mapping[int, Found]) -> frozenset[str]:
    """Names that some worker has marked as equal."""
    return frozenset().union(*(each.marked for each in found.values()))


def marked_everywhere(found: Mapping[int, Found]) -> dict[str, tuple[str, ...]]:
    """Names that every worker that has them has marked as equal along the same axes, with these axes."""
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
