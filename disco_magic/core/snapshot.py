"""Frozen pictures of a session, read by tables, reprs and widgets. Plain data, no reference to a value."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from disco_magic.core.circles import circles_of_parts
from disco_magic.core.held import NOT_IMPORTED
from disco_magic.core.register_text import snapshot_text, table_text
from disco_magic.core.registers import register_of
from disco_magic.core.words import shape_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.core.circles import Workers


_BAD: Final = ("nan", "inf", "-inf")


@dataclass(frozen=True, slots=True)
class RegisterInfo:
    """One register on one worker.

    Attributes:
        type: class name of the value.
        shape: lengths of the axes, or None if the value is no array.
        dtype: element type as text, or None.
        device: ``"cpu"``, ``"cuda:0"``, or None if the value is no array. For another library's array what
            that says; for a container the GPU that all arrays in it are on, if it is a single one.
        nbytes: bytes of the elements; 0 if that is not known without running the value's code.
        text: the value in at most 60 characters, or a description.
        minimum, mean, maximum: of the finite elements that were looked at; complex numbers by magnitude.
            None if there are none, or they are not numbers. How many that are: `Session.registers`.
        fingerprint: equal for equal values; b"" if the value was not compared, or could not be seen: one that
            a GPU is still computing has no statistics and no text either.
        sampled: whether the statistics and the fingerprint cover only a part of the elements.
        nans, infs: how many sampled elements are NaN, or infinite; for a container, those in it. None if
            elements are not numbers, or were not looked at.
        histogram: 16 counts of the finite sampled elements, in equal bins from `minimum` to `maximum`; () if
            there are none. If all are equal, they are in the ninth bin.
        items: length of a list, tuple, dict or set, else None.
        part: which part of a split tensor it is, equal for equal parts; () if it is no such tensor.
    """

    type: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str | None = None
    nbytes: int = 0
    text: str = ""
    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None
    fingerprint: bytes = b""
    sampled: bool = False
    nans: int | None = None
    infs: int | None = None
    histogram: tuple[int, ...] = ()
    items: int | None = None
    part: tuple[object, ...] = ()

    @property
    def measure(self) -> str:
        """``|x|`` if the statistics are of the elements' magnitudes, else "": it precedes them."""
        return "|x| " if self.dtype is not None and "complex" in self.dtype else ""

    @property
    def kind(self) -> str:
        """``float32 2x3`` with a multiplication sign, ``DataFrame 9x2``, ``int``."""
        if self.shape is None:
            return self.type
        if self.dtype is None:
            return f"{self.type} {shape_text(self.shape)}"
        text = f"{self.dtype} {shape_text(self.shape)}"
        return text if self.type in ("ndarray", self.dtype) else f"{self.type} {text}"

    @property
    def is_bad(self) -> bool:
        """Whether NaN or Inf are among the elements that were looked at, or the value is one of these."""
        return bool(self.nans or self.infs) or (self.type == "float" and self.text in _BAD)


@dataclass(frozen=True, slots=True, repr=False)
class Row:
    """One register across workers; None for a worker that does not have it.

    `coming` are the workers that still have commands to do, so that it may appear there soon.
    `circles` are the sets of workers that are meant to agree with each other; none: all workers.

    An array that a GPU is still computing has no fingerprint: whether it equals the others is unknown,
    and it counts as neither.
    """

    name: str
    cells: tuple[RegisterInfo | None, ...]
    coming: frozenset[int] = frozenset()
    circles: tuple[Workers, ...] = ()

    def __repr__(self) -> str:
        return table_text([self], len(self.cells))

    @property
    def present(self) -> list[RegisterInfo]:
        """The cells of the workers that have it."""
        return [cell for cell in self.cells if cell is not None]

    @property
    def differs(self) -> bool:
        """Whether a worker's value is known to be missing or to differ in type, shape, length or content.

        Or in the kind of device: a GPU where others have it on the CPU. Which GPU does not matter. With
        `circles`, values are compared within each circle.
        """
        return any(map(self._differ, self.circles or (tuple(range(len(self.cells))),)))

    def _differ(self, circle: Workers) -> bool:
        circle = _known(circle, self.cells)
        cells = [self.cells[worker] for worker in circle]
        seen = {cell.fingerprint for cell in cells if cell is not None and cell.fingerprint}
        here = [self.cells[worker] for worker in circle if worker not in self.coming]
        return len(set(map(_kind, here))) > 1 or len(seen) > 1

    @property
    def compared(self) -> bool:
        """Whether all workers' values were compared, not only their types and shapes."""
        return all(cell.fingerprint for cell in self.present)

    @property
    def alike(self) -> bool:
        """Whether one worker's cell can represent all: as far as is known, they do not differ."""
        told = {None if cell is None else (_kind(cell), cell.fingerprint or cell.text) for cell in self.cells}
        return len(told) <= 1 and len(self.coming) in (0, len(self.cells))

    @property
    def is_bad(self) -> bool:
        """Whether there is NaN or Inf on any worker, see `RegisterInfo.is_bad`."""
        return any(cell.is_bad for cell in self.present)

    @property
    def is_none(self) -> bool:
        """Whether it is None on every worker that has it, as results are of what failed."""
        return {cell.type for cell in self.present} == {"NoneType"}

    def odd(self) -> tuple[bool, ...]:
        """For every worker whether it differs from the most frequent cell, the first of equally frequent.

        If no two agree in value (each has its own shard), only a cell of another type, shape or dtype, or on
        another kind of device, is odd. With `circles`, this is decided in each; if no two in it agree,
        all are odd.
        """
        found = [False] * len(self.cells)
        for whole in self.circles or (tuple(range(len(self.cells))),):
            circle = _known(whole, self.cells)
            odd: Sequence[bool] = _odd([self.cells[worker] for worker in circle])
            if self.circles and not any(odd) and self._differ(circle):
                odd = [True] * len(circle)
            for worker, is_odd in zip(circle, odd, strict=True):
                found[worker] = is_odd
        return tuple(found)

    def odd_if_differing(self) -> tuple[bool, ...]:
        """For every worker whether tables mark its cell: `odd`, if the row differs; else none is."""
        return self.odd() if self.differs else (False,) * len(self.cells)

    def pair(self) -> tuple[int, int] | None:
        """Two workers whose values differ and should not; if possible the first one holds the usual value.

        None if there is no such pair, for example if each of many workers has its own shard.
        """
        odd = self.odd()
        for circle in self.circles or (tuple(range(len(odd))),):
            usual = [worker for worker in circle if not odd[worker]]
            others = [worker for worker in circle if odd[worker]]
            if usual and others:
                return usual[0], others[0]
            if (self.circles or len(circle) == 2) and self._differ(circle):
                return circle[0], circle[1]
        return None

    def of(self, workers: Sequence[int]) -> Row:
        """The row of these workers only, numbered from 0 in this order."""
        place = {worker: number for number, worker in enumerate(workers)}
        circles = [tuple(place[each] for each in circle if each in place) for circle in self.circles]
        return Row(
            self.name,
            tuple(self.cells[worker] for worker in workers),
            frozenset(place[worker] for worker in self.coming if worker in place),
            tuple(filter(None, circles)),
        )


