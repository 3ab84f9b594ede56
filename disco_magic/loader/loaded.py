"""The result of a load: references to parameters by name, and how they are shown as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from disco_magic.core.markup import TableLook, cells, head_cells, row_head
from disco_magic.core.words import aligned, human_bytes, plural, shape_text
from disco_magic.errors import UnknownName
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disco_magic.loader.stored import Catalogue, StoredTensor

Ref = TypeVar("Ref")


class LoadedParameters(Mapping[str, Ref]):
    """References to loaded parameters, by name; displays itself as a table.

    The parameters stay on the workers as long as this object or a reference taken from it exists.

    Attributes:
        path: of the file they came from.
        metadata: what that file records about itself.
    """

    def __init__(self, catalogue: Catalogue, drefs: dict[str, Ref], lines: Sequence[Line]) -> None:
        self.path = catalogue.path
        self.metadata = catalogue.metadata
        self._drefs = drefs
        self._lines = tuple(lines)

    def __getitem__(self, name: str) -> Ref:
        """Return the register of parameter `name`.

        Raises:
            UnknownName: it was not loaded; near misses are in the message.
        """
        try:
            return self._drefs[name]
        except KeyError:
            sentence = f"no parameter {name!r} was loaded from {self.path}; {near_misses(str(name), self)}"
            raise UnknownName(sentence.rstrip("; ")) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._drefs)

    def __len__(self) -> int:
        return len(self._drefs)

    def __repr__(self) -> str:
        return as_text(self._lines)

    def _repr_html_(self) -> str:
        return as_html(self._lines)


HEADER: Final = ("parameter", "dtype", "shape", "placement", "per worker", "bytes per worker")
# Of longer tables the middle is left out: models have hundreds of parameters.
MOST_ROWS: Final = 60
_LAST_ROWS: Final = 10
_LOOK: Final = TableLook("disco-parameters")


class Line(NamedTuple):
    """One parameter as a row of the table."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    placement: str
    part: tuple[int, ...]
    nbytes: int

    @classmethod
    def of(cls, tensor: StoredTensor, axis: int | None, count: int) -> Line:
        """Describe what a load makes of a tensor."""
        part = tensor.part_shape(axis, count)
        placement = "replicated" if axis is None else f"axis {axis} in {count}"
        nbytes = tensor.part_nbytes(axis, count)
        return cls(tensor.name, str(tensor.dtype), tensor.shape, placement, part, nbytes)

    def cells(self) -> tuple[str, ...]:
        """Return the texts in the order of `HEADER`."""
        shape, part = shape_text(self.shape), shape_text(self.part)
        return self.name, self.dtype, shape, self.placement, part, human_bytes(self.nbytes)


def caption(lines: Sequence[Line]) -> str:
    """Return the number of parameters and their total size."""
    total = human_bytes(sum(line.nbytes for line in lines))
    return f"{plural(len(lines), 'parameter')}, {total} per worker"


def _rows(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    if len(lines) <= MOST_ROWS:
        return [line.cells() for line in lines]
    first = MOST_ROWS - _LAST_ROWS
    gap = (f"... {len(lines) - MOST_ROWS} more ...", *[""] * (len(HEADER) - 1))
    return [*(line.cells() for line in lines[:first]), gap, *(line.cells() for line in lines[-_LAST_ROWS:])]


def as_text(lines: Sequence[Line]) -> str:
    """Return the table as text."""
    texts = aligned([HEADER, *_rows(lines)], words=len(HEADER))
    return "\n".join([caption(lines), *(texts if lines else ())])


def as_html(lines: Sequence[Line]) -> str:
    """Return the table as HTML."""
    body = "".join(f"<tr>{row_head(name, 1, '')}{cells(rest)}</tr>" for name, *rest in _rows(lines))
    return _LOOK.html(caption(lines), head_cells(HEADER), body)
