"""The faces of an inspector that draw lines: a register's numbers, such as losses, or its statistics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from disco_magic.core.words import plural
from disco_magic.notebook.inspector.reasons import or_reason, present, sentence
from disco_magic.notebook.inspector.watch import PLAIN
from disco_magic.notebook.pictures.charts import lines_svg
from disco_magic.notebook.pictures.tiles import figure
from disco_magic.phrases import ranges
from disco_magic.values.series import length_of_series, series_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from disco_magic.core.snapshot import Row
    from disco_magic.notebook.inspector.faces import Choice
    from disco_magic.notebook.inspector.watch import Watch
    from disco_magic.session.session import Session

_MOST: Final = 400
"""Points of a line: one per pixel. Of more numbers, the least and the largest of as many as share a pixel."""


def lines(session: Session, row: Row, choice: Choice, _: Watch) -> str:
    """The numbers of a list, or of an array with one axis, as a line per worker."""
    if all(info.type in PLAIN for info in row.present):
        return sentence(f"{row.name} is a single number; Watch, below, notes it after every cell")
    workers = range(len(row.cells)) if choice.worker is None else (choice.worker,)
    look = partial(session.examine, row.name, workers=tuple(workers))
    lengths = [each for each in look(or_reason(length_of_series)) if isinstance(each, int)]
    longest = max(lengths, default=0)
    step = 1 if longest <= _MOST else 2 * -(-longest // _MOST)
    found = dict(zip(workers, look(or_reason(series_of), step), strict=True))
    drawn = {worker: points for worker, points in found.items() if isinstance(points, tuple) and points}
    remarks = _reasons({worker: each for worker, each in found.items() if worker not in drawn})
    if not drawn:
        return figure(row.name, "", remarks)
    svg = lines_svg({worker: [(str(at), y) for at, y in points] for worker, points in drawn.items()})
    counts = (
        plural(longest, "number") if min(lengths) == longest else f"{min(lengths):,} to {longest:,} numbers"
    )
    measure = next((f"{info.measure}of " for info in row.present if info.measure), "")
    thinned = "" if step == 1 else f", of each {step:,} the least and the largest"
    return figure(row.name, f"<div>{svg}</div>", [f"{measure}{counts}{thinned}", *remarks])


def over_cells(_: Session, row: Row, choice: Choice, watch: Watch) -> str:
    """Statistics after every cell since the register was watched."""
    if row.name not in watch.names:
        return sentence(f"{row.name} is not watched; Watch, below, notes its statistics after every cell")
    lines = watch.lines(row.name, choice.measure)
    if not any(lines.values()):
        return sentence(f"{row.name} is watched; run a cell to see the first point")
    if all(number is None for points in lines.values() for _, number in points):
        return sentence(f"{row.name} is watched, but of what it has been so far there is no {choice.measure}")
    return lines_svg(lines, title=f"{choice.measure} of {row.name} after each cell")


def _reasons(missing: Mapping[int, Any]) -> list[str]:
    """``on [1,3]: no value``, once for all workers for which it holds."""
    workers: dict[str, list[int]] = {}
    for worker, each in missing.items():
        found = present(each)
        reason = found if isinstance(found, str) else "no numbers"
        workers.setdefault(reason, []).append(worker)
    return [f"on {ranges(who)}: {reason}" for reason, who in workers.items()]
