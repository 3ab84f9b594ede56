"""Workers compare what they hold in the middle of a cell: ``worker.check(model)``.

::

    check -> Found, what this worker holds -> its digest goes to all members; if all are equal, that is all
          -> else all of it, with its marks -> each member compares -> Divergence, the same on all members
"""

from __future__ import annotations

import sys
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.sites import site_of
from disco_magic.core.circles import Circles
from disco_magic.core.divergence import compare
from disco_magic.core.held import marked_everywhere
from disco_magic.core.registers import register_of
from disco_magic.core.report import CheckReport
from disco_magic.core.topology import axes_of
from disco_magic.core.words import plural
from disco_magic.errors import Divergence, PlaneMismatch, UsageMistake, is_told
from disco_magic.functions.apart import told_apart_by
from disco_magic.functions.execution.written import names_of_arguments, texts_among
from disco_magic.functions.holdings import found_in, parts_named, values_found, with_marks
from disco_magic.functions.participants import among, several_times
from disco_magic.functions.tolerances import Tolerance, near_enough, tolerance_of
from disco_magic.functions.trees import Trees
from disco_magic.phrases import people, who_has
from disco_magic.values.digests import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType

    from disco_magic.core.check_row import CheckRow
    from disco_magic.core.held import Found, Held
    from disco_magic.core.topology import Members, Over
    from disco_magic.functions.marks import Marks

__tracebackhide__ = is_told

_VERB: Final = "check"
_NOTHING: Final = (
    "check: nothing is marked as equal; say what to compare, `worker.check(model)`, or mark it, "
    "`model = worker.replicated(model)`"
)
_ALIKE: Final = (
    "check: the values differ, but the parts that differ cannot be named: several are written alike, as "
    "those of ints of more than 100 digits are; compare such parts one by one"
)
_OF_NOTEBOOKS: Final = "Cell In["
_ADVICE: Final = ("`%disco debug -w I` shows the variables of worker I at that line.",)


class _Brought(NamedTuple):
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


