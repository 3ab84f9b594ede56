"""Where workers diverged before a command failed because one made more or fewer collective calls.

Calls are matched in order. An extra call is matched with the others' next call if both look alike: the
numbers are wrong from there on, and only the last call has no counterpart. The lines from which the calls
were made show where that began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.phrases import people, who_has

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disco_magic.core.timeline import Span

# Of one command and the same members: number of the call -> worker -> its span.
Calls = dict[int, dict[int, "Span"]]


def parting(spans: Iterable[Span], seq: int) -> str:
    """How many calls each worker made in a command that failed, and the first made from different lines.

    Args:
        spans: of a timeline, in the order in which they began.
        seq: number of the command.

    Returns:
        A sentence; "" if neither numbers nor lines differ before the last call that any worker made.
    """
    circles: dict[tuple[int, ...], Calls] = {}
    for span in spans:
        if span.kind == "collective" and span.meeting is not None and span.meeting[1] == seq:
            members, _, number = span.meeting
            circles.setdefault(members, {}).setdefault(number, {})[span.worker] = span
    told = (_told(members, calls) for members, calls in circles.items())
    return next(filter(None, told), "")


def _told(members: tuple[int, ...], calls: Calls) -> str:
    made = {
        worker: max((n for n, there in calls.items() if worker in there), default=0) for worker in members
    }
    differ = len(set(made.values())) > 1
    apart = next((n for n in sorted(calls)[:-1] if _is_parting(calls, n)), None)
    if apart is None and not (differ and min(made.values())):  # a worker without calls is already reported
        return ""
    said = []
    if differ:
        said.append(_by_text({worker: f"made {count:,}" for worker, count in made.items()}))
    if apart is not None:
        lines = {worker: f"at {span.site}" for worker, span in calls[apart].items()}
        said.append(f"call {apart:,} met at different lines: {_by_text(lines)}")
    return f"collective calls: {'; '.join(said)}"


def _is_parting(calls: Calls, number: int) -> bool:
    """Whether one worker goes on from there as another one does a call later.

    A root that calls from a line of its own meets the others again at the next call.
    """
    sites = {worker: span.site for worker, span in calls[number].items()}
    first = {site: worker for worker, site in reversed(sites.items())}
    one, *others = first.values()
    return any(_follows(calls, one, other, number) or _follows(calls, other, one, number) for other in others)


def _follows(calls: Calls, one: int, other: int, number: int) -> bool:
    """Whether the calls of `one` after that number equal those of `other` from it on, as far as both go."""
    n = number
    while (mine := calls.get(n + 1, {}).get(one)) and (theirs := calls.get(n, {}).get(other)):
        if mine.site != theirs.site:
            return False
        n += 1
    return n > number


def _by_text(texts: Mapping[int, str]) -> str:
    """``worker 0 at line 4, workers [1-3] at line 6``."""
    return ", ".join(f"{people(workers)} {text}" for text, workers in who_has(sorted(texts.items())).items())
