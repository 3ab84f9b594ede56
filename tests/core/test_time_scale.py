"""Where a time is in a timeline's picture, and which pauses are shortened."""

from __future__ import annotations

from itertools import pairwise

import pytest

from disco_magic.core.time_scale import MOST_PAUSES, TimeScale, pauses_of
from tests.timelines import cell, error, timeline, waiting


def test_a_pause_is_a_long_time_in_which_no_worker_does_anything():
    made = timeline(cell(0, 5.0, 6.0), cell(1, 5.5, 7.0), cell(0, 30.0, 31.0), error(1, 20.0), end_s=40.0)
    assert pauses_of(made) == [(0.0, 5.0), (7.0, 30.0), (31.0, 40.0)]


def test_a_short_time_without_work_is_no_pause():
    made = timeline(cell(0, 0.0, 1.0), cell(0, 1.125, 2.0), cell(1, 20.0, 21.0), end_s=21.0)
    assert pauses_of(made) == [(2.0, 20.0)]


def test_nothing_is_shortened_where_the_workers_work_most_of_the_time_or_never():
    assert pauses_of(timeline(cell(0, 0.0, 5.0))) == []
    assert pauses_of(timeline(cell(0, 0.0, 4.75))) == [(4.75, 10.0)]
    assert pauses_of(timeline()) == pauses_of(timeline(end_s=0.0)) == []


def test_only_workers_that_are_shown_count():
    made = timeline(cell(0, 0.0, 1.0), cell(1, 3.0, 9.0))
    assert pauses_of(made) == []
    assert pauses_of(made.of([0])) == [(1.0, 10.0)]


def test_what_was_dropped_is_no_pause_but_a_worker_that_had_not_begun_did_nothing():
    spans, whole = (cell(0, 6.0, 7.0), cell(1, 6.0, 7.0)), (5.0, 0.0)
    made = timeline(*spans, end_s=40.0, whole_from_s=whole, dropped=(9, 0))
    assert pauses_of(made) == [(5.0, 6.0), (7.0, 40.0)]
    assert pauses_of(timeline(*spans, end_s=40.0, whole_from_s=whole)) == [(0.0, 6.0), (7.0, 40.0)]


def test_of_many_pauses_the_longest_are_shortened():
    cells = [cell(0, 10.0 * number, 10.0 * number + 0.1) for number in range(20)]
    cells += [cell(1, 10.0 * number + 5.0, 10.0 * number + 5.1) for number in range(0, 20, 2)]
    found = pauses_of(timeline(*cells, end_s=200.0))
    assert len(found) == MOST_PAUSES
    assert found == sorted(found)
    assert sum(last - first > 9.0 for first, last in found) == 10


def test_pauses_are_narrow_and_the_rest_is_to_scale():
    made = timeline(cell(0, 5.0, 6.0), cell(1, 10.0, 13.0), end_s=33.0)
    scale = TimeScale.of(made, 102, pause=10, least=4)  # 102 = 3 * 10 + 2 * 4 + 64 for 4 s
    assert scale.pauses == {(0.0, 5.0), (6.0, 10.0), (13.0, 33.0)}
    assert scale.even == [(5.0, 6.0), (10.0, 13.0)]
    assert [scale.place(time) for time in (0, 5, 6, 10, 13, 33)] == [0, 10, 30, 40, 92, 102]
    assert (scale.place(5.5), scale.place(8.0), scale.place(-1.0), scale.place(99.0)) == (20, 35, 0, 102)
    assert (scale.time(20), scale.time(35), scale.time(102), scale.width) == (5.5, 8.0, 33.0, 102)
    assert [scale.is_pause(time) for time in (2.0, 5.0, 5.5, 8.0)] == [True, False, False, True]
    assert scale.step_s == 4.0 / 72


def test_in_columns_every_piece_has_some():
    made = timeline(cell(0, 5.0, 5.001), cell(1, 30.0, 30.7), waiting(1, 30.0, 30.1), end_s=60.0)
    scale = TimeScale.of(made, 20).in_columns()
    assert scale.places == (0, 1, 2, 3, 19, 20)


def test_a_picture_of_no_time_has_its_whole_width():
    scale = TimeScale.of(timeline(end_s=0.0), 80)
    assert (scale.width, scale.place(0.0), scale.time(40), scale.step_s) == (80, 80, 0.0, 0.0)


@pytest.mark.parametrize(
    ("start", "end", "texts"),
    [
        (0.0, 10.0, ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]),
        (0.0, 0.01, ["0.000 s", "0.002 s", "0.004 s", "0.006 s", "0.008 s", "0.010 s"]),
        (61.0, 62.0, ["61.0 s", "61.2 s", "61.4 s", "61.6 s", "61.8 s", "62.0 s"]),
        (0.0, 4000.0, ["0 s", "1000 s", "2000 s", "3000 s", "4000 s"]),
        (5.0, 5.0, ["5 s"]),
    ],
)
def test_an_axis_has_round_times(start, end, texts):
    assert [text for _, text in TimeScale((start, end), (0.0, 100.0)).ticks(5, 1)] == texts


def test_after_a_pause_the_time_stands_at_its_place_and_round_ones_keep_away_from_it():
    made = timeline(cell(0, 5.03, 6.0), cell(1, 10.1, 13.0), end_s=33.0)
    scale = TimeScale.of(made, 100, pause=4, least=1)
    ticks = scale.ticks(5, 1.5)
    assert [text for _, text in ticks] == ["5.0 s", "10.1 s", "11 s", "12 s", "13 s"]
    assert ticks[0][0] == scale.place(5.03)


def test_long_times_late_in_a_session_do_not_run_into_each_other():
    cells = [cell(0, 86_400.0 + number * 60, 86_400.0 + number * 60 + 1e-4) for number in range(12)]
    scale = TimeScale.of(timeline(*cells, end_s=90_000.0), 880, pause=22, least=12)
    ticks = scale.ticks(8, 6)
    assert len(ticks) > 5
    for (place, text), (following, other) in pairwise(ticks):
        assert following - place > 6 * (len(text) + len(other)) / 2