def _known(circle: Workers, cells: Sequence[RegisterInfo | None]) -> Workers:
    """Those of the workers that are compared: one that has not imported it yet agrees with all that have."""
    known = tuple(each for each in circle if (cell := cells[each]) is None or cell.type != NOT_IMPORTED)
    return known if any(cells[each] for each in known) else circle


def _odd(cells: Sequence[RegisterInfo | None]) -> tuple[bool, ...]:
    kinds = [_kind(cell) for cell in cells]
    prints = [b"" if cell is None else cell.fingerprint for cell in cells]
    keys = list(zip(kinds, prints, strict=True))
    # Without a fingerprint: they may be equal to one that has been looked at.
    unseen = [kind is not None and not p and any(k == kind and q for k, q in keys) for kind, p in keys]
    told = [key for key, hidden in zip(keys, unseen, strict=True) if not hidden]
    if len(set(told)) == len(told):
        # Of two workers, the one without a value is the odd one.
        usual = max(kinds, key=lambda kind: (kinds.count(kind), kind is not None))
        return tuple(kind != usual for kind in kinds)
    most = max(told, key=told.count)
    return tuple(
        key[0] != most[0] if hidden else key != most for key, hidden in zip(keys, unseen, strict=True)
    )


def _kind(cell: RegisterInfo | None) -> tuple[object, ...] | None:
    """What has to be the same before values are compared."""
    if cell is None:
        return None
    device = "cpu" if cell.device is None else cell.device.partition(":")[0]
    return cell.type, cell.shape, cell.dtype, cell.items, device


@dataclass(frozen=True, slots=True, repr=False)
class SessionSnapshot:
    """All registers of a session at one moment per worker (not one moment for all of them).

    Its repr is a table.

    Attributes:
        rows: the registers.
        parts: parts that differ between workers that should agree, if the whole register has other circles.
    """

    session_id: int
    num_workers: int
    rows: tuple[Row, ...]
    parts: tuple[Row, ...] = ()

    def __repr__(self) -> str:
        return snapshot_text(self)

    @property
    def nbytes(self) -> tuple[int, ...]:
        """Bytes in registers per worker; a value held by two registers counts twice."""
        totals = [0] * self.num_workers
        for row in self.rows:
            for worker, cell in enumerate(row.cells):
                totals[worker] += cell.nbytes if cell is not None else 0
        return tuple(totals)

    @property
    def listed(self) -> list[Row]:
        """The registers, each followed by its parts."""
        below: dict[str, list[Row]] = {}
        for part in self.parts:
            below.setdefault(register_of(part.name), []).append(part)
        return [each for row in self.rows for each in (row, *below.get(row.name, ()))]

    @property
    def differing(self) -> int:
        """How many registers differ, as a whole or in one of `parts`."""
        return len({register_of(row.name) for row in (*self.rows, *self.parts) if row.differs})

    def row(self, name: str) -> Row:
        """The row of register `name`, ``"x"`` or ``"#5"``; KeyError if there is none."""
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def find(self, name: str) -> Row | None:
        """The row of register `name`, None if there is none."""
        return next((row for row in self.rows if row.name == name), None)


def merge(
    session_id: int,
    per_worker: list[list[tuple[str, RegisterInfo]]],
    circles: Mapping[str, tuple[Workers, ...]] = MappingProxyType({}),
) -> SessionSnapshot:
    """Combine the workers' own lists: one row per register, in the order of first appearance.

    Args:
        session_id: of which session.
        per_worker: names and pictures.
        circles: register -> the sets of workers that are meant to agree with each other, if not all are.
    """
    columns = [dict(infos) for infos in per_worker]
    names = dict.fromkeys(name for infos in per_worker for name, _ in infos)
    rows = tuple(
        Row(name, cells, circles=circles[name] if name in circles else circles_of_parts(cells))
        for name in names
        for cells in (tuple(column.get(name) for column in columns),)
    )
    return SessionSnapshot(session_id, len(per_worker), rows)
