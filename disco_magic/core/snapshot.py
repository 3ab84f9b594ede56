"""Frozen pictures of a session: what tables, reprs and widgets read. Plain data, no reference to a value."""

from __future__ import annotations

from dataclasses import dataclass

from disco_magic.core.words import shape_text


@dataclass(frozen=True, slots=True)
class RegisterInfo:
    """One register on one worker.

    Attributes:
        type: class name of the value.
        shape: lengths of the axes, or None if the value is no array.
        dtype: element type as text, or None.
        device: ``"cpu"``, ``"cuda:0"``, or None if the value is no array.
        nbytes: bytes of the elements; 0 where it is not known without running the value's code.
        text: the value in at most 60 characters, or what it is.
        minimum, mean, maximum: of the finite elements in a sample of at most 65,536, or as many as were asked
            for, spread evenly; complex numbers by magnitude. None if there are none, or they are no numbers.
        fingerprint: equal for equal values; b"" if the value was not compared.
        sampled: whether the statistics and the fingerprint saw only a part of the elements.
        nans, infs: how many sampled elements are NaN, or infinite; None where elements are no numbers.
        histogram: 16 counts of the finite sampled elements, in equal bins from `minimum` to `maximum`; () if
            there are none. If all are equal, they are in the ninth bin.
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

    @property
    def kind(self) -> str:
        """``float32 2x3`` with a multiplication sign, ``Tensor half 0-d``; else the name of the type."""
        if self.dtype is None or self.shape is None:
            return self.type
        text = f"{self.dtype} {shape_text(self.shape)}"
        return text if self.type == "ndarray" else f"{self.type} {text}"


@dataclass(frozen=True, slots=True)
class Row:
    """One register across workers; None where a worker has not got it."""

    name: str
    cells: tuple[RegisterInfo | None, ...]

    @property
    def differs(self) -> bool:
        """Whether any worker's value is missing or of another type, shape, dtype or content."""
        return len({self._key(cell) for cell in self.cells}) > 1

    @property
    def compared(self) -> bool:
        """Whether all workers' values were compared, not only their types and shapes."""
        return all(cell is None or cell.fingerprint for cell in self.cells)

    def odd(self) -> tuple[bool, ...]:
        """For every worker whether it differs from the most frequent cell (the first of equally frequent).

        Where no two agree in value (each has its own shard), only another type, shape or dtype is odd.
        """
        keys = [self._key(cell) for cell in self.cells]
        if len(set(keys)) == len(keys):
            keys = [key if key is None else key[:3] for key in keys]
        usual = max(keys, key=keys.count)
        return tuple(key != usual for key in keys)

    @staticmethod
    def _key(cell: RegisterInfo | None) -> tuple[object, ...] | None:
        return None if cell is None else (cell.type, cell.shape, cell.dtype, cell.fingerprint)


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """All registers of a session at one moment per worker (not one moment for all of them)."""

    session_id: int
    num_workers: int
    rows: tuple[Row, ...]

    @property
    def nbytes(self) -> tuple[int, ...]:
        """Bytes in registers per worker; a value held by two registers counts twice."""
        totals = [0] * self.num_workers
        for row in self.rows:
            for worker, cell in enumerate(row.cells):
                totals[worker] += cell.nbytes if cell is not None else 0
        return tuple(totals)

    def row(self, name: str) -> Row:
        """The row of register `name`, ``"x"`` or ``"#5"``; KeyError if there is none."""
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def find(self, name: str) -> Row | None:
        """The row of register `name`, None if there is none."""
        return next((row for row in self.rows if row.name == name), None)


def merge(session_id: int, per_worker: list[list[tuple[str, RegisterInfo]]]) -> SessionSnapshot:
    """Put the workers' own lists side by side: one row per register, in the order of first appearance."""
    columns = [dict(infos) for infos in per_worker]
    names = dict.fromkeys(name for infos in per_worker for name, _ in infos)
    rows = tuple(Row(name, tuple(column.get(name) for column in columns)) for name in names)
    return SessionSnapshot(session_id, len(per_worker), rows)
