"""A timeline: made of records, its windows, its cells."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from disco_magic.core.timeline import Record, Span, Timeline
from disco_magic.errors import UsageMistake
from tests.timelines import BOTH, cell, met, timeline, waiting

# --- made of records ---------------------------------------------------------------------------------


def test_time_begins_when_the_first_worker_did():
    records = [
        Record((cell(0, 105.0, 107.0),), began_s=101.0, until_s=110.0, whole_from_s=101.0),
        Record((cell(1, 104.0, 106.0),), began_s=100.0, until_s=111.0, whole_from_s=103.0, dropped=4),
    ]
    made = Timeline.of_records(3, records)
    assert [(span.worker, span.start_s, span.end_s) for span in made.spans] == [(1, 4.0, 6.0), (0, 5.0, 7.0)]
    assert (made.start_s, made.end_s, made.num_workers, made.workers) == (0.0, 11.0, 2, BOTH)
    assert (made.whole_from_s, made.dropped) == ((1.0, 3.0), (0, 4))


def test_what_contains_another_span_comes_before_it():
    inside, outside = met(0, 1.0, 2.0), cell(0, 1.0, 3.0)
    made = Timeline.of_records(3, [Record((inside, outside))])
    assert made.spans == (outside, inside)


def test_a_span_says_what_where_and_that_it_goes_on():
    span = Span(0, "call", "call f", 1.0, 3.5, "Cell In[2], line 1", "command 4", unfinished=True)
    assert str(span) == "call f, Cell In[2], line 1, command 4, unfinished"
    assert span.seconds == 2.5
    assert str(cell(0, 0.0, 1.0)) == "Cell 1"


# --- windows -----------------------------------------------------------------------------------------


def test_a_window_keeps_what_reaches_into_it():
    spans = cell(0, 0.0, 2.0), cell(0, 3.0, 5.0), cell(0, 6.0, 9.0), cell(1, 3.0, 4.0)
    part = timeline(*spans).between(1.0, 5.5)
    assert (part.start_s, part.end_s) == (1.0, 5.5)
    assert part.lane(0) == [spans[0], spans[1]]
    assert part.lane(1) == [spans[3]]


def test_a_window_keeps_nothing_else_but_the_other_halves_of_its_collectives():
    early, late = met(0, 0.0, 1.0), met(1, 0.5, 3.0)
    spans = early, late, cell(0, 0.0, 1.0), met(0, 0.0, 0.5, 2), met(1, 0.2, 0.5, 2)
    part = timeline(*spans).between(2.0, 4.0)
    assert part.spans == (early, late)
    assert timeline(*spans).last(9.4).spans == (early, late, spans[2])


def test_a_window_never_grows():
    part = timeline().between(2.0, 4.0).between(0.0, 3.0)
    assert (part.start_s, part.end_s) == (2.0, 3.0)
    assert timeline().last(99.0).start_s == 0.0


def test_the_last_seconds_end_with_the_timeline():
    assert (timeline().last(2.5).start_s, timeline().last(2.5).end_s) == (7.5, 10.0)


@pytest.mark.parametrize(("start", "end"), [(3.0, 3.0), (4.0, 3.0), (math.nan, 1.0)])
def test_a_window_that_ends_before_it_begins_is_refused(start, end):
    with pytest.raises(UsageMistake, match=r"is empty; expected two times in seconds"):
        timeline().between(start, end)


@pytest.mark.parametrize(("start", "end"), [(10.0, 12.0), (-3.0, 0.0)])
def test_a_window_outside_is_refused_with_what_there_is(start, end):
    with pytest.raises(UsageMistake, match=r"nothing was recorded from .*; this one is from 0 s to 10 s"):
        timeline().between(start, end)


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan])
def test_no_last_seconds_are_refused(seconds):
    with pytest.raises(UsageMistake, match="expected a number above 0"):
        timeline().last(seconds)


@pytest.mark.parametrize("workers", [(), (2,), (0, -1)])
def test_workers_that_do_not_exist_are_refused(workers):
    with pytest.raises(UsageMistake, match=r"expected some of \[0-1\]"):
        timeline().of(workers)


def test_the_lanes_of_some_workers_still_know_whom_they_waited_for():
    spans = met(0, 1.0, 4.0), waiting(0, 1.0, 4.0), met(1, 4.0, 4.0)
    summary = timeline(*spans).of([1]).summary()
    assert [each.worker for each in summary.workers] == [1]
    assert (summary.workers[0].came_last, summary.workers[0].others_waited_s) == (1, 3.0)


# --- what was dropped --------------------------------------------------------------------------------


def test_a_lane_is_known_since_its_oldest_span_and_says_so():
    made = timeline(cell(0, 4.0, 5.0), whole_from_s=(3.0, 0.0), dropped=(1200, 0))
    assert made.summary().workers[0].idle_s == 6.0
    assert made.remark == "1,200 older spans of workers [0] were dropped; all is kept since 3.000 s"
    assert made.between(4.0, 9.0).remark == ""
    assert made.of([1]).remark == ""


def test_a_worker_that_began_later_has_dropped_nothing():
    assert timeline(whole_from_s=(0.0, 2.0)).remark == ""


# --- a cell ----------------------------------------------------------------------------------------


class Counted(int):
    """A number that counts how often it and others are compared."""

    comparisons = 0

    def __gt__(self, other):
        Counted.comparisons += 1
        return int(self) > int(other)


def test_the_last_of_many_cells_is_found_in_one_pass():
    # It took three seconds behind 4,000 cells of each worker.
    many = [replace(cell(0, float(n), n + 0.5), seq=Counted(n)) for n in range(500)]
    Counted.comparisons = 0
    assert timeline(*many, end_s=500.0).of_cell().start_s == 499.0
    assert Counted.comparisons < 2 * len(many)


def test_the_last_cell_is_that_of_the_last_command_on_all_who_executed_it():
    first = [Span(0, "cell", "Cell 1", 0.0, 6.0, seq=1), Span(1, "cell", "Cell 1", 0.0, 1.0, seq=1)]
    last = [Span(0, "cell", "Cell 2", 6.0, 7.0, seq=3), Span(1, "cell", "Cell 2", 1.0, 2.0, seq=3)]
    made = timeline(*first, *last, Span(1, "call", "call f", 8.0, 9.0, seq=4)).of_cell()
    assert (made.start_s, made.end_s) == (1.0, 7.0)
    assert timeline(cell(0, 1.0, 2.0)).of_cell().end_s == 2.0
    moment = timeline(cell(0, 1.0, 1.0)).of_cell()
    assert moment.end_s > moment.start_s


def test_how_a_cell_failed_is_part_of_it_although_it_is_noted_later():
    # The worker that ended last had no error: what it failed with came a moment after its end.
    spans = [cell(0, 0.0, 1.0), Span(1, "cell", "Cell 2", 0.0, 2.0, seq=3)]
    failed = Span(1, "error", "ValueError: x", 2.1, 2.1, seq=3)
    before = Span(1, "error", "ValueError: y", 5.0, 5.0, seq=2)
    made = timeline(*spans, failed, before).of_cell()
    assert made.end_s == 2.1
    assert failed in made.lane(1)


def test_without_a_cell_there_is_no_time_of_one():
    with pytest.raises(UsageMistake, match="no cell has been executed"):
        timeline().of_cell()
