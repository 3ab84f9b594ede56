"""A check's report: what differs in one sentence, a table, and advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, overload

from disco_magic.core.markup import MARK
from disco_magic.core.registers import nearest, register_of
from disco_magic.core.words import aligned
from disco_magic.errors import Divergence, is_told
from disco_magic.phrases import people, ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.circles import Workers

__tracebackhide__ = is_told

_MOST_NAMES: Final = 6
_MOST_VALUES: Final = 3  # in a sentence above a table that has them all
_MOST_ROWS: Final = 20
_MOST_LINES: Final = 60
_UNCHANGED: Final = "No register was changed: session[name].get_all() has the values."
_ADVICE_ON_NAMES: Final = (
    "Give what is meant to differ a name that begins with an underscore: such names are not compared."
)
_ADVICE_ON_MARKS: Final = (
    "Mark a register on all workers that have it, `w = worker.replicated(w)`, or on none: `del` drops marks.",
)
_ADVICE_ON_MARKED: Final = "`del` drops the mark of a register that need not be equal."


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport:
    """Whether registers agree; `session.check` returns it. True if they do; its repr is a table.

    Also False if a value that was to be compared could not be, because then it is unknown whether it agrees.

    Iterating yields its rows: one per register, or instead one for each of its parts that differ,
    ``params['w']``. Indexing returns one of them, by name or by position, ``report["w"]``, ``report[0]``; a
    slice returns several. ``"w" in report`` says whether there is a row of that name.

    Attributes:
        title: what was checked, ``"Disco session 1"`` or ``"Cell In[7]"``.
        workers: ids of the workers that were compared.
        rows: see `CheckRow`.
        within: how far apart numbers were allowed to be, ``"rtol=1e-05, atol=0"``; "": not at all.
        named: whether the caller has said which registers to compare; else names and marks decided that.
        along: axes of the mesh along which nothing differs, if something does between all.
        asked: the registers and parts that the caller named.
    """

    title: str
    workers: Workers
    rows: tuple[CheckRow, ...]
    within: str = ""
    named: bool = False
    along: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing that could be compared differs."""
        return not self.differing

    @property
    def uncompared(self) -> tuple[CheckRow, ...]:
        """The rows whose values were to be compared and could not be; each says why."""
        return tuple(row for row in self.rows if row.opaque)

    @property
    def differing(self) -> tuple[CheckRow, ...]:
        """The rows that differ."""
        return tuple(row for row in self.rows if row.differs)

    @property
    def shown(self) -> tuple[CheckRow, ...]:
        """The rows in the order of the table: what differs comes first."""
        return (*self.differing, *(row for row in self.rows if not row.differs))

    def __bool__(self) -> bool:
        return self.ok and not self.uncompared

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[CheckRow]:
        return iter(self.rows)

    def __contains__(self, name: object) -> bool:
        return any(row.name == name or row is name for row in self.rows)

    @overload
    def __getitem__(self, which: str | int) -> CheckRow: ...

    @overload
    def __getitem__(self, which: slice) -> tuple[CheckRow, ...]: ...

    def __getitem__(self, which: str | int | slice) -> CheckRow | tuple[CheckRow, ...]:
        if not isinstance(which, str):
            return self.rows[which]
        for row in self.rows:
            if row.name == which:
                return row
        raise KeyError(f"no row {which!r}; there are: {_list([row.name for row in self.rows])}")

    def raise_if_differing(self) -> None:
        """Raise `Divergence` if anything differs; the message contains the table of what does."""
        if not self.ok:
            raise Divergence(self.message, self)

    @property
    def message(self) -> str:
        """What differs in one sentence, the table of all that differs, and what to do."""
        if self.named:
            return self.told((_UNCHANGED,))
        return self.told((_UNCHANGED, _ADVICE_ON_NAMES), (_ADVICE_ON_MARKED,))

    @property
    def sentence(self) -> str:
        """What differs in one sentence: the first of it, and how much more; there has to be something."""
        first, *others = self.differing
        also = f", and {len(others)} more differ{'s' * (len(others) == 1)}" if others else ""
        return f"{_sentence(first)}{also}"

    def told(self, advice: Sequence[str], on_values: Sequence[str] = ()) -> str:
        """`message` with this advice: `advice` unless only marks differ, and `on_values` if values differ."""
        differing = self.differing
        aspects = {aspect for row in differing for aspect in row.aspects}
        to_do = [
            f"Along {axis} nothing differs: over={axis!r} (%disco check --over {axis}) compares that alone."
            for axis in self.along
        ]
        to_do += [] if aspects == {"mark"} else [*advice]
        to_do += _ADVICE_ON_MARKS if "mark" in aspects else ()
        to_do += (self._equal, *on_values) if "value" in aspects else ()
        left = len(differing) - _MOST_ROWS
        more = [f"... and {left:,} more: the error's `report` has all of them"] if left > 0 else []
        lines = table(differing[:_MOST_ROWS])
        if len(lines) > _MOST_LINES:
            more.insert(0, f"... and {len(lines) - _MOST_LINES:,} more lines")
        # A reader of the differences might take everything else for equal.
        opaque = [f"values not compared: {_list(self._opaque)}"] if self._opaque else []
        unseen = [*opaque, *([f"not compared: {_list(self._unseen)}"] if self._unseen else [])]
        head = f"{self.title}: {self.sentence}"
        return "\n".join([head, "", *lines[:_MOST_LINES], *more, *unseen, "", *to_do])

    @property
    def _near_in_part(self) -> list[str]:
        """What was compared as a whole, and of which some parts are near and everything else is equal."""
        wholes = {row.name: nearest(row.name, self.asked) or register_of(row.name) for row in self.rows}
        differing = {wholes[row.name] for row in self.differing}
        parts = [wholes[row.name] for row in self.rows if row.near and row.name != wholes[row.name]]
        return [name for name in dict.fromkeys(parts) if name not in differing]

    @property
    def _equal(self) -> str:
        """What counts as equal, in a sentence."""
        if not self.within:
            return "Equal means bit for bit: 0.0 is not -0.0."
        tolerance = f"within {self.within} of the first worker's, of numbers of floating point"
        return f"Equal means {tolerance}; else bit for bit."

    @property
    def _opaque(self) -> list[str]:
        """Rows that could not be compared by value and do not differ otherwise, with the reason."""
        return [f"{row.name} ({row.opaque})" for row in self.rows if row.opaque and not row.differs]

    @property
    def _unseen(self) -> list[str]:
        return [row.unseen for row in self.rows if row.unseen]

    @property
    def summary(self) -> str:
        """What agrees and what does not, in one line: ``[0-3] agree on: w; agree on type and shape of: x``.

        The workers are the subject: each name is compared between them, no name with another one.
        """
        if not self.rows:
            return f"{ranges(self.workers)} no registers to compare"
        agreeing = [row for row in self.rows if not (row.differs or row.opaque or row.is_apart)]
        overs = dict.fromkeys(row.over for row in agreeing)
        agree = f"agree{'s' * (len(self.workers) == 1)}"
        named = {
            "differ in": [row.name for row in self.differing],
            **{f"{agree}{over} on": _names(agreeing, over, by_value=True) for over in overs},
            f"{agree} within {self.within} on": [row.name for row in agreeing if row.near],
            f"otherwise {agree} on": self._near_in_part,
            **{
                f"{agree}{over} on type and shape of": _names(agreeing, over, by_value=False)
                for over in overs
            },
            "split, a different part on each": [row.name for row in self.rows if row.is_apart],
            "values not compared": self._opaque,
            "not compared": self._unseen,
        }
        return f"{ranges(self.workers)} {'; '.join(f'{what}: {_list(n)}' for what, n in named.items() if n)}"

    def __repr__(self) -> str:
        return "\n".join([f"{self.title}: {self.summary}", *table(self.shown)])


