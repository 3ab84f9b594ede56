"""What failed on which workers, in a few lines: equal failures are listed once, with their workers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from disco_magic.errors.operands import operand_lines
from disco_magic.phrases import people, ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from disco_magic.errors import Failure


_ADDRESS: Final = re.compile(r"(?<= at )0x[0-9a-fA-F]{4,}")


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
        head = f"{origin.command} was {stopped} on {people(tuple(failures))}"
    elif more:
        head += f" (and {more} other{'s' if more > 1 else ''})"
    text = origin.traceback_text.rstrip()
    if "\n" not in text and text.endswith(origin.summary):  # no line of the user's: the text is above already
        text = ""
    return "\n".join([head, *lines, "", text, *operand_lines(failures.values())]).rstrip()


def grouped(failures: Mapping[int, Failure]) -> dict[str, list[int]]:
    """Summary line -> the workers that failed with it, in the order of `failures`.

    The line has the command if it is not the origin's. Failures that differ only in that each
    names its own worker, or an object by its address, are combined: ``worker {worker_id}``, as an f-string.
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
    return who_has(
        (worker, form if len(spoken[form]) > 1 else texts[worker]) for worker, form in forms.items()
    )


def form_of(text: str, worker: int) -> str:
    """The text of an error without what differs between workers: the worker's own number, and addresses."""
    # As a program would write it: the text may be the user's, with a path that has such a name.
    return re.sub(rf"\bworker {worker}\b", "worker {worker_id}", _ADDRESS.sub("0x…", text))


def other_lines(others: Iterable[Failure]) -> list[str]:
    """``also, call save failed on worker 0: OSError: disk full``, for each."""
    return [f"also, {each.command} failed on worker {each.worker}: {each.summary}" for each in others]
