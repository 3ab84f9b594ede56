"""Workers compare what they hold in the middle of a cell: ``worker.check(model)``.

::

    check -> Found, what this worker holds -> its digest goes to all members; if all are equal, that is all
          -> else all of it, with its marks -> each member compares -> Divergence, the same on all members
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.sites import site_of
from disco_magic.core.words import plural
from disco_magic.errors import PlaneMismatch, UsageMistake, is_told
from disco_magic.functions.participants import among, several_times
from disco_magic.functions.trees import Trees
from disco_magic.phrases import people, who_has

if TYPE_CHECKING:
    from types import CodeType

    from disco_magic.core.report import CheckReport
    from disco_magic.core.topology import Members, Over
    from disco_magic.functions.agreement import Brought
    from disco_magic.functions.marks import Marks

__tracebackhide__ = is_told

_NOTHING: Final = (
    "check: nothing is marked as equal; say what to compare, `worker.check(model)`, or mark it, "
    "`model = worker.replicated(model)`"
)
_ALIKE: Final = (
    "check: the values differ, but the parts that differ cannot be named: several are written alike, as "
    "those of ints of more than 100 digits are; compare such parts one by one"
)


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
        # Here: a check brings twenty files that few programs need.
        from disco_magic.functions import agreement
        from disco_magic.functions.tolerances import tolerance_of

        over, tolerance = several_times(over), tolerance_of(rtol, atol)
        frame = sys._getframe(1)  # noqa: SLF001 - the caller's frame has the line and the values' names
        agreement.refuse_texts(self, frame, values)
        members, _ = self._over(agreement.VERB, over, in_group=over is not None)
        self.place.settle()  # an interrupt ends this wait, but not one for a copy from the GPU
        mine = agreement.brought_by(self, values, tolerance)
        are_same = self._all_have(mine.digest, members, **among(over))
        if are_same and not mine.found.registers:
            raise UsageMistake(_NOTHING)
        line = frame.f_code, frame.f_lasti
        passed = self.passed.get(line, 0)
        if mine.found.opaque or not are_same:
            if values:
                mine = agreement.with_names(mine, values, frame, self.marks)
            after = f", which has passed {plural(passed, 'time')} before" if passed else ""
            everybody_s = dict.fromkeys(members, mine) if are_same else self._exchanged(mine, members, over)
            report, is_whole = agreement.compared(self, f"{site_of(line)}{after}", everybody_s, values, over)
            agreement.refuse_differences(report)
            if is_whole and not are_same and not _is_explained(report, everybody_s):
                raise UsageMistake(_ALIKE)
        self.passed[line] = passed + 1

    def _exchanged(self, mine: Brought, members: Members, over: Over | None) -> dict[int, Brought]:
        """Return what each member has brought, after digests have differed.

        Raises:
            PlaneMismatch: numbers of values or tolerances differ; on all of them.
        """
        from disco_magic.functions.agreement import VERB, marked_by

        brought = self.allgather_objects(mine, **among(over))
        counts = who_has(zip(members, (each.what for each in brought), strict=True))
        if len(counts) > 1:
            said = ", ".join(f"{people(workers)} brought {what}" for what, workers in counts.items())
            raise PlaneMismatch(f"{VERB}: the members compare different things: {said}")
        if mine.names is None and len({frozenset(each.found.marked) for each in brought}) > 1:
            # What some have marked may exist on the others, too.
            names = frozenset().union(*(each.found.marked for each in brought))
            mine = marked_by(self, mine.tolerance, names)
            brought = self.allgather_objects(mine, **among(over))
        return dict(zip(members, brought, strict=True))


def _is_explained(report: CheckReport, everybody_s: dict[int, Brought]) -> bool:
    """Whether digests may differ though no part does: values are near each other, or workers hold parts."""
    return any(row.near for row in report.rows) or any(each.found.is_split for each in everybody_s.values())
