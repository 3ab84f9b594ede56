"""The result of a load: references to parameters by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from disco_magic.errors import UnknownName
from disco_magic.loader.table import as_html, as_text
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disco_magic.loader.stored import Catalogue
    from disco_magic.loader.table import Line

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