class Agreeing(Trees):
    """Lets a worker check that others hold the same values; mixed into `WorkerContext`."""

    marks: Marks
    passed: dict[tuple[CodeType, int], int]

    def check(self, *values: Any, over: Over | None = None, rtol: float = 0.0, atol: float = 0.0) -> None:
        """Compare values between workers at this point; return if they are equal, bit for bit or nearly.

        All members call it, anywhere in a cell: ``worker.check(model)`` after the optimizer's step finds the
        step after which replicas differ. It compares like `session.check` with ``values=True``.

        Args:
            *values: arrays, tensors, numbers, containers of them, modules and optimizers of PyTorch. What
                registers and their parts hold has to agree as `replicated` has marked it. Without values, all
                registers and parts that are marked are compared.
            over: axes of the mesh along which to compare, or ids of the workers that do, regardless of marks.
                None: all workers of the session.
            rtol: how far a floating-point number, in arrays or by itself, may be from `first`, that of the
                first worker that has to agree: ``atol + rtol * abs(first)``. NaN is near NaN only.
            atol: see `rtol`. All members pass the same of both.

        Raises:
            Divergence: something differs; raised on all members, with the same `report`.
            UsageMistake: a value cannot be compared, or has more than 10,000 parts; no value is given and no
                register is marked; a register's name is passed in place of its value; `over` names no axes,
                or no workers that include this one.
            PlaneMismatch: some members make another call, or pass another number of values or tolerance.

        Cost: one pass over the data, at about 1 GB/s per core, or by a kernel on the GPU; 20 us for each
        part, for which workers take turns; a collective of 16 bytes, or several where something differs.
        With `rtol` or `atol`, arrays that differ are gathered on the first worker, a million elements of each
        at a time. Floating-point numbers in records and in arrays of objects have to be equal.

        Example:
            >>> cell = "for step in range(9): step += 1 + (worker_id == 3 and step > 2); worker.check(step)"
            >>> try:
            ...     session.run(cell)
            ... except disco.CellError as error:
            ...     print(error.failures[1].exception.report["step"].lines()[0])
            ('value', '[0-2]', 'int 4')
        """
        over, tolerance = several_times(over), tolerance_of(rtol, atol)
        frame = sys._getframe(1)  # noqa: SLF001 - the caller's frame has the line and the values' names
        self._refuse_texts(frame, values)
        members, _ = self._over(_VERB, over, in_group=over is not None)
        self.place.settle()  # an interrupt ends this wait, but not one for a copy from the GPU
        if values:
            mine = _Brought(("",) * len(values), values_found(values, self.place.device))
        else:
            mine = self._marked()
        mine = mine._replace(tolerance=tolerance)
        are_same = self._all_have(mine.digest, members, **among(over))
        if are_same and not mine.found.registers:
            raise UsageMistake(_NOTHING)
        line = frame.f_code, frame.f_lasti
        passed = self.passed.get(line, 0)
        if mine.found.opaque or not are_same:
            if values:
                names = tuple(names_of_arguments(frame, _VERB, len(values)))
                mine = mine._replace(names=names, found=with_marks(mine.found, values, names, self.marks))
            after = f", which has passed {plural(passed, 'time')} before" if passed else ""
            everybody_s = dict.fromkeys(members, mine) if are_same else self._exchanged(mine, members, over)
            report, is_whole = self._compared(f"{site_of(line)}{after}", everybody_s, values, over)
            _refuse_differences(report)
            is_explained = any(row.near for row in report.rows) or any(
                each.found.is_split for each in everybody_s.values()
            )
            if is_whole and not are_same and not is_explained:
                raise UsageMistake(_ALIKE)
        self.passed[line] = passed + 1

    def _refuse_texts(self, frame: FrameType, values: tuple[Any, ...]) -> None:
        """Refuse names of axes, and names of registers written as texts, in place of values."""
        for axis in (each for each in values if isinstance(each, str) and each in self.mesh):
            raise UsageMistake(f"{_VERB}: {axis!r} is an axis of the mesh: over={axis!r}")
        held = dict(self.marks.namespace)
        texts = [each for each in values if type(each) is str and parts_named(held, [each])]
        if not texts:
            return
        for text in texts_among(names_of_arguments(frame, _VERB, len(values))):
            if text in texts:
                raise UsageMistake(f"{_VERB} takes values: {text!r} is a text; write worker.check({text})")

    def _marked(self, names: Iterable[str] | None = None) -> _Brought:
        """What this worker holds of the given registers and parts; None: of those that it has marked."""
        marked = self.marks.now()
        labels = tuple(sorted(marked if names is None else names))
        return _Brought(None, found_in(self.marks, marked, labels, own=self.place.device, values=True))

    def _exchanged(self, mine: _Brought, members: Members, over: Over | None) -> dict[int, _Brought]:
        """Return what each member has brought, after digests have differed.

        Raises:
            PlaneMismatch: numbers of values or tolerances differ; on all of them.
        """
        brought = self.allgather_objects(mine, **among(over))
        counts = who_has(zip(members, (each.what for each in brought), strict=True))
        if len(counts) > 1:
            said = ", ".join(f"{people(workers)} brought {what}" for what, workers in counts.items())
            raise PlaneMismatch(f"{_VERB}: the members compare different things: {said}")
        if mine.names is None and len({frozenset(each.found.marked) for each in brought}) > 1:
            # What some have marked may exist on the others, too.
            names = frozenset().union(*(each.found.marked for each in brought))
            mine = self._marked(names)._replace(tolerance=mine.tolerance)
            brought = self.allgather_objects(mine, **among(over))
        return dict(zip(members, brought, strict=True))

    def _compared(
        self, title: str, everybody_s: dict[int, _Brought], values: tuple[Any, ...], over: Over | None
    ) -> tuple[CheckReport, bool]:
        """Return the report, and whether all members agree if it names no difference.

        The report is the same on all members: each has all it needs for it, except elements of arrays.
        """
        members = tuple(everybody_s)
        names = everybody_s[members[0]].names
        found = {worker: each.found for worker, each in everybody_s.items()}
        asked = None if over is None else self._circles(members, over)
        apart: dict[str, Circles] = {}
        if names is None or asked is None:  # values and `over` say it all
            apart = Circles.of_marks(marked_everywhere(found), self.mesh, members, asked)
        labels = dict.fromkeys(label for each in found.values() for label in each.registers)
        rows = compare(
            found,
            asked or Circles((members,)),
            names=labels,
            by_value=labels,
            marks=names is None,
            apart=apart,
        )
        held = (
            dict(self.marks.namespace) if names is None else {str(n): each for n, each in enumerate(values)}
        )
        tolerance = everybody_s[members[0]].tolerance
        if tolerance:
            rows = near_enough(self, rows, held, tolerance, over)
        rows = told_apart_by(self, rows, held, over)
        rows = rows if names is None else tuple(_named(rows, names))
        return CheckReport(title, members, rows, str(tolerance)), names is not None and not apart

    def _circles(self, members: Members, over: Over) -> Circles:
        """The members as one circle, or as circles along the axes of `over`."""
        axes = [over] if isinstance(over, str) else [each for each in over if isinstance(each, str)]
        return Circles.along(self.mesh, axes_of(axes), members) if axes else Circles((members,))


def _refuse_differences(report: CheckReport) -> None:
    """Raise Divergence if something differs, UsageMistake if something could not be compared."""
    if not report.ok:
        advice = _ADVICE if report.title.startswith(_OF_NOTEBOOKS) else ()
        raise Divergence(report.told(advice), report)
    for row in report.rows:
        for why in (held.opaque for held in row.cells.values() if held is not None and held.opaque):
            raise UsageMistake(f"{_VERB}: {row.name} cannot be compared: {why}")


def _named(rows: Iterable[CheckRow], names: tuple[str, ...]) -> Iterator[CheckRow]:
    """Yield the rows with names in place of numbers."""
    for row in rows:
        number = register_of(row.name)
        name = names[int(number)]
        # `unseen` names a whole value, `0`, even in the row of one of its parts.
        unseen = f"{name}{row.unseen[len(number) :]}" if row.unseen else ""
        yield replace(row, name=f"{name}{row.name[len(number) :]}", unseen=unseen)
