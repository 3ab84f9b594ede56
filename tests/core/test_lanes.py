"""A timeline as text."""

from __future__ import annotations

from disco_magic.core import lanes
from disco_magic.core.lanes import axis, lane
from disco_magic.core.time_scale import TimeScale
from tests.timelines import cell, error, met, timeline, waiting


def even(end, width, start=0.0):
    """A scale without pauses."""
    return TimeScale((start, end), (0.0, float(width)))


def test_the_picture_tells_running_waiting_idle_and_errors_apart():
    spans = cell(0, 1.0, 6.0), met(0, 2.0, 5.0), waiting(0, 2.0, 4.0), error(0, 6.0), error(0, 10.0)
    made = timeline(*spans)
    assert lane(made, 0, even(10.0, 10)) == "·█░░██!··!"
    assert lane(made, 1, even(10.0, 10)) == "··········"


def test_what_is_not_known_any_more_is_blank():
    assert lane(timeline(whole_from_s=(3.0, 0.0)), 0, even(10.0, 10)) == "   ·······"


def test_something_short_is_seen_in_a_long_window():
    assert lane(timeline(cell(0, 3.01, 3.02)), 0, even(10.0, 10)) == "···█······"


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


def test_times_on_the_axis_never_run_into_each_other():
    for end in (0.003, 1.0, 77.0, 12345.0):
        text = axis(even(end, lanes.WIDTH))
        assert len(text) <= lanes.WIDTH + 8
        assert all(part.strip().endswith(" s") for part in text.split("|")[1:])


def test_a_pause_is_one_character_on_all_workers_and_the_legend_says_so():
    made = timeline(cell(0, 5.0, 5.5), cell(1, 5.0, 5.25), error(0, 5.5), cell(1, 31.0, 31.5), end_s=40.0)
    lines = repr(made).splitlines()
    busy, idle = "\u2588" * 38, "\u00b7" * 38
    assert lines[1].replace(" s", "").split() == ["|5.00", "|5.2", "|31.00", "|31.2", "|31.4"]
    assert lines[2] == f"worker 0 /{busy}!/{idle}/"
    assert lines[3].startswith(f"worker 1 /{busy[:20]}")
    assert lines[3].endswith(f"/{busy}/")
    assert lines[4].endswith("! error  / a pause, shortened")


def test_a_timeline_without_long_pauses_says_nothing_of_them():
    assert "pause" not in repr(timeline(cell(0, 0.0, 6.0)))


def test_an_error_in_the_first_pause_stays_in_the_picture():
    made = timeline(error(0, 0.0), cell(1, 5.0, 5.5), end_s=40.0)
    assert repr(made).splitlines()[2].startswith("worker 0 !")
