"""``%%disco --time``: numbers, sentences and pictures of one cell's times."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from disco_magic.core.timeline import Span
from disco_magic.notebook.tables.times import CellTimes, WorkerTime, times_of
from tests.timelines import met, timeline

EVEN = CellTimes("Cell In[2]", (WorkerTime(0, 1.0, 0.5), WorkerTime(1, 1.02, 0.51)), 3)
UNEVEN = CellTimes("Cell In[2]", (WorkerTime(0, 4.0, 3.0), WorkerTime(1, 4.0, 0.0, 2, 3.0)), 2)


def cell(worker, start, end, waited_s=0.0, seq=7):
    return Span(worker, "cell", "Cell In[2]", start, end, seq=seq, waited_s=waited_s)


def html_of(times):
    """The HTML as a tree; it has to be well formed."""
    html = times._repr_mimebundle_()["text/html"]
    return ET.fromstring(f"<page>{html}</page>")  # noqa: S314 - our own


# --- from a timeline -----------------------------------------------------------------------------------


def test_each_worker_s_time_is_computing_and_waiting():
    made = timeline(cell(0, 1.0, 5.0, 3.0), cell(1, 1.0, 5.0), met(0, 1.5, 5.0), met(1, 4.5, 5.0))
    assert times_of(made, 7, "Cell In[2]", {0: 4.0, 1: 4.5}) == CellTimes(
        "Cell In[2]", (WorkerTime(0, 4.0, 3.0), WorkerTime(1, 4.5, 0.0, 1, 3.0)), 1
    )


def test_collectives_and_waiting_of_other_commands_do_not_count():
    other = [Span(w, "collective", "barrier()", 6.0 + w, 8.0, meeting=((0, 1), 8, 1)) for w in (0, 1)]
    spans = [cell(0, 1.0, 5.0, 1.0), cell(0, 6.0, 8.0, 0.5, seq=8)]
    found = times_of(timeline(*spans, *other), 7, "Cell In[2]", {0: 4.0})
    assert (found.collectives, found.workers) == (0, (WorkerTime(0, 4.0, 1.0),))


def test_a_cell_whose_record_went_with_a_restart_has_its_seconds_still():
    assert times_of(timeline(), 7, "Cell In[2]", {1: 4.0}).workers == (WorkerTime(1, 4.0),)


def test_who_came_last_is_known_as_far_as_it_is_kept_and_it_says_so():
    spans = [cell(0, 1.0, 5.0), cell(1, 1.0, 5.0), met(0, 4.0, 4.5), met(1, 4.2, 4.5)]
    dropped = timeline(*spans, whole_from_s=(3.0, 0.0), dropped=(50, 0))
    remark = "who came last is known of the last 1 collectives only"
    assert times_of(dropped, 7, "Cell In[2]", {0: 4.0, 1: 4.0}).remark == remark
    whole = timeline(*spans, whole_from_s=(0.5, 0.0), dropped=(50, 0))
    assert times_of(whole, 7, "Cell In[2]", {0: 4.0, 1: 4.0}).remark == ""


# --- numbers -------------------------------------------------------------------------------------------


def test_the_load_imbalance_is_the_longest_computing_time_over_the_mean_less_one():
    assert UNEVEN.imbalance == pytest.approx(4.0 / 2.5 - 1)
    assert CellTimes("c", (WorkerTime(0, 1.0, 1.0), WorkerTime(1, 1.0, 2.0))).imbalance == 0.0


@pytest.mark.parametrize(
    ("workers", "is_even"),
    [
        ([WorkerTime(0, 0.0001), WorkerTime(1, 0.001)], True),  # less than a millisecond apart
        ([WorkerTime(0, 10.0), WorkerTime(1, 10.4)], True),  # less than a twentieth
        ([WorkerTime(0, 10.0), WorkerTime(1, 10.6)], False),
        ([WorkerTime(0, 10.0, 1.0), WorkerTime(1, 10.0, 2.0)], False),  # a collective made them equal
        ([WorkerTime(3, 10.0, 5.0)], True),
    ],
)
def test_workers_are_even_where_times_computing_and_waiting_are(workers, is_even):
    assert CellTimes("c", tuple(workers)).is_even is is_even


def test_the_straggler_is_who_was_waited_for_longest():
    assert UNEVEN.last.worker == 1
    assert UNEVEN.sentence == (
        "load imbalance 60 %; worker 1 came last to 2 of 2 collectives, the others waited 3.00 s for it, "
        "all together"
    )


def test_where_nobody_was_waited_for_it_is_who_computed_longest():
    times = CellTimes("c", (WorkerTime(0, 1.0), WorkerTime(1, 4.0), WorkerTime(2, 1.0, 0.0, 1, 0.0001)))
    assert times.last.worker == 1
    assert times.sentence == "load imbalance 100 %; worker 1 computed 2.00 s longer than the mean"


def test_nobody_is_called_a_straggler_by_chance():
    # Of four, each came last about as often; the third one a little longer.
    waits = [(20, 0.3), (19, 0.25), (22, 0.4), (19, 0.25)]
    times = CellTimes("c", tuple(WorkerTime(w, 2.0 + w, 0.5, *each) for w, each in enumerate(waits)), 80)
    assert times.last is None
    assert times.sentence == "load imbalance 50 %; no worker stands out"
    assert "last" not in repr(times).partition("\n")[2]
    assert 'class="last"' not in times._repr_mimebundle_()["text/html"]


def test_who_computes_hardly_longer_than_the_others_is_no_straggler():
    times = CellTimes("c", (WorkerTime(0, 10.0, 1.0), WorkerTime(1, 10.0, 2.0), WorkerTime(2, 10.0, 1.4)))
    assert (times.is_even, times.last) == (False, None)


# --- text ----------------------------------------------------------------------------------------------


def test_workers_that_do_not_differ_are_one_line():
    assert repr(EVEN) == "time [0-1] 1.00 - 1.02 s, of that 500 - 510 ms waiting for others"
    assert repr(CellTimes("c", (WorkerTime(2, 0.0312),))) == "time [2] 31.2 ms"
    assert repr(CellTimes("c", (WorkerTime(0, 8e-6), WorkerTime(1, 12e-6)))) == "time [0-1] 8 - 12 \u00b5s"


def test_workers_that_differ_are_a_table_with_bars():
    lines = repr(UNEVEN).splitlines()
    assert lines[0] == f"time of Cell In[2]: {UNEVEN.sentence}"
    assert lines[1:] == [
        "worker   total  computing  waiting",
        f"[0]     4.00 s     1.00 s   3.00 s  {'█' * 6}{'░' * 18}",
        f"[1]     4.00 s     4.00 s     0 ms  {'█' * 24} last",
    ]


@pytest.mark.parametrize("workers", [EVEN.workers, UNEVEN.workers])
def test_what_is_missing_is_said_at_the_end(workers):
    assert repr(CellTimes("c", workers, 1, "something is missing")).splitlines()[-1] == "something is missing"


# --- HTML ----------------------------------------------------------------------------------------------


def test_the_table_has_a_bar_per_worker_in_proportion_to_the_longest_one():
    page = html_of(UNEVEN)
    first, second = page.findall(".//tbody/tr")
    assert [cell.text for cell in first.findall("td")][:3] == ["4.00 s", "1.00 s", "3.00 s"]
    bar = first.find(".//span[@role='img']")
    assert bar.get("aria-label") == "computing 1.00 s, waiting 3.00 s"
    assert [re.match(r"width:([\d.]+)%", part.get("style"))[1] for part in bar] == ["25.0", "75.0"]
    assert (first.get("class"), second.get("class")) == ("", "last")
    assert "".join(second.find("th").itertext()) == "[1] last"  # not by colour alone
    assert page.find(".//tfoot") is None


def test_the_legend_and_what_is_missing_stand_in_the_table():
    page = html_of(CellTimes("<c>", UNEVEN.workers, 1, "something is missing"))
    assert "".join(page.find(".//tfoot").itertext()) == "something is missing"
    assert "".join(page.find(".//thead").itertext()).endswith("computing  waiting for others")
    assert "".join(page.find(".//caption").itertext()).startswith("time of <c>: load imbalance 60 %")


def test_an_even_cell_is_a_line_there_too():
    page = html_of(EVEN)
    assert page.find(".//table") is None
    assert "".join(page.itertext()) == repr(EVEN)


# --- in a notebook -------------------------------------------------------------------------------------


def test_a_cell_s_times_are_shown_before_its_value(crew):
    crew.run("%%disco --time\n5")
    assert re.match(r"time (of Cell|\[0)", crew.lines[0])
    assert crew.lines[-1].endswith("] 5")


def test_who_keeps_the_others_waiting_is_named(four):
    # The last one comes when the others have been in the barrier for long enough to be no noise.
    source = (
        "import time\n"
        "from disco_magic.session.current import session\n"
        "plane = session()._launcher.plane\n"
        "for _ in range(3):\n"
        "    if worker_id == 2:\n"
        "        while len(plane.waiting) < 3 or min(map(plane.waiting_s, (0, 1, 3))) < 0.005:\n"
        "            pass\n"
        "    barrier()"
    )
    four.run(f"%%disco --time\n{source}")
    assert "worker 2 came last to 3 of 3 collectives, the others waited" in four.lines[0]
    assert re.fullmatch(r"\[2\] .* 0 ms  █+ last", four.lines[4])
    assert all("░" in four.lines[line] for line in (2, 3, 5))


def test_a_notebook_shows_html(kernel):
    ran = kernel.ok("%%disco --time\npass")
    (shown,) = [each["data"] for each in ran.displays if "time" in each["data"]["text/plain"]]
    assert shown["text/html"].startswith(("<div", "<style>"))
    assert "time [0" in shown["text/plain"] or "time of Cell" in shown["text/plain"]


def test_the_help_says_what_an_imbalance_is(shell):
    shell.run("%%disco -h\npass")
    assert "longest / mean computing time - 1" in " ".join(shell.out.split())


def many(worker):
    """One of 64, of which number 40 computes all the time, and those from 50 on wait a little less."""
    if worker == 40:
        return WorkerTime(worker, 4.0, 0.0, 1, 180.0)
    return WorkerTime(worker, 4.0, 3.0 if worker < 50 else 2.9)


def test_of_many_workers_those_that_do_not_differ_are_one_row_and_the_straggler_is_alone():
    times = CellTimes("Cell In[2]", tuple(map(many, range(64))), 1)
    lines = repr(times).splitlines()[1:]
    assert [line.split() for line in lines] == [
        ["worker", "total", "computing", "waiting"],
        ["[0-39,41-63]", "4.00", "s", "1.00", "-", "1.10", "s", "2.90", "-", "3.00", "s", "█" * 6 + "░" * 18],
        ["[40]", "4.00", "s", "4.00", "s", "0", "ms", "█" * 24, "last"],
    ]
    rows = html_of(times).findall(".//tbody/tr")
    assert ["".join(row.find("th").itertext()) for row in rows] == ["[0-39,41-63]", "[40] last"]
    assert [row.get("class") for row in rows] == ["", "last"]


def test_of_many_workers_those_that_differ_have_rows_of_their_own():
    times = CellTimes("c", tuple(WorkerTime(w, 10.0, 5.0 if w % 2 else 6.0) for w in range(12)))
    assert [row[0] for row in times.rows()] == ["[0-10:2]", "[1-11:2]"]
    few = CellTimes("c", times.workers[:8])
    assert len(few.rows()) == 8


@pytest.mark.parametrize("n", [3, 64])
@pytest.mark.parametrize("show", [repr, html_of], ids=["text", "html"])
def test_who_was_last_is_found_once_for_all_rows(monkeypatch, n, show):
    """For each row it took time in the square of how many workers there are."""
    times, asked, longest = CellTimes("Cell In[2]", tuple(WorkerTime(w, 1.0 + w) for w in range(n))), [], []
    of, last = CellTimes._longest, CellTimes.last.fget
    monkeypatch.setattr(CellTimes, "_longest", lambda self: longest.append(1) or of(self))
    monkeypatch.setattr(CellTimes, "last", property(lambda self: asked.append(1) or last(self)))
    show(times)
    assert len(asked) + len(longest) < 40
