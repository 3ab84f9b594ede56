"""Workers that compare what they hold in the middle of a cell: ``worker.check(model)``.

::

    check -> found, what this worker holds -> its digest to all members; where all are one, that is all
          -> else found itself to all -> compare, on each of them -> Divergence, the same on all
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from disco_magic.core.circles import Circles
from disco_magic.core.divergence import compare
from disco_magic.core.held import Found, marked_everywhere
from disco_magic.core.registers import is_within, register_of
from disco_magic.core.report import CheckReport
from disco_magic.core.topology import axes_of
from disco_magic.errors import Divergence, PlaneMismatch, UsageMistake, is_told
from disco_magic.functions.divergence import survey
from disco_magic.functions.fingerprint import digest
from disco_magic.functions.gaps import elements_compared, gap
from disco_magic.functions.holdings import found_in, marks_of
from disco_magic.functions.lookalikes import numbers_apart, numbers_in
from disco_magic.functions.parts import NOTHING, part_at, parts_at
from disco_magic.functions.sites import site_of
from disco_magic.functions.trees import Trees
from disco_magic.functions.written import names_of_arguments
from disco_magic.phrases import people, ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disco_magic.core.circles import Workers
    from disco_magic.core.divergence import CheckRow
    from disco_magic.core.topology import Members, Over
    from disco_magic.functions.marks import Marks

__tracebackhide__ = is_told

_VERB: Final = "check"
# Registers and parts of which is said how far they are apart.
_TOLD: Final = 8
_ADVICE: Final = ("`%disco debug -w I` shows the variables of worker I at that line.",)
_NOTHING: Final = (
    "check: nothing is marked as equal; say what to compare, `worker.check(model)`, or mark it, "
    "`model = worker.replicated(model)`"
)
_ADVICE_ON_VALUES: Final = ("Equal means bit for bit: 0.0 is not -0.0.",)


class _Brought(NamedTuple):
    """What one member has brought.

    Attributes:
        names: how the values are written in its call; None: it compares what is marked.
        found: what it holds; the values under their numbers, ``"0"``, ``"0['w']"``.
    """

    names: tuple[str, ...] | None
    found: Found

    @property
    def facts(self) -> object:
        """What says everything, as text; names may differ from line to line."""
        found, count = self.found, None if self.names is None else len(self.names)
        return (
            count,
            sorted(found.marked.items()),
            {key: tuple(rows) for key, rows in found.registers.items()},
        )


class Agreeing(Trees):
    """What a worker can do to see that others hold the same; mixed into `WorkerContext`."""

    marks: Marks

    def check(self, *values: Any, over: Over | None = None) -> Any:
        """Compare values between workers, here and now; go on if they are equal, bit for bit.

        All members call it, in the middle of a cell, a loop or a function: ``worker.check(model)`` behind
        the optimizer's step finds the step after which replicas differ. What is compared, and how, is that
        of `session.check` with ``values=True``.

        Args:
            *values: arrays, tensors, numbers, containers of them, modules and optimizers of PyTorch.
                Registers, and parts of them, that `replicated` has marked over axes have to agree along these
                only. None at all: all registers and parts that are marked.
            over: axes of the mesh along which to compare, or ids of the workers that do, whatever is marked.
                None: all workers of the session.

        Returns:
            The value; several as a tuple; None without values.

        Raises:
            Divergence: something differs; on all members, with the same `report` of it.
            UsageMistake: a value of a kind that cannot be compared; no value, and nothing is marked; `over`
                names no axes, or no workers with this one among them.
            PlaneMismatch: some members make another call, or bring another number of values.

        Cost: one pass over the data at about 1 GB/s per core, 10 us for each part, and a collective of 16
        bytes; where something differs, or is marked over axes, some more.

        Example:
            >>> session.run("worker.check(np.zeros(3)).sum()")
            [0-3] 0.0
            >>> cell = "for step in range(9): step += 1 + (worker_id == 3 and step > 2); worker.check(step)"
            >>> try:
            ...     session.run(cell)
            ... except disco.CellError as error:
            ...     print(error.failures[1].exception.report["step"].lines()[0])
            ('value', '[0-2]', 'int 4')
        """
        if over is not None and not isinstance(over, str | list | tuple):
            over = [*over]  # it names members in several calls
        for axis in (each for each in values if isinstance(each, str) and each in self.mesh):
            raise UsageMistake(f"{_VERB}: {axis!r} is an axis of the mesh: over={axis!r}")
        members, _ = self._over(_VERB, over, in_group=over is not None)
        frame = sys._getframe(1)  # noqa: SLF001 - who calls says how the values are called
        names = tuple(names_of_arguments(frame, len(values)))
        mine = self._brought(values, names)
        everybody_s = self._exchanged(mine, members, over)
        if everybody_s is None:
            _refuse(_opaque(mine))
        else:
            title = str(site_of((frame.f_code, frame.f_lasti)))
            report = self._compared(title, everybody_s, values, over)
            if not report.ok:
                raise Divergence(report.told(_ADVICE, _ADVICE_ON_VALUES), report)
            _refuse({row.name: row.opaque for row in report.uncompared})
        return values if len(values) > 1 else values[0] if values else None

    def _brought(self, values: tuple[Any, ...], names: tuple[str, ...]) -> _Brought:
        """What this worker has to compare: all marked registers, or what each value is, under its number."""
        self.place.finish()  # an interrupt ends this wait; one for a copy from the GPU it would not
        own, marks = self.place.device, self.marks
        marks.settle()
        if not values:
            return self._marked(marks.names)
        marked: dict[str, tuple[str, ...]] = {}
        registers = {}
        for number, (value, name) in enumerate(zip(values, names, strict=True)):
            marks_of_it = marks_of(marks, value, name)
            for rest, part in {"": value, **parts_at(value, marks_of_it)}.items():
                label = f"{number}{rest}"
                registers[label] = survey(label, part, values=True, own=own)
            marked |= {f"{number}{rest}": axes for rest, axes in marks_of_it.items()}
        return _Brought(names, Found(frozenset(), marked, registers))

    def _marked(self, names: Iterable[str]) -> _Brought:
        """What is in these registers and parts."""
        labels = tuple(sorted(names))
        found = found_in(self.marks, self.place.device, frozenset(), labels, values=True)
        return _Brought(None, found)

    def _exchanged(self, mine: _Brought, members: Members, over: Over | None) -> dict[int, _Brought] | None:
        """What each member has brought; None if all have brought the same: a few bytes of each tell.

        Raises:
            UsageMistake: no value, and nothing is marked.
            PlaneMismatch: other members have brought another number of values. Either on all of them.
        """
        taking_part: dict[str, Any] = {"in_group": over is not None, "over": over}
        own = digest(repr(mine.facts).encode("utf-8", "surrogatepass"))
        digests = self.allgather(np.frombuffer(own, np.uint8), **taking_part).tobytes()
        is_same = digests == own * len(members)
        everybody_s = [mine] if is_same else self.allgather_objects(mine, **taking_part)
        if len({each.names is None and frozenset(each.found.marked) for each in everybody_s}) > 1:
            # What some have marked the others may have as well.
            names = frozenset().union(*(each.found.marked for each in everybody_s))
            everybody_s = self.allgather_objects(
                self._marked(names) if mine.names is None else mine, **taking_part
            )
        counts = who_has(
            (worker, "what is marked" if each.names is None else _so_many(len(each.names)))
            for worker, each in zip(members, everybody_s, strict=not is_same)
        )
        if len(counts) > 1:
            said = ", ".join(f"{people(workers)} brought {what}" for what, workers in counts.items())
            raise PlaneMismatch(f"{_VERB}: the members compare different things: {said}")
        if mine.names is None and not any(each.found.registers for each in everybody_s):
            raise UsageMistake(_NOTHING)
        return None if is_same else dict(zip(members, everybody_s, strict=True))

    def _compared(
        self, title: str, everybody_s: dict[int, _Brought], values: tuple[Any, ...], over: Over | None
    ) -> CheckReport:
        """The report, the same on all members; each has what it needs for it but elements of arrays."""
        members = tuple(everybody_s)
        names = everybody_s[members[0]].names
        found = {worker: _named(each.found, names) for worker, each in everybody_s.items()}
        labels = dict.fromkeys(label for each in found.values() for label in each.registers)
        asked = None
        if over is not None:
            axes = [over] if isinstance(over, str) else [each for each in over if isinstance(each, str)]
            asked = Circles.along(self.mesh, axes_of(axes), members) if axes else Circles((members,))
        apart: dict[str, Circles] = {}
        if names is None or asked is None:  # who names both knows what is to be compared
            marked = marked_everywhere(found)
            apart = Circles.of_marks(marked, self.mesh, members, asked)
        rows = compare(
            found,
            asked or Circles((members,)),
            names=labels,
            by_value=labels,
            marks=names is None,
            apart=apart,
        )
        held = dict(self.marks.namespace) if names is None else dict(zip(names, values, strict=True))
        return CheckReport(title, members, self._with_gaps(rows, held, over))

    def _with_gaps(
        self, rows: tuple[CheckRow, ...], held: Mapping[str, Any], over: Over | None
    ) -> tuple[CheckRow, ...]:
        """The rows, and how far apart the first few are whose values alone differ; all members call it."""
        said: dict[str, str] = {}
        for row in islice((row for row in rows if row.aspects == ("value",)), _TOLD):
            place, circle = row.first_differing
            if self.id in circle:
                part = _part(held, row.name)
                of_array = next(filter(None, row.cells.values())).dtype is not None
                gap = self._gap(row, circle, part) if of_array else self._why(row, circle, part)
                if gap:
                    said[row.name] = f"{place}: {gap}" if place else gap
        for each in self.allgather_objects(said, in_group=over is not None, over=over):
            said |= each
        return tuple(replace(row, gap=said.get(row.name, "")) for row in rows)

    def _gap(self, row: CheckRow, circle: Workers, array: Any) -> str:
        """How far the arrays of a circle are apart, on its first worker; "" on the others, or if unknown."""
        shape = next(filter(None, row.cells.values())).shape or ()
        if math.prod(shape) < 2:  # its value stands there
            return ""
        elements = elements_compared(array)
        raw = np.ascontiguousarray(() if elements is None else elements).reshape(-1).view(np.uint8)
        sizes = self.allgather(np.array([raw.size]), over=circle)
        if elements is None or len(set(sizes.tolist())) > 1:
            return ""
        everybody_s = self.gather(raw, over=circle)
        if everybody_s is None:
            return ""
        samples = everybody_s.reshape(len(circle), -1).view(elements.dtype)
        return gap(list(samples), shape)

    def _why(self, row: CheckRow, circle: Workers, container: Any) -> str:
        """Where containers of numbers differ first: of the first worker's that does; as `_gap`."""
        first = circle[0]
        other = next(worker for worker in circle if row.cells[worker] != row.cells[first])
        if self.id not in (first, other):
            return ""
        mine = numbers_in(container)
        own, others = self.allgather_objects(mine, over=[first, other])
        why = numbers_apart(own, others, f"worker {first}'s")
        return f"{ranges((other,))} {why}" if why else ""


def _so_many(values: int) -> str:
    return f"{values:,} value{'s' * (values != 1)}"


def _refuse(opaque: Mapping[str, str]) -> None:
    for name, why in opaque.items():
        raise UsageMistake(f"{_VERB}: {name} cannot be compared: {why}")


def _opaque(mine: _Brought) -> dict[str, str]:
    """What cannot be compared, and why."""
    found = _named(mine.found, mine.names)
    return {path: held.opaque for rows in found.registers.values() for path, held in rows if held.opaque}


def _named(found: Found, names: tuple[str, ...] | None) -> Found:
    """With values under their names, not their numbers."""
    if names is None:
        return found

    def named(path: str) -> str:
        number = register_of(path)
        return f"{names[int(number)]}{path[len(number) :]}"

    registers = {
        named(number): [(named(path), held) for path, held in rows]
        for number, rows in found.registers.items()
    }
    return replace(
        found, marked={named(path): axes for path, axes in found.marked.items()}, registers=registers
    )


def _part(held: Mapping[str, Any], name: str) -> Any:
    """What is called so, or the part of it, `NOTHING` if there is none."""
    around = max((each for each in held if is_within(name, each)), key=len, default=None)
    return NOTHING if around is None else part_at(held[around], name[len(around) :])
