"""What the members of a check bring, and the report on where that differs: the same on all of them."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.source_text import names_of_arguments, texts_among
from disco_magic.core.circles import Circles
from disco_magic.core.divergence import compare
from disco_magic.core.held import marked_everywhere
from disco_magic.core.registers import register_of
from disco_magic.core.report import CheckReport
from disco_magic.core.topology import axes_of
from disco_magic.core.words import plural
from disco_magic.errors import Divergence, UsageMistake, is_told
from disco_magic.functions.apart import told_apart_by
from disco_magic.functions.holdings import found_in, parts_named, values_found, with_marks
from disco_magic.functions.tolerances import Tolerance, near_enough
from disco_magic.values.digests import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.held import Found, Held
    from disco_magic.core.topology import Members, Over
    from disco_magic.functions.agreeing import Agreeing
    from disco_magic.functions.marks import Marks

__tracebackhide__ = is_told

VERB: Final = "check"
_OF_NOTEBOOKS: Final = "Cell In["
_ADVICE: Final = ("`%disco debug -w I` shows the variables of worker I at that line.",)


class Brought(NamedTuple):
    """What one member contributes to a check.

    Attributes:
        names: how the values are written in the call; None: what is marked is compared.
        tolerance: how far the values may be apart.
        found: what the member holds; the values are numbered, ``"0"``, ``"0['w']"``.
    """

    names: tuple[str, ...] | None
    found: Found
    tolerance: Tolerance = Tolerance()

    @property
    def what(self) -> str:
        """What is compared, in words."""
        said = "what is marked" if self.names is None else plural(len(self.names), "value")
        return f"{said} within {self.tolerance}" if self.tolerance else said

    @property
    def digest(self) -> bytes:
        """Digest of all but the values' names and marks, independent of the order in dicts."""
        facts = self.what, {label: _facts(rows) for label, rows in self.found.registers.items()}
        return digest(repr(facts).encode("utf-8", "surrogatepass"))


def _facts(rows: Iterable[tuple[str, Held]]) -> list[tuple[str, Held]]:
    """The rows in an order that is the same everywhere, without texts: equal ranges have different ones."""
    told = [(path, replace(held, text="") if held.text else held) for path, held in rows]
    return sorted(told, key=itemgetter(0))


def refuse_texts(me: Agreeing, frame: FrameType, values: tuple[Any, ...]) -> None:
    """Refuse names of axes, and names of registers written as texts, in place of values."""
    for axis in (each for each in values if isinstance(each, str) and each in me.mesh):
        raise UsageMistake(f"{VERB}: {axis!r} is an axis of the mesh: over={axis!r}")
    held = dict(me.marks.namespace)
    texts = [each for each in values if type(each) is str and _is_named(held, each)]
    if not texts:
        return
    for text in texts_among(names_of_arguments(frame, VERB, len(values))):
        if text in texts:
            raise UsageMistake(f"{VERB} takes values: {text!r} is a text; write worker.check({text})")


def _is_named(held: Mapping[str, Any], text: str) -> bool:
    try:
        return bool(parts_named(held, [text], indexed=True))
    except UsageMistake:  # an index that the array does not have
        return True


def brought_by(me: Agreeing, values: tuple[Any, ...], tolerance: Tolerance) -> Brought:
    """What this worker brings to a check of these values; without values, of what it has marked."""
    if not values:
        return marked_by(me, tolerance)
    return Brought(("",) * len(values), values_found(values, me.place.device), tolerance)


def marked_by(me: Agreeing, tolerance: Tolerance, names: Iterable[str] | None = None) -> Brought:
    """What this worker holds of the given registers and parts; None: of those that it has marked."""
    marked = me.marks.now()
    labels = tuple(sorted(marked if names is None else names))
    found = found_in(me.marks, marked, labels, own=me.place.device, values=True)
    return Brought(None, found, tolerance)


def with_names(mine: Brought, values: tuple[Any, ...], frame: FrameType, marks: Marks) -> Brought:
    """`mine` of these values, with how they are written in the call of `frame`, and their marks."""
    names = tuple(names_of_arguments(frame, VERB, len(values)))
    return mine._replace(names=names, found=with_marks(mine.found, values, names, marks))


def compared(
    me: Agreeing, title: str, everybody_s: dict[int, Brought], values: tuple[Any, ...], over: Over | None
) -> tuple[CheckReport, bool]:
    """Return the report, and whether all members agree if it names no difference.

    The report is the same on all members: each has all it needs for it, except elements of arrays.
    """
    members = tuple(everybody_s)
    names = everybody_s[members[0]].names
    found = {worker: each.found for worker, each in everybody_s.items()}
    asked = None if over is None else _circles(me, members, over)
    apart: dict[str, Circles] = {}
    if names is None or asked is None:  # values and `over` say it all
        apart = Circles.of_marks(marked_everywhere(found), me.mesh, members, asked)
    labels = dict.fromkeys(label for each in found.values() for label in each.registers)
    rows = compare(
        found,
        asked or Circles((members,)),
        names=labels,
        by_value=labels,
        marks=names is None,
        apart=apart,
    )
    held = dict(me.marks.namespace) if names is None else {str(n): each for n, each in enumerate(values)}
    tolerance = everybody_s[members[0]].tolerance
    if tolerance:
        rows = near_enough(me, rows, held, tolerance, over)
    rows = told_apart_by(me, rows, held, over)
    rows = rows if names is None else tuple(_named(rows, names))
    return CheckReport(title, members, rows, str(tolerance)), names is not None and not apart


def _circles(me: Agreeing, members: Members, over: Over) -> Circles:
    """The members as one circle, or as circles along the axes of `over`."""
    axes = [over] if isinstance(over, str) else [each for each in over if isinstance(each, str)]
    return Circles.along(me.mesh, axes_of(axes), members) if axes else Circles((members,))


def refuse_differences(report: CheckReport) -> None:
    """Raise Divergence if something differs, UsageMistake if something could not be compared."""
    if not report.ok:
        advice = _ADVICE if report.title.startswith(_OF_NOTEBOOKS) else ()
        raise Divergence(report.told(advice), report)
    for row in report.rows:
        for why in (held.opaque for held in row.cells.values() if held is not None and held.opaque):
            raise UsageMistake(f"{VERB}: {row.name} cannot be compared: {why}")


def _named(rows: Iterable[CheckRow], names: tuple[str, ...]) -> Iterator[CheckRow]:
    """Yield the rows with names in place of numbers."""
    for row in rows:
        number = register_of(row.name)
        name = names[int(number)]
        # `unseen` names a whole value, `0`, even in the row of one of its parts.
        unseen = f"{name}{row.unseen[len(number) :]}" if row.unseen else ""
        yield replace(row, name=f"{name}{row.name[len(number) :]}", unseen=unseen)
