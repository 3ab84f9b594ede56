"""Tables where there is little room for them."""

from __future__ import annotations

import re

import pytest

from disco_magic.core.markup import in_room, narrow, table_style, upright
from disco_magic.core.snapshot import RegisterInfo, Row
from disco_magic.core.stats import SessionStats, WorkerStats
from disco_magic.notebook.inspector.table import table_html
from disco_magic.notebook.tables.reports import stats_html
from disco_magic.notebook.tables.times import CellTimes, WorkerTime
from disco_magic.notebook.timeline.picture import timeline_html
from tests.timelines import cell, timeline


def of_times():
    return CellTimes("Cell In[1]", (WorkerTime(0, 1.0), WorkerTime(1, 3.0)))._html()


def of_stats():
    return stats_html(SessionStats(3, (WorkerStats(0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0),)))


def of_timeline():
    return timeline_html(timeline(cell(0, 0.0, 1.0)))


@pytest.mark.parametrize("make", [of_times, of_stats, of_timeline])
def test_heads_are_turned_by_the_room_that_a_table_has_not_by_the_width_of_the_window(make):
    html = make()
    turned = [line for line in html.splitlines() if "vertical-rl" in line]
    assert turned
    assert all(line.startswith("@container disco-room (max-width:") for line in turned)
    before, _, _ = html.partition("<table")
    assert before.endswith('<div style="container:disco-room/inline-size;overflow-x:auto">')


def test_a_number_is_never_parted_from_its_unit():
    *_, last = [line for line in of_times().splitlines() if line.startswith(".disco-times td{white-space")]
    assert last == ".disco-times td{white-space:nowrap!important}"


def test_rules_for_little_room_name_the_table():
    style = table_style("x", upright(300), narrow(200, "{} td{padding:0}"))
    assert "@container disco-room (max-width:300px){.x thead th:not(:first-child){writing-mode:" in style
    assert "@container disco-room (max-width:200px){.x td{padding:0}}" in style
    assert in_room("<table/>").endswith("<table/></div>")


def test_a_long_name_in_a_narrow_window_is_broken_rather_than_moved_below_its_mark():
    info = RegisterInfo("int", text="1", fingerprint=b"1")
    other = RegisterInfo("int", text="2", fingerprint=b"2")
    html = table_html([Row("long" * 20, (info, other))], range(2))
    assert re.search(r"\u2260</span>\u00a0<code>long", html)
    assert "break-word" in re.search(r"\.disco-registers tbody th\{.*", html)[0]
