"""`%disco timeline`: the picture as text and HTML, the last seconds, a saved trace."""

from __future__ import annotations

import json

import pytest
from IPython.core.error import UsageError

from disco_magic.core.timeline import Timeline
from disco_magic.errors import UsageMistake
from disco_magic.session.current import session


def test_a_terminal_shows_the_text_picture(four):
    four.run("%%disco\nbarrier()")
    shown = four.run("%disco timeline")
    assert isinstance(shown, Timeline)
    assert "worker 3 " in four.out
    assert "waiting for others" in four.out


def test_a_notebook_shows_a_timeline_as_a_picture(four):
    four.run("%%disco\nbarrier()")
    data, _ = four.ip.display_formatter.format(session().timeline())
    assert "<svg" in data["text/html"]


def test_the_last_seconds_can_be_asked_for(four):
    four.run("%%disco\nbarrier()")
    shown = four.run("%disco timeline --last 0.001")
    assert shown.end_s - shown.start_s == pytest.approx(0.001)


def test_a_trace_is_saved_and_nothing_else_is_shown(four, tmp_path):
    four.run("%%disco\nbarrier()")
    assert four.run(f"%disco timeline --save {tmp_path}/trace.json") is None
    assert "ui.perfetto.dev opens it" in four.out
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_a_trace_is_not_saved_over_a_directory(four, tmp_path):
    assert "is a directory" in str(four.fail(f"%disco timeline --save {tmp_path}", UsageMistake))


def test_without_a_session_there_is_no_timeline(shell):
    assert "no session is running" in str(shell.fail("%disco timeline", UsageMistake))


def test_a_trace_is_saved_under_names_that_shells_take(four, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    four.run(f"%disco timeline --save '{tmp_path}/a b.json'")
    four.run("%disco timeline --save ~/c.json")
    assert {each.name for each in tmp_path.iterdir()} == {"a b.json", "c.json"}
    assert "name of a file" in str(four.fail("%disco timeline --save ''", UsageError))


def test_the_last_cell_is_shown_alone(four):
    four.run("%%disco\nx = 1")
    four.run("%%disco -w 1\nbarrier(over=[1])")
    shown = four.run("%disco timeline --cell")
    cells = [span for span in shown.spans if span.kind == "cell" and span.start_s >= shown.start_s]
    assert [span.worker for span in cells] == [1]
    assert shown.end_s >= cells[0].end_s
    assert "two times" in str(four.fail("%disco timeline --cell --last 1", UsageMistake))
