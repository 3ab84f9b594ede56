"""Divergence checks after single cells, ``%%disco --check``, and what they have found in a session's life."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from disco_magic.core.held import marked_anywhere
from disco_magic.errors import is_told
from disco_magic.functions.surveys import Survey
from disco_magic.session.checking import all_names
from disco_magic.session.known import Known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disco_magic.core.circles import Workers
    from disco_magic.core.held import Found
    from disco_magic.core.report import CheckReport
    from disco_magic.session.arguments import Limit
    from disco_magic.session.checking import Checks

__tracebackhide__ = is_told


def check_cell(
    checks: Checks,
    seq: int,
    label: str,
    workers: Workers,
    *,
    values: bool,
    timeout: float | Limit | None = None,
) -> CheckReport:
    """Compare what the watched cell that the workers have just ended has bound on any of them.

    With `values` also all registers marked as replicated, by value: it may have changed them in place.

    Args:
        checks: the session.
        seq: the cell's number.
        label: the cell in words.
        workers: those that ran it.
        values: whether values are compared, too.
        timeout: in seconds; None: the session's.

    Raises:
        WorkerError, SyncTimeout: as `Checks.check`.
    """
    bound: set[str] = set()

    def select(found: Mapping[int, Found]) -> Iterable[str]:
        bound.update(*(each.bound for each in found.values()))
        marked = marked_anywhere(found) if values else frozenset()
        return [name for name in all_names(found) if name in bound or name in marked]

    report = checks.compared(label, Survey(None, values), workers, select, circles=None, timeout=timeout)
    known = _known(checks)
    report = replace(report, rows=known.told(label, report.rows, bound))
    if not report.ok:
        known.note(seq, report.sentence)
    return report


def diverged(checks: Checks) -> Mapping[int, str]:
    """The numbers of cells after which registers differed, with what did, in a sentence."""
    return _known(checks).diverged


def _known(checks: Checks) -> Known:
    life, known = checks.known
    if life is not checks.life:
        known = Known()
        checks.known = checks.life, known
    return known