def table(rows: Iterable[CheckRow]) -> list[str]:
    """A line per value in a row: the row's name, how it differs, on which workers, and the value."""
    cells = [
        (f"{MARK if row.differs else ' '} {row.name}" if not i else "", *line)
        for row in rows
        for i, line in enumerate(row.lines())
    ]
    return aligned(cells, words=4)


def _sentence(row: CheckRow) -> str:
    where, groups = row.splits()[0]
    place = f" {'at' if '=' in where else 'in'} {where}" if where else ""
    if row.aspects == ("mark",):
        marks = who_has((worker, row.mark_of(worker)) for workers, _ in groups for worker in workers)
        only = " only" if marks.pop("", None) else ""
        told = ", ".join(f"{mark} on {people(sorted(who))}" for mark, who in marks.items() if mark)
        return f"'{row.name}' is marked {told}{only}{place}"
    parts = [f"{text} on {people(workers)}" for workers, text in groups[:_MOST_VALUES]]
    if others := [worker for workers, _ in groups[_MOST_VALUES:] for worker in workers]:
        parts.append(f"others on {people(sorted(others))}")
    told = ", ".join(parts)
    if row.before:
        return f"no new differences; '{row.name}' still differs{place} as it did after {row.before}: {told}"
    return f"'{row.name}' differs{place}: {told}"


def _names(rows: Iterable[CheckRow], over: str, *, by_value: bool) -> list[str]:
    return [row.name for row in rows if row.over == over and row.by_value is by_value and not row.near]


def _list(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
