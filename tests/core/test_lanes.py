"""A timeline as text."""

from __future__ import annotations

import pytest

from disco_magic.core import lanes
from disco_magic.core.lanes import axis, lane, ticks
from tests.timelines import cell, error, met, timeline, waiting


def test_the_picture_tells_running_waiting_idle_and_errors_apart():
    spans = cell(0, 1.0, 6.0), met(0, 2.0, 5.0), waiting(0, 2.0, 4.0), error(0, 6.0), error(0, 10.0)
    made = timeline(*spans)
    assert lane(made, 0, 10) == "·█░░██!··!"
    assert lane(made, 1, 10) == "··········"


def test_what_is_not_known_any_more_is_blank():
    assert lane(timeline(whole_from_s=(3.0, 0.0)), 0, 10) == "   ·······"


def test_something_short_is_seen_in_a_long_window():
    assert lane(timeline(cell(0, 3.01, 3.02)), 0, 10) == "···█······"


def test_the_text_has_an_axis_a_lane_per_worker_the_numbers_and_who_came_last():
    spans = cell(0, 0.0, 4.0), met(0, 1.0, 4.0), waiting(0, 1.0, 4.0), met(1, 4.0, 4.0)
    lines = repr(timeline(*spans)).splitlines()
    assert lines[0] == "Disco session 3: 10.00 s, 2 workers"
    assert lines[1].split("|")[1].strip() == "0 s"
    assert [line[:9] for line in lines[2:4]] == ["worker 0 ", "worker 1 "]
    assert {len(line) for line in lines[2:4]} == {9 + lanes.WIDTH}
    assert lines[5].split() == [
        "worker",
        "running",
        "waiting",
        "idle",
        "errors",
        "came",
        "last",
        "others",
        "waited",
    ]
    assert lines[-1].startswith("worker 1 came last to 1 of 1 collective;")


def test_a_timeline_of_no_time_can_be_shown():
    assert "worker 1 ····" in repr(timeline(end_s=0.0))


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
    assert [text for _, text in ticks(start, end, 5)] == texts


def test_times_on_the_axis_never_run_into_each_other():
    for end in (0.003, 1.0, 77.0, 12345.0):
        text = axis(0.0, end)
        assert len(text) <= lanes.WIDTH + 8
        assert all(part.strip().endswith(" s") for part in text.split("|")[1:])
