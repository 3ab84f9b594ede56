"""A timeline as trace events."""

from __future__ import annotations

import json

import pytest

from disco_magic.core.timeline import Span
from disco_magic.errors import UsageMistake
from tests.timelines import BOTH, cell, error, met, timeline, waiting


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
