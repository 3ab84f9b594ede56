"""A timeline: its windows, what it adds up to, as text and as trace events."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from disco_magic.core import lanes
from disco_magic.core.lanes import axis, lane, ticks
from disco_magic.core.recorded import attended
from disco_magic.core.spending import Spent, Summary, covered, stretches
from disco_magic.core.timeline import Record, Span, Timeline
from disco_magic.errors import UsageMistake
from tests.timelines import BOTH, SITE, cell, error, met, timeline, waiting

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


# --- what it adds up to ------------------------------------------------------------------------------


def test_running_waiting_and_idle_are_the_whole_window():
    spans = cell(0, 1.0, 6.0), met(0, 2.0, 5.0), waiting(0, 2.0, 4.5), error(0, 6.0)
    spent, other = timeline(*spans).summary().workers
    assert (spent.running_s, spent.waiting_s, spent.idle_s, spent.errors) == (2.5, 2.5, 5.0, 1)
    assert (other.running_s, other.waiting_s, other.idle_s, other.errors) == (0.0, 0.0, 10.0, 0)


def test_only_what_lies_in_the_window_counts():
    spans = cell(0, 1.0, 6.0), met(0, 2.0, 5.0), waiting(0, 2.0, 4.0), met(1, 4.0, 5.0), error(0, 6.0)
    whole = timeline(*spans)
    late = whole.between(5.0, 7.0).summary()
    assert (late.workers[0].running_s, late.workers[0].waiting_s, late.workers[0].errors) == (1.0, 0.0, 1)
    assert (late.collectives, whole.summary().collectives) == (0, 1)


@pytest.mark.parametrize(
    ("starts", "sentence"),
    [
        (((0, 3), (3, 0)), "no worker stands out: in 2 collectives they waited 3.00 s for each other"),
        (((0, 3), (1, 0)), "worker 1 came last to 1 of 2 collectives; the others waited 1.50 s"),
        (
            ((0, 0, 3), (0, 3, 0), (4, 0, 0)),
            "10.00 s for each other, all together; 4.00 s of it for worker 0",
        ),
        (
            ((0, 0, 3), (0, 0, 3), (1, 0, 0)),
            "worker 2 came last to 2 of 3 collectives; the others waited 6.00 s",
        ),
        (
            ((0, 0, 0, 2), (0, 0, 2, 0)),
            "no worker stands out: in 2 collectives they waited 6.00 s for each other",
        ),
        (
            ((0, 0, 0, 4), (0, 0, 2, 0)),
            "worker 3 came last to 1 of 2 collectives; the others waited 6.00 s",
        ),
    ],
)
def test_a_worker_is_named_only_if_the_others_waited_for_it_twice_as_long_as_for_any_other(starts, sentence):
    members = tuple(range(len(starts[0])))
    spans = [
        met(worker, 3 * number + start / 2, 3 * number + 2.5, number, members=members)
        for number, each in enumerate(starts)
        for worker, start in enumerate(each)
    ]
    assert sentence in timeline(*spans, workers=len(members)).summary().sentence


def test_who_came_last_is_charged_with_what_the_others_waited():
    spans = [
        *(met(worker, start, 5.0, members=(0, 1, 2)) for worker, start in ((0, 1.0), (1, 2.0), (2, 5.0))),
        *(met(worker, start, 7.0, 2, members=(0, 1, 2)) for worker, start in ((0, 7.0), (1, 6.0), (2, 6.5))),
    ]
    summary = timeline(*spans, workers=3).summary()
    assert [(each.came_last, each.others_waited_s) for each in summary.workers] == [
        (1, 1.5),
        (0, 0.0),
        (1, 7.0),
    ]
    assert summary.sentence == (
        "worker 2 came last to 1 of 2 collectives; the others waited 7.00 s for it, all together"
    )


@pytest.mark.parametrize(
    "spans",
    [
        (met(0, 1.0, 5.0), met(1, 1.0, 5.0, number=2, members=(1, 2))),  # of worker 2 nothing is shown
        (Span(0, "collective", "send(to=1)", 1.0, 2.0), Span(1, "collective", "recv(source=0)", 0.0, 2.0)),
    ],
)
def test_what_not_all_came_to_has_no_last_one(spans):
    summary = timeline(*spans, whole_from_s=(0.0, 2.0)).summary()
    assert (summary.collectives, summary.sentence) == (0, "")


def test_who_never_came_is_named_with_what_the_others_waited():
    begun = [(0, 1.0, 1), (1, 2.0, 1), (0, 3.0, 2), (1, 3.0, 2)]
    spans = [met(worker, start, 5.0, number, members=(0, 1, 2)) for worker, start, number in begun]
    spans += [met(0, 6.0, 7.0, 3), cell(2, 0.0, 9.0)]
    assert timeline(*spans, workers=3).summary().sentence == (
        "worker 2 never came to 2 collectives, in which the others waited 11.00 s, all together"
    )


def test_who_has_not_come_yet_is_told_before_who_came_last():
    waits = [replace(met(w, 6.0, 10.0, 2, members=(0, 1, 2)), unfinished=True) for w in (0, 1)]
    spans = [met(w, 1.0 + w, 5.0, members=(0, 1, 2)) for w in range(3)]
    assert timeline(*spans, *waits, workers=3).summary().sentence == (
        "worker 2 has not come yet to 1 collective, in which the others waited 8.00 s, all together; "
        "worker 2 came last to 1 of 1 collective; the others waited 3.00 s for it, all together"
    )


def received(worker, start, end, source, **more):
    return Span(worker, "waiting", f"recv(source={source})", start, end, source=source, **more)


def test_who_is_waited_for_in_recv_is_charged_with_it():
    summary = timeline(received(0, 1.0, 4.0, 1), received(0, 5.0, 6.0, 1)).summary()
    assert [(each.others_waited_s, each.messages_s) for each in summary.workers] == [
        (0.0, 0.0),
        (4.0, 4.0),
    ]
    assert summary.sentence == "the others waited 4.00 s for worker 1 in recv, all together"


def test_who_waits_himself_hands_that_on():
    # 0 waits for 1, which waits for 2, which waits in a collective for a while and works the rest.
    spans = (
        received(0, 0.0, 5.0, 1),
        received(1, 0.0, 3.0, 2),
        waiting(2, 1.0, 2.0),
        received(2, 8.0, 9.0, 0),
    )
    seen = timeline(*spans, workers=3)
    assert [each.messages_s for each in seen.summary().workers] == [1.0, 2.0, 4.0]
    assert [each.messages_s for each in seen.between(2.5, 10.0).summary().workers] == [1.0, 2.0, 1.0]


def test_a_recv_that_failed_is_waiting_for_nobody_known():
    joined = (1.0, "recv", "", "", (), None, 0, (), 1, 0)
    spans = attended(0, joined, 3.0, lambda code, offset: SITE, asleep_s=1.5, error="PlaneMismatch")
    assert [(span.kind, span.source) for span in spans] == [("collective", None), ("waiting", None)]
    told = attended(0, (*joined[:4], (2,), *joined[5:]), 3.0, lambda code, offset: SITE, asleep_s=1.5)
    assert [(span.kind, span.source) for span in told] == [("collective", None), ("waiting", 2)]


def test_a_recv_of_a_verb_made_of_it_has_a_source_too():
    joined = (1.0, "recv_from_prev_group's recv", "", "", (1,), None, 0, (), 1, 0)
    assert attended(0, joined, 3.0, lambda code, offset: SITE, asleep_s=1.5)[1].source == 1


def test_nobody_is_blamed_for_what_is_not_known_of_him():
    seen = timeline(received(0, 0.0, 5.0, 1), whole_from_s=(0.0, 4.0))
    assert [each.messages_s for each in seen.summary().workers] == [0.0, 1.0]
    unknown = timeline(received(0, 0.0, 5.0, 1), whole_from_s=(0.0, 6.0))
    assert [each.messages_s for each in unknown.summary().workers] == [0.0, 0.0]


def test_circles_of_waits_come_to_an_end():
    seen = timeline(received(0, 0.0, 5.0, 1, unfinished=True), received(1, 0.0, 5.0, 0, unfinished=True))
    assert [each.messages_s for each in seen.summary().workers] == [0.0, 0.0]


def test_recv_and_collectives_are_told_apart():
    spans = (
        *(met(worker, start, 5.0, members=BOTH) for worker, start in ((0, 1.0), (1, 5.0))),
        received(0, 6.0, 9.0, 1),
    )
    summary = timeline(*spans).summary()
    assert (summary.workers[1].others_waited_s, summary.workers[1].messages_s) == (7.0, 3.0)
    assert summary.sentence == (
        "worker 1 came last to 1 of 1 collective; the others waited 7.00 s for it, all together, "
        "3.00 s of it in recv"
    )
    spans = met(0, 4.0, 5.0, members=BOTH), met(1, 5.0, 5.0, members=BOTH), received(0, 6.0, 7.0, 1)
    even = timeline(*spans, received(1, 7.0, 9.0, 0)).summary()
    assert even.sentence.startswith("no worker stands out: in 1 collective and recv they waited ")


def test_one_collective_is_not_called_many():
    spent = Spent(0, 0.0, 0.0, 0.0, 0, 1, 2.0)
    assert "to 1 of 1 collective;" in Summary((spent,), 1).sentence


def test_stretches_join_what_overlaps_and_leave_out_what_lies_outside():
    spans = [cell(0, 4.0, 5.0), cell(0, 1.0, 3.0), cell(0, 2.0, 2.5), cell(0, 8.0, 12.0), cell(0, 11.0, 13.0)]
    assert stretches(spans, 1.5, 9.0) == [(1.5, 3.0), (4.0, 5.0), (8.0, 9.0)]
    assert covered(spans, 1.5, 9.0) == 3.5


# --- what was dropped --------------------------------------------------------------------------------


def test_a_lane_is_known_since_its_oldest_span_and_says_so():
    made = timeline(cell(0, 4.0, 5.0), whole_from_s=(3.0, 0.0), dropped=(1200, 0))
    assert made.summary().workers[0].idle_s == 6.0
    assert made.remark == "1,200 older spans of workers [0] were dropped; all is kept since 3.000 s"
    assert made.between(4.0, 9.0).remark == ""
    assert made.of([1]).remark == ""


def test_a_worker_that_began_later_has_dropped_nothing():
    assert timeline(whole_from_s=(0.0, 2.0)).remark == ""


# --- as text -----------------------------------------------------------------------------------------


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


# --- as trace events ---------------------------------------------------------------------------------


def events(made):
    return json.loads(json.dumps(made.to_chrome()))["traceEvents"]


def test_trace_events_have_the_fields_of_their_format():
    spans = [
        cell(0, 1.0, 6.0),
        Span(0, "collective", "barrier()", 2.0, 5.0, "Cell In[1], line 2", meeting=(BOTH, 7, 1)),
        waiting(0, 2.0, 4.0),
        Span(1, "calls", "12 calls", 2.0, 5.0, detail="commands 3 to 14", unfinished=True),
        error(1, 6.0),
    ]
    found = events(timeline(*spans))
    for event in found:
        assert {"ph", "name", "pid", "tid"} <= set(event)
        assert event["pid"] == 3
        assert event["ph"] in "MXi"
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            assert event["cat"]
        if event["ph"] == "i":
            assert event["s"] == "t"
    by_kind = {event["cat"]: event for event in found if event["ph"] != "M"}
    assert (by_kind["cell"]["ts"], by_kind["cell"]["dur"]) == (1e6, 5e6)
    assert by_kind["collective"]["args"] == {"label": "barrier()", "site": "Cell In[1], line 2"}
    assert by_kind["waiting"]["name"] == "waiting in barrier()"
    assert by_kind["calls"]["args"]["unfinished"] is True
    assert by_kind["error"]["args"]["detail"] == "in Cell 1"


def test_the_process_is_the_session_and_its_threads_are_the_workers():
    names = [
        (event["name"], event["tid"], event["args"].get("name"))
        for event in events(timeline())
        if event["ph"] == "M"
    ]
    assert names == [
        ("process_name", 0, "Disco session 3"),
        ("thread_name", 0, "worker 0"),
        ("thread_sort_index", 0, None),
        ("thread_name", 1, "worker 1"),
        ("thread_sort_index", 1, None),
    ]


def test_what_is_nested_stays_nested_when_times_are_rounded():
    outside, inside = events(timeline(cell(0, 0.1, 0.30000049), met(0, 0.2, 0.30000049)))[-2:]
    assert outside["ts"] + outside["dur"] == pytest.approx(inside["ts"] + inside["dur"], abs=1e-6)
    assert inside["ts"] + inside["dur"] <= outside["ts"] + outside["dur"] + 1e-9


def test_only_the_chosen_workers_are_in_the_trace():
    made = timeline(cell(0, 1.0, 2.0), cell(1, 1.0, 2.0)).of([1])
    assert {event["tid"] for event in events(made) if event["ph"] == "X"} == {1}


def test_a_trace_is_saved_as_json(tmp_path):
    made = timeline(cell(0, 1.0, 2.0))
    made.save(tmp_path / "trace.json")
    made.save(str(tmp_path / "trace.json"))  # again: replaced
    assert json.loads((tmp_path / "trace.json").read_text()) == made.to_chrome()


def test_a_trace_is_not_saved_where_a_directory_is(tmp_path):
    with pytest.raises(UsageMistake, match="is a directory; expected the name of a file"):
        timeline().save(tmp_path)


def test_a_trace_that_cannot_be_written_says_why(tmp_path):
    with pytest.raises(UsageMistake, match="cannot be written: No such file or directory; choose a file"):
        timeline().save(tmp_path / "absent" / "trace.json")


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
