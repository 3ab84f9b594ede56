"""What failed on which workers, in a few lines: equal failures are listed once, with their workers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors.operands import operand_lines
from disco_magic.phrases import people, ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disco_magic.errors import Failure


# Texts, which `re` compiles with the first failure and keeps: that takes as long as three of our files.
_ADDRESS: Final = r"(?<= at )0x[0-9a-fA-F]{4,}"
# Numbers of workers in our own messages, and the way from one to the worker that failed first.
_PEOPLE: Final = r", for which worker \d+ waited|\bworkers? (\d+|\[[\d,:-]+\])|(?<=\bsend\(\.\.\., )\d+"
_FEW: Final = 2
# The worker that a line of ours is about: the first one that it names.
_CAUSE: Final = r"\bworkers? (\d+|\[[\d,:-]+\])"
# Names that Python gives threads, by numbers that it counts for the process: `Thread-7 (run)`. Without that
# end, only as Python quotes them: a user's text may number threads as well.
_THREAD: Final = (
    r"\b(ThreadPoolExecutor)-\d+_\d+\b|\b(Thread)-\d+(?= \()|(?<=[('\"])(Thread|Dummy)-\d+(?=[,'\"])"
)
_IDENT: Final = r"(?<=started )((?:daemon )?)\d{6,}(?=\)>)"  # in a thread's repr


def describe(failures: Mapping[int, Failure], others: Iterable[Failure] = (), *, stopped: str = "") -> str:
    """One line per distinct failure with its workers, then the origin's traceback, if any.

    `stopped`: ``"interrupted"``, ``"cancelled"``, if that is all that happened.
    """
    lines = [f"{ranges(workers)} {text}" for text, workers in grouped(failures).items()]
    lines += other_lines(others)
    origin = next(iter(failures.values()))
    head = f"{origin.command} failed on worker {origin.worker}"
    more = len(failures) - 1
    if stopped:
        head = f"{origin.command} was {stopped} on {_whom(failures, stopped)}"
    elif more:
        head += f" (and {more} other{'s' if more > 1 else ''})"
    text = origin.traceback_text.rstrip()
    if "\n" not in text and text.endswith(origin.summary):  # no line of the user's: the text is above already
        text = ""
    return "\n".join([head, *lines, "", text, *operand_lines(failures.values())]).rstrip()


def _whom(failures: Mapping[int, Failure], stopped: str) -> str:
    """Those that were stopped; of an interrupt, apart from those that ended because they waited for these."""
    from disco_magic.errors import WorkerInterrupt, is_by  # here: it imports this file

    struck = [worker for worker, failure in failures.items() if is_by(failure, WorkerInterrupt)]
    released = [worker for worker in failures if worker not in struck]
    if stopped == "cancelled" or not struck or not released:
        return people(tuple(failures))
    return f"{people(tuple(struck))}, for which {people(tuple(released))} waited"


def grouped(failures: Mapping[int, Failure]) -> dict[str, list[int]]:
    """Summary line -> the workers that failed with it, in the order of `failures`.

    The line has the command if it is not the origin's. Failures that differ only in that each
    names its own worker or thread, or an object by its address, are combined: ``worker {worker_id}``, as an
    f-string. So are more than two waits of which each names its own neighbours: of those the line is the
    first one's.
    """
    origin = next(iter(failures.values()))
    texts = {
        worker: failure.summary
        if failure.seq == origin.seq or failure.command == origin.command
        else f"{failure.command}: {failure.summary}"
        for worker, failure in failures.items()
    }
    forms = {worker: form_of(text, worker) for worker, text in texts.items()}
    spoken: dict[str, set[str]] = {}
    for worker, form in forms.items():
        spoken.setdefault(form, set()).add(texts[worker])
    lines = {worker: form if len(spoken[form]) > 1 else texts[worker] for worker, form in forms.items()}
    return who_has(_likewise(failures, lines).items())


def _likewise(failures: Mapping[int, Failure], lines: Mapping[int, str]) -> dict[int, str]:
    """`lines` of the workers; one for all whose errors of ours differ in nothing but numbers of workers.

    In a ring each worker waits for another one: of 64 workers, 63 lines would say the same.
    """
    from disco_magic.errors import PlaneError  # here: it imports this file

    alike: dict[str, dict[int, str]] = {}
    for worker, failure in failures.items():
        if issubclass(type(failure.exception), PlaneError):
            alike.setdefault(re.sub(_PEOPLE, "", lines[worker]), {})[worker] = lines[worker]
    told = dict(lines)
    for group in alike.values():
        if len(set(group.values())) > _FEW:
            first = next(iter(group))
            line = _without_origin(failures[first], lines[first])
            line = f"{line} (likewise on {len(group) - 1} others{_because_of(group.values())})"
            told.update(dict.fromkeys(group, line))
    return told


def _because_of(lines: Iterable[str]) -> str:
    """The workers other than the first line's that the lines are about, in words."""
    others = [*dict.fromkeys(found[1] for line in lines if (found := re.search(_CAUSE, line)))][1:]
    if not others:
        return ""
    if all(map(str.isdecimal, others)):
        return f", because of {people(sorted(map(int, others)))}"
    return f", because of workers {', '.join(others)}"


def _without_origin(failure: Failure, line: str) -> str:
    """`line` without the text of the failure that it follows from: that has a line of its own."""
    error: Any = failure.exception
    origin: Failure | None = getattr(error, "failure", None)
    if origin is None:
        return line
    return line.replace(f"{origin.worker} failed: {origin.summary}", f"{origin.worker} failed")


def form_of(text: str, worker: int) -> str:
    """The text of an error without what differs between workers: its own number, threads, and addresses."""
    text = re.sub(_ADDRESS, "0x…", text)
    text = re.sub(_THREAD, lambda found: f"{found[found.lastindex or 0]}-…", text)
    text = re.sub(_IDENT, r"\1…", text)
    # As a program would write it: the text may be the user's, with a path that has such a name.
    return re.sub(rf"\b(worker |disco-\d+-worker-){worker}\b", r"\1{worker_id}", text)


def other_lines(others: Iterable[Failure]) -> list[str]:
    """``also, call save failed on worker 0: OSError: disk full``, for each."""
    return [f"also, {each.command} failed on worker {each.worker}: {each.summary}" for each in others]
