"""Checks after single cells, ``%%disco --check``, and what they have found in a session's life."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from disco_magic.core.held import marked_anywhere
from disco_magic.core.partings import OF_TASK, lines_of
from disco_magic.core.words import plural
from disco_magic.errors import Divergence, is_told
from disco_magic.functions.surveys import Survey
from disco_magic.session.comparing import all_names, compared
from disco_magic.session.recording import timeline_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disco_magic.core.circles import Workers
    from disco_magic.core.held import Found
    from disco_magic.core.report import CheckReport
    from disco_magic.session.arguments import Limit
    from disco_magic.session.checking import Checks
    from disco_magic.session.session import Session

__tracebackhide__ = is_told

_MOST: Final = 10
_IN_ORDER: Final = (
    "Each line may have got what another one passed: workers have to make the same calls in the same order.\n"
    "If these lines are meant to meet, as in the branches of an `if`, nothing is wrong."
)


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
    """
    bound: set[str] = set()

    def select(found: Mapping[int, Found]) -> Iterable[str]:
        bound.update(*(each.bound for each in found.values()))
        marked = marked_anywhere(found) if values else frozenset()
        return [name for name in all_names(found) if name in bound or name in marked]

    survey = Survey(None, values)
    report = compared(checks, label, survey, workers, select, circles=None, timeout=timeout)
    report = replace(report, rows=checks.known.told(label, report.rows, bound))
    if not report.ok:
        checks.known.note(seq, report.sentence)
    return report


def check_lines(session: Session, seq: int, label: str) -> str:
    """Compare the lines from which workers have called the collectives of a cell that they have ended.

    Calls meet in the order in which workers make them. If they happen to fit, calls in another order give
    wrong numbers, and no error.

    Returns:
        What was compared, in words.

    Raises:
        Divergence: calls from different lines met; without a report.

    Cost: some 20 us per collective and worker; the last 4,096 records of each worker are kept.
    """
    lines = lines_of(timeline_of(session, seq).spans, seq)
    left = f"; those before call {lines.first:,} are no longer known" if lines.first > 1 else ""
    if not lines.apart:
        beside = f"; {plural(lines.messages, 'message')} not compared" if lines.messages else ""
        return f"{plural(lines.compared, 'collective')} met at the same lines{left}{beside}"
    met = f"{lines.met:,} of {plural(lines.compared, 'collective')}"
    tasks = " or asyncio tasks" if any(OF_TASK in each for each in lines.apart) else ""
    sentence = f"calls from different lines{tasks} met in {met}{left}"
    session.known.note(seq, sentence)
    more = len(lines.apart) - _MOST
    raise Divergence(
        "\n".join(
            [
                f"{label}: {sentence}",
                "",
                *(f"  {each}" for each in lines.apart[:_MOST]),
                *([f"  ... and {more:,} more"] if more > 0 else []),
                "",
                _IN_ORDER,
            ]
        )
    )
