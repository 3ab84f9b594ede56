"""At which lines of code workers made the collective calls of a command that met each other.

Calls are matched in order. An extra call is matched with the others' next call if both look alike: the
numbers are wrong from there on, and only the last call has no counterpart. The lines from which the calls
were made show where that began (`parting`). Calls in another order may fit to the end (`lines_of`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.phrases import people, who_has

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from disco_magic.core.circles import Workers
    from disco_magic.core.timeline import Span

# Of one command and the same members: number of the call -> worker -> its span.
Calls = dict[int, dict[int, "Span"]]
# Verbs in which one worker, the root, often calls from a line of its own.
_ROOTED: Final = frozenset({"broadcast", "scatter", "reduce", "gather"})
OF_TASK: Final = "asyncio task "
_UNNAMED: Final = "Task-"  # asyncio's own name for one


class Lines(NamedTuple):
    """From which lines the workers made the collective calls of a command.

    Attributes:
        compared: how many collectives that is known of.
        met: how many of them had calls from different lines.
        apart: these in words, in the order of their beginning; what several groups of workers did in the same
            way is told once.
        first: the lowest number of a compared one; above 1 if the records of earlier ones were dropped.
        messages: how many messages were received. They are not compared: two messages of a pipeline with two
            buffers, ``send(ping); send(pong)`` with ``pong = recv(); ping = recv()``, look like two in the
            wrong order.
    """

    compared: int
    met: int
    apart: tuple[str, ...]
    first: int
    messages: int = 0


def lines_of(spans: Iterable[Span], seq: int) -> Lines:
    """Compare the lines from which the members of each collective called it.

    Of `broadcast`, `scatter`, `reduce` and `gather`, one worker's line may differ from the others', who call
    from one.
    """
    spans = list(spans)
    meetings: dict[tuple[Workers, int], dict[int, Span]] = {}
    for members, calls in _calls(spans, seq).items():
        whole = {number: made for number, made in calls.items() if len(made) == len(members) > 1}
        meetings.update({(members, number): made for number, made in whole.items()})
    by_start = sorted(meetings.items(), key=lambda each: min(span.start_s for span in each[1].values()))
    apart = [(number, made) for (_, number), made in by_start if _are_apart(made)]
    received = sum(span.kind == "collective" and _verb(span) == "recv" for span in spans)
    first = min((number for _, number in meetings), default=1)
    return Lines(len(meetings), len(apart), tuple(_told_once(apart)), first, received)


def _told_once(apart: Iterable[tuple[int, Mapping[int, Span]]]) -> list[str]:
    """``call 1, allreduce(...): ...`` of each; if groups of a mesh did the same, once for all of them."""
    alike: dict[tuple[int, str, frozenset[tuple[str, ...]]], list[Mapping[int, Span]]] = {}
    for number, made in apart:
        label, ways = next(iter(made.values())).label, frozenset(map(_way, made.values()))
        alike.setdefault((number, label, ways), []).append(made)
    told = []
    for (number, label, _), groups in alike.items():
        workers = {worker: span for made in groups for worker, span in made.items()}
        are_apart = len(workers) == sum(map(len, groups))
        where = (
            [f"{_met(workers)}, in {len(groups)} groups"]
            if are_apart and len(groups) > 1
            else map(_met, groups)
        )
        told += [f"call {number:,}, {label}{each}" for each in where]
    return told


def _verb(span: Span) -> str:
    return span.label.partition("(")[0].rpartition(" ")[2]


def _are_apart(made: Mapping[int, Span]) -> bool:
    ways = ((worker, _way(span)) for worker, span in made.items())
    groups = sorted(who_has(ways).values(), key=len)
    verb = _verb(next(iter(made.values())))
    return len(groups) > 1 and not (verb in _ROOTED and len(groups) == 2 and len(groups[0]) == 1)


def _way(span: Span) -> tuple[str, ...]:
    """The line of a call, and the lines that led there as far as they were kept."""
    return span.site, *span.callers


def _sites(made: Mapping[int, Span]) -> dict[int, str]:
    return {worker: f"at {span.site}" for worker, span in made.items()}


def _met(made: Mapping[int, Span]) -> str:
    """Where each worker called; if all at the same line, from which other one, where that differs."""
    sites = _sites(made)
    depth = max(len(span.callers) for span in made.values())
    if len(set(sites.values())) > 1 or not depth:
        return f": {_by_text(sites)}"
    ways = {worker: (*span.callers, *["elsewhere"] * depth) for worker, span in made.items()}
    apart = next(n for n in range(depth) if len({way[n] for way in ways.values()}) > 1)
    told = _by_text({worker: f"from {way[apart]}" for worker, way in ways.items()})
    return f" {next(iter(sites.values()))}, called by {told}"


def _calls(spans: Iterable[Span], seq: int) -> dict[Workers, Calls]:
    """The collective calls of a command by their members."""
    circles: dict[Workers, Calls] = {}
    for span in spans:
        if span.kind == "collective" and span.meeting is not None and span.meeting[1] == seq:
            members, _, number = span.meeting
            circles.setdefault(members, {}).setdefault(number, {})[span.worker] = span
    return {members: _with_tasks(members, calls) for members, calls in circles.items()}


def _with_tasks(members: Workers, calls: Calls) -> Calls:
    """The calls; of those that all members have made, with the tasks that made them among what led there.

    Only what these members do together is looked at. A worker may have further tasks, for calls with others,
    for what a root passes, or whose calls are no longer known.
    """
    whole = {number: made for number, made in calls.items() if len(made) == len(members)}
    if not any(span.task for made in whole.values() for span in made.values()):
        return calls
    alike = [made for made in whole.values() if not any(_verb(span) in _ROOTED for span in made.values())]
    said = {True: _tasks_of(whole.values()), False: _tasks_of(alike)}
    return {**calls, **{number: _told_tasks(made, said) for number, made in whole.items()}}


def _told_tasks(
    made: Mapping[int, Span], said: Mapping[bool, Mapping[int, Mapping[str, str]]]
) -> dict[int, Span]:
    tasks = said[any(_verb(span) in _ROOTED for span in made.values())]
    words = {worker: tasks.get(worker, {}).get(span.task) for worker, span in made.items()}
    return {
        worker: replace(span, callers=(word, *span.callers)) if (word := words[worker]) else span
        for worker, span in made.items()
    }


def _tasks_of(calls: Iterable[Mapping[int, Span]]) -> dict[int, dict[str, str]]:
    made: dict[int, list[str]] = {}
    for call in calls:
        for worker, span in call.items():
            made.setdefault(worker, []).append(span.task)
    return tasks_in_words(made)


def tasks_in_words(made: Mapping[int, Sequence[str]]) -> dict[int, dict[str, str]]:
    """Which asyncio task each one is, in words that are alike on all workers; none if no worker has several.

    asyncio numbers those without a name through the process, in which other workers have tasks, too. They are
    known by the order in which they were made. Of names that only some workers have, such as ``load-3`` on
    worker 3, nothing but the order of their calls tells which belong together.

    Args:
        made: worker -> the names of the tasks of its calls, in the order of the calls; "" for no task.
    """
    if all(len({*names}) <= 1 for names in made.values()):
        return {}
    shared = set.intersection(*({*names} for names in made.values()))
    return {worker: _in_words(dict.fromkeys(filter(None, names)), shared) for worker, names in made.items()}


def _in_words(names: Iterable[str], shared: Container[str]) -> dict[str, str]:
    unnamed, own, said = [], [], {}
    for name in names:
        if name.startswith(_UNNAMED):
            unnamed.append(name)
        elif name in shared:
            said[name] = f"{OF_TASK}{name!r}"
        else:
            own.append(name)
    unnamed.sort(key=lambda name: (len(name), name))
    said |= {name: f"{OF_TASK}{place}" for place, name in enumerate(unnamed, 1)}
    return said | {name: f"{OF_TASK}{n} of those with names of their own" for n, name in enumerate(own, 1)}


def parting(spans: Iterable[Span], seq: int) -> str:
    """How many calls each worker made in a command that failed, and the first made from different lines.

    Args:
        spans: of a timeline, in the order in which they began.
        seq: number of the command.

    Returns:
        A sentence; "" if neither numbers nor lines differ before the last call that any worker made.
    """
    told = (_told(members, calls) for members, calls in _calls(spans, seq).items())
    return next(filter(None, told), "")


def _told(members: Workers, calls: Calls) -> str:
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
        sites = set(_sites(calls[apart]).values())
        where = " at different lines" if len(sites) > 1 else ""
        said.append(f"call {apart:,} met{where}{_met(calls[apart])}")
    return f"collective calls: {'; '.join(said)}"


def _is_parting(calls: Calls, number: int) -> bool:
    """Whether one worker goes on from there as another one does a call later.

    A root that calls from a line of its own meets the others again at the next call.
    """
    ways = {worker: _way(span) for worker, span in calls[number].items()}
    first = {way: worker for worker, way in reversed(ways.items())}
    one, *others = first.values()
    return any(_follows(calls, one, other, number) or _follows(calls, other, one, number) for other in others)


def _follows(calls: Calls, one: int, other: int, number: int) -> bool:
    """Whether the calls of `one` after that number equal those of `other` from it on, as far as both go."""
    n = number
    while (mine := calls.get(n + 1, {}).get(one)) and (theirs := calls.get(n, {}).get(other)):
        if _way(mine) != _way(theirs):
            return False
        n += 1
    return n > number


def _by_text(texts: Mapping[int, str]) -> str:
    """``worker 0 at line 4, workers [1-3] at line 6``."""
    return ", ".join(f"{people(workers)} {text}" for text, workers in who_has(sorted(texts.items())).items())
