"""Numbers as tables show them: with few digits, but with all that tell workers apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.core.snapshot import Row

_FEW: Final = 6
_ALL: Final = 17
_FITS: Final = 9
_TYPES: Final = ("float", "complex")
# NumPy's longdouble: Python's own numbers have neither its digits nor its range.
_LONG: Final = ("float96", "float128", "complex192", "complex256")


def brief_numbers(row: Row) -> Mapping[str, str]:
    """Texts of floats in a row -> shorter ones: six significant digits, or as many more as they differ in.

    Texts that are short already are not among them. No number gets the text of what is no float on another
    worker: 1.0000000000000002 is not written as the int 1.
    """
    alone = (cell for cell in row.present if cell.shape is None or not cell.shape)
    numbers: dict[str, complex] = {}
    for cell in alone:
        kind = cell.dtype or cell.type
        is_short = kind.startswith(_TYPES) and not kind.startswith(_LONG)
        if is_short and (number := _number(cell.text)) is not None:
            numbers[cell.text] = number
    if max(map(len, numbers), default=0) <= _FITS:
        return {}
    others = {cell.text for cell in row.present}.difference(numbers)
    brief: dict[str, str] = {}
    for digits in range(_FEW, _ALL):
        brief = {text: min(f"{number:.{digits}g}", text, key=len) for text, number in numbers.items()}
        if len(others.union(brief.values())) == len(others) + len(numbers):
            break
    else:
        return {}
    return {text: said for text, said in brief.items() if len(text) > _FITS and said != text}


def _number(text: str) -> complex | None:
    for kind in (float, complex):
        try:
            return kind(text)
        except ValueError:  # shortened, or of a class that writes itself in another way
            continue
    return None
