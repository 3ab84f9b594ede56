"""What a recorder keeps, as spans of a timeline."""

from __future__ import annotations

import pytest

from disco_magic.core.messages import Call, Fetch, Run, Store
from disco_magic.core.recorded import ASLEEP, end_of, kind_of, start_of
from disco_magic.core.spans import attended, doing_of, spans_of
from disco_magic.core.timeline import Span
from tests.timelines import BOTH

FACTS = ("reduce", "float32", (3,), ("sum", 1), "cell.py", 4)
ALONE = (2.0, *FACTS, (), 7, 0)


def place(filename, line):
    return f"{filename}:{line}"


def test_a_collective_and_the_waiting_in_it_are_two_spans():
    joined = (2.0, *FACTS, BOTH, 7, 1)
    whole, wait = spans_of(0, (*joined, 5.0, 2.5, ""), place)
    assert str(whole) == "reduce(float32 (3,), op=sum, root=1), cell.py:4"
    assert (whole.kind, whole.start_s, whole.end_s, whole.meeting) == ("collective", 2.0, 5.0, (BOTH, 7, 1))
    assert (wait.kind, wait.start_s, wait.end_s, wait.meeting) == ("waiting", 2.0, 4.5, None)


def test_a_collective_of_the_last_to_come_has_no_waiting_in_it():
    (span,) = spans_of(0, (*ALONE, 5.0, 0.0, "PlaneMismatch"), place)
    assert span.detail == "failed: PlaneMismatch"


def test_waiting_is_never_longer_than_its_collective():
    _, wait = spans_of(0, (*ALONE, 5.0, 9.0, ""), place)
    assert (wait.start_s, wait.end_s) == (2.0, 5.0)


@pytest.mark.parametrize(("waiting_s", "expected"), [(None, []), (2.0, [(7.0, 9.0)])])
def test_a_collective_that_goes_on_waits_until_now(waiting_s, expected):
    whole, *wait = attended(0, ALONE, 9.0, place, waiting_s=waiting_s)
    assert (whole.end_s, whole.unfinished) == (9.0, True)
    assert [(span.start_s, span.end_s) for span in wait] == expected


def test_everything_else_that_is_kept_is_one_span():
    done = ("error", 1.0, 2.0, "ValueError: boom", "in Cell 1", 7, None)
    assert spans_of(1, done, place) == [
        Span(1, "error", "ValueError: boom", 1.0, 2.0, "", "in Cell 1", seq=7)
    ]
    cell = ("cell", 1.0, 4.0, "Cell 1", "command 7", 7, 2.0)
    assert spans_of(1, cell, place) == [
        Span(1, "cell", "Cell 1", 1.0, 4.0, "", "command 7", seq=7, waited_s=2.0)
    ]
    assert (start_of(done), end_of(done)) == (("error", 1.0), 2.0)
    parted = (*ALONE, 5.0, 0.0, "")
    assert (start_of(parted), end_of(parted)) == (("collective", 2.0), 5.0)


def test_commands_are_cells_copies_or_calls():
    kinds = [Run(1, 2, None), Store(1, 2, 3), Fetch(1, 2), Call(1, 2, int, ())]
    assert [kind_of(command) for command in kinds] == ["cell", "copy", "copy", "call"]


@pytest.mark.parametrize(
    ("command", "opened", "spell", "expected"),
    [
        (Run(5, 1, None), 2.0, ASLEEP, ("cell", "words", 2.0, "command 5")),
        (Call(5, 1, int, ()), None, (3.0, 5, int, 0), ("call", "words", 3.0, "command 5")),
        (Call(5, 1, int, ()), None, (3.0, 2, int, 0), ("calls", "calls", 3.0, "commands 2 to 5, now: words")),
        (Call(5, 1, int, ()), None, (3.0, 6, int, 0), None),  # of a command after this one
        (Call(5, 1, int, ()), None, ASLEEP, None),
        (Run(5, 1, None), None, (3.0, 5, None, 0), None),  # it is just ending
    ],
)
def test_what_goes_on_is_known_if_its_beginning_is(command, opened, spell, expected):
    span = doing_of(0, command, opened, spell, until=9.0, words="words")
    if expected is None:
        assert span is None
    else:
        assert (span.kind, span.label, span.start_s, span.detail) == expected
        assert (span.end_s, span.unfinished) == (9.0, True)
