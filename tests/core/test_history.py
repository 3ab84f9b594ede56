"""The workers' last commands, from timelines that are made by hand."""

from __future__ import annotations

import pytest

from disco_magic.core.history import LONGEST, Entry, from_to, history_of
from disco_magic.core.timeline import Span
from disco_magic.errors import WorkerInterrupt
from tests.timelines import met, timeline


def cell(worker, start, end, seq=1, label="Cell In[2]", **more):
    return Span(worker, "cell", label, start, end, detail=f"command {seq}", seq=seq, **more)


def error(worker, moment, seq=1, *, label="ValueError: boom", name="Cell In[2]", until=None):
    end = moment if until is None else until
    return Span(worker, "error", label, moment, end, detail=f"in {name}", seq=seq)


def rows(*spans, last=None, workers=2, queued=()):
    history = history_of(timeline(*spans, workers=workers), last, queued)
    return [(each.workers, each.command, each.ended) for each in history.entries]


def test_a_cell_after_which_registers_differed_did_not_end_well():
    told = {1: "'q' differs: int on worker 0, str on worker 1", 2: "never shown"}
    spans = [cell(0, 1.0, 2.0), cell(1, 1.0, 2.0), cell(0, 3.0, 4.0, 2, "Cell In[3]"), error(0, 4.0, 2)]
    made = history_of(timeline(*spans), diverged=told)
    assert [(each.workers, each.ended) for each in made.entries] == [
        ((0, 1), f"diverged: {told[1]}"),
        ((0,), "failed: ValueError: boom"),
    ]
    assert made.entries[0].state == "diverged"


def test_workers_on_which_a_command_ended_alike_are_in_one_row():
    (entry,) = history_of(timeline(cell(0, 1.0, 2.0), cell(1, 1.5, 4.0))).entries
    assert entry == Entry((0, 1), "Cell In[2]", "ok", "", 9.0, (1.0, 2.5))
    assert entry.row() == ("[0-1]", "Cell In[2]", "1.00 - 2.50 s", "9.00 s ago", "ok")


def test_a_command_that_ended_in_two_ways_has_two_rows_beside_each_other():
    spans = [
        cell(0, 1.0, 2.0),
        cell(1, 1.1, 2.0),
        error(1, 2.0),
        cell(0, 1.05, 3.0, 2, "Cell In[3]"),
        cell(1, 2.5, 3.0, 2, "Cell In[3]"),
    ]
    assert rows(*spans) == [
        ((0,), "Cell In[2]", "ok"),
        ((1,), "Cell In[2]", "failed: ValueError: boom"),
        ((0, 1), "Cell In[3]", "ok"),
    ]


@pytest.mark.parametrize(
    ("words", "ended"),
    [
        ("WorkerInterrupt", "interrupted"),
        (f"WorkerInterrupt: {WorkerInterrupt()}", "interrupted"),
        ("WorkerInterrupt: interrupted in an await", "interrupted: in an await"),
        ("WorkerInterrupt: its thread was stuck", "interrupted: its thread was stuck"),
    ],
)
def test_what_was_stopped_is_no_failure(words, ended):
    assert rows(cell(0, 1.0, 2.0), error(0, 2.0, label=words)) == [((0,), "Cell In[2]", ended)]


def test_an_error_ends_the_command_of_its_number_and_no_later_one_that_began_in_the_same_moment():
    spans = [cell(0, 1.0, 2.0), cell(0, 2.0, 3.0, 2), error(0, 2.0)]
    assert [ended for *_, ended in rows(*spans)] == ["failed: ValueError: boom", "ok"]


def test_a_call_too_short_to_be_kept_is_known_by_its_error():
    call = Span(0, "call", "call f", 1.0, 2.0, detail="command 1", seq=1)
    short = error(0, 4.0, 2, name="call f")
    assert rows(call, short) == [
        ((0,), "call f", "ok"),
        ((0,), "call f", "failed: ValueError: boom"),
    ]
    entry = history_of(timeline(call, short)).entries[1]
    assert entry.row()[2:4] == ("< 1 ms", "6.00 s ago")


@pytest.mark.parametrize(
    ("took_s", "text"),
    [((0.0, 4e-4), "< 1 ms"), ((4e-4, 0.005), "< 1 ms - 5.0 ms"), ((0.002, 0.005), "2.0 - 5.0 ms")],
)
def test_less_than_a_millisecond_is_not_told_further(took_s, text):
    assert Entry((0,), "call f", "running", "", 1.0, took_s).row()[2] == text


def test_equal_errors_in_a_row_say_that_they_are_several():
    assert rows(error(0, 4.0, 7, name="call f", until=5.0)) == [
        ((0,), "call f, several times", "failed: ValueError: boom")
    ]


