"""What the expression that failed has read on each worker, as a small table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.phrases import people, ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from disco_magic.errors import Failure

# Different descriptions of a name that are shown; for more, their number.
_SHOWN: Final = 4
_WIDEST: Final = 60  # characters of a name that are shown: the table is as wide as the longest
_NOWHERE: Final[Mapping[int, Mapping[str, str]]] = {}  # a plain one: failures are pickled


class Operands(NamedTuple):
    """The names and simple paths in the expression that failed, and what they stood for at that moment.

    Attributes:
        expression: its text, in one line of at most 60 characters.
        line: where it is: ``Cell In[7], line 4``.
        values: ``a``, ``self.scale`` or ``batch['x']`` -> a description such as ``float32 2x3``, with a
            multiplication sign; short values are in it. Functions, classes and modules are left out.
        left_out: how many further names it has read.
        others: the same of workers where it did not fail, in the origin's failure of a cell: what they have
            of names that the cell does not bind again.
    """

    expression: str
    line: str
    values: Mapping[str, str]
    left_out: int = 0
    others: Mapping[int, Mapping[str, str]] = _NOWHERE


def operand_lines(failures: Iterable[Failure]) -> list[str]:
    """What the first failure's expression has read there, and on the workers where the same one failed."""
    at = [(each.worker, each.operands) for each in failures]
    origin = at[0][1] if at else None
    if origin is None:
        return []
    failed = {worker: each.values for worker, each in at if each is not None and each[:2] == origin[:2]}
    where = f", which failed on {people([*failed])}" if origin.others else ""
    rows = [
        ("" if number else name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}…", workers, text)
        for name in origin.values
        for number, (workers, text) in enumerate(_groups(name, {**failed, **origin.others}))
    ]
    wide, wider = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"  {name:{wide}}  {workers:{wider}} {text}" for name, workers, text in rows]
    more = [f"  and {origin.left_out} more"] if origin.left_out else []
    return [f"values in `{origin.expression}` at {origin.line}{where}:", *lines, *more]


def _groups(name: str, values: Mapping[int, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Workers and what they have, for each description; the rest in one line if there are many."""
    groups = who_has((worker, each[name]) for worker, each in values.items() if name in each)
    shown = list(groups.items())
    if len(shown) > _SHOWN:
        shown = shown[: _SHOWN - 1]
    for text, workers in shown:
        yield ranges(workers), text
    rest = [worker for text in list(groups)[len(shown) :] for worker in groups[text]]
    if rest:
        yield ranges(rest), f"{len(groups) - len(shown)} others"