def test_calls_without_a_pause_are_one_and_the_one_that_failed_stands_apart():
    calls = Span(0, "calls", "3 calls", 1.0, 2.0, detail="commands 1 to 3, the first: call f", seq=3)
    assert rows(calls, error(0, 2.0, 3, name="call g")) == [
        ((0,), "3 calls, the first: call f", "ok"),
        ((0,), "call g", "failed: ValueError: boom"),
    ]
    nameless = Span(0, "calls", "3 calls", 1.0, 2.0, detail="commands 1 to 3", seq=3)
    assert rows(nameless) == [((0,), "3 calls", "ok")]


def test_what_goes_on_took_as_long_as_it_has_been_going_on():
    (entry,) = history_of(timeline(cell(0, 7.0, 10.0, unfinished=True))).entries
    assert (entry.state, entry.row()[2]) == ("running", "3.00 s")


def test_the_last_commands_of_each_worker_are_shown_and_of_the_chosen_ones_only():
    spans = [cell(worker, 1.0 * n, 1.0 * n + 0.5, n, f"Cell {n}") for worker in (0, 1) for n in (1, 2, 3)]
    spans.append(cell(1, 4.0, 4.5, 4, "Cell 4"))
    # Who has executed others since has executed that, too.
    assert rows(*spans, last=1) == [((0, 1), "Cell 3", "ok"), ((1,), "Cell 4", "ok")]
    assert len(rows(*spans)) == 4
    history = history_of(timeline(*spans).of([0]), 2)
    assert [entry.command for entry in history.entries] == ["Cell 2", "Cell 3"]


def test_parts_of_a_command_are_no_commands():
    assert rows(cell(0, 1.0, 9.0), met(0, 2.0, 3.0)) == [((0,), "Cell In[2]", "ok")]


def test_what_has_not_begun_comes_last_and_took_nothing():
    queued = Entry((0, 1), "Cell In[9]", "queued")
    assert rows(cell(0, 1.0, 2.0), queued=[queued])[-1] == ((0, 1), "Cell In[9]", "queued")
    assert queued.row() == ("[0-1]", "Cell In[9]", "", "", "queued")


def test_the_text_is_a_table_with_how_it_ended_in_the_last_column():
    text = repr(history_of(timeline(cell(0, 1.0, 2.0), error(0, 2.0), cell(1, 1.0, 1.0001))))
    assert text.splitlines() == [
        "Disco session 3: the workers' last commands",
        "workers  command       took       began  ended",
        "[0]      Cell In[2]  1.00 s  9.00 s ago  failed: ValueError: boom",
        "[1]      Cell In[2]  < 1 ms  9.00 s ago  ok",
    ]


def test_workers_that_did_nothing_have_no_table():
    assert repr(history_of(timeline())) == "Disco session 3: the workers have done nothing yet"


def test_what_was_dropped_is_said():
    made = timeline(cell(0, 5.0, 6.0), whole_from_s=(4.0, 0.0), dropped=(7, 0))
    assert repr(history_of(made)).splitlines()[-1].startswith("7 older spans of workers [0] were dropped")


def test_a_long_error_is_cut():
    entry = Entry((0,), "call f", "failed", "x" * 1000)
    assert len(entry.ended) == LONGEST + len("failed: ")
    assert entry.ended.endswith("…")


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        ("1.2 ms", "3.4 ms", "1.2 - 3.4 ms"),
        ("980.0 ms", "1.05 s", "980.0 ms - 1.05 s"),
        ("1 min 02 s", "1 min 05 s", "1 min 02 s - 1 min 05 s"),
        ("3.4 ms", "3.4 ms", "3.4 ms"),
    ],
)
def test_two_quantities_share_their_unit(least, most, expected):
    assert from_to(least, most) == expected


def broken(worker, moment, seq=1, detail="failed: PlaneAborted"):
    meeting = ((0, 1), seq, 1)
    return Span(worker, "collective", "barrier()", moment, moment + 0.1, detail=detail, meeting=meeting)


def test_a_command_that_went_on_after_a_broken_collective_says_so():
    spans = cell(0, 1.0, 2.0), broken(0, 1.5), cell(1, 1.0, 2.0), broken(1, 1.5, detail="failed: ValueError")
    told = [((0,), "Cell In[2]", "ok: caught PlaneAborted"), ((1,), "Cell In[2]", "ok")]
    assert rows(*spans) == told


def test_a_broken_collective_is_no_end_of_a_command_that_has_another_or_is_not_kept():
    failed = cell(0, 1.0, 2.0), broken(0, 1.5), error(0, 2.0)
    runs = cell(1, 1.0, 2.0, unfinished=True), broken(1, 1.5)
    assert [ended for _, _, ended in rows(*failed, *runs)] == ["failed: ValueError: boom", "running"]
    assert rows(broken(0, 1.5)) == []


@pytest.mark.parametrize(("workers", "said"), [((0, 1), ""), ((1,), "not listed: calls and copies")])
def test_a_call_that_some_have_done_too_fast_to_be_listed_is_not_theirs_alone(workers, said):
    spans = [Span(worker, "call", "call f", 1.0, 2.0, seq=1) for worker in workers]
    history = history_of(timeline(*spans, cell(0, 3.0, 4.0, 2)))
    assert history.remark.startswith(said) if said else not history.remark
