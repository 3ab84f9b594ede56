"""Registers of more workers than there is room for columns: the inspector, tables and their text."""

from __future__ import annotations

import re

import pytest

from disco_magic import ThreadedSession
from disco_magic.notebook.inspector.panel import Inspector
from disco_magic.notebook.tables.registers import snapshot_bundle
from tests.notebook.inspector.conftest import text_of
from tests.notebook.inspector.user import detail, look_at, table


@pytest.fixture
def session(front):
    with ThreadedSession(12) as made:
        front.sessions.session = made
        made.run("w = np.full(3, float(worker_id in (5, 7))); n = worker_id; same = 'a'; model = {'w': w}")
        yield made


@pytest.fixture
def inspector(front, session, refresher):
    return Inspector(front)


def test_there_is_a_line_per_value_and_the_workers_that_differ_are_marked(inspector):
    shown = table(inspector)
    assert "| [0-4,6,8-11] all 0 | \u2260 [5,7] all 1" in shown
    assert "| [0] 0 | [1] 1 | [2] 2 | [3-11] 9 other values" in shown
    assert "'a' \u00b7 the same on all" in shown
    assert "worker 0" not in shown


def test_eight_of_them_can_have_columns(inspector, session):
    workers = inspector._toolbar._workers
    assert workers.layout.display != "none"
    assert [label for label, _ in workers.options] == ["by value", "0 to 7", "8 to 11"]
    workers.value = workers.options[2][1]
    assert "worker 8 | worker 9 | worker 10 | worker 11 |" in table(inspector)
    assert "worker 7" not in table(inspector)
    session.run("later = 100 + worker_id")
    inspector.refresh()
    assert "| 108 | 109 | 110 | 111 |" in table(inspector)


def test_the_ninth_of_nine_workers_is_no_range(front, refresher):
    with ThreadedSession(9) as nine:
        front.sessions.session = nine
        labels = [label for label, _ in Inspector(front)._toolbar._workers.options]
    assert labels == ["by value", "0 to 7", "8"]


def test_a_session_of_few_workers_afterwards_has_a_column_for_each(inspector, session, front):
    workers = inspector._toolbar._workers
    workers.value = workers.options[1][1]
    session.shutdown()
    with ThreadedSession(2) as few:
        front.sessions.session = few
        few.run("n = worker_id")
        inspector.refresh()
        assert "worker 0 | worker 1 |" in table(inspector)
        assert "worker 2" not in table(inspector)
        assert workers.layout.display == "none"


def test_the_parts_of_a_model_have_lines_too(inspector):
    look_at(inspector, "model")
    assert "['w'] | float64 3 | 24 B | | [0-4,6,8-11] all 0 | \u2260 [5,7] all 1" in detail(inspector)


def test_still_tables_and_text_do_the_same(session):
    bundle = snapshot_bundle(session.registers())
    page = text_of(bundle["text/html"])
    assert "[0-4,6,8-11] all 0" in page
    assert "\u2260 [5,7] all 1" in page
    assert "[3-11] 9 other values" in page
    assert set(re.findall('colspan="[0-9]+"', bundle["text/html"])) == {'colspan="1"'}  # below one head
    lines = [" ".join(line.split()) for line in bundle["text/plain"].splitlines()]
    assert "\u2260 [5,7] float64 3 \u00b7 cpu \u00b7 24 B \u00b7 min 1 mean 1 max 1" in lines
    # None of these is the right one, but the register counts as one that differs.
    assert "\u2260 n [0] int \u00b7 0" in lines
    assert "\u2260 [3-11] 9 other values" in lines
    assert len([line for line in lines if "other values" in line]) == 1


def test_looked_at_closely_workers_that_hold_the_same_have_one_line(inspector):
    look_at(inspector, "w")
    said = detail(inspector)
    assert "[0-4,6,8-11] | float64 3" in said
    assert "[5,7] \u2260 | float64 3" in said
    assert said.count("float64 3") == 2
    look_at(inspector, "n")
    assert detail(inspector).count("int") == 12  # each has its own


def test_drawn_they_share_a_picture(inspector):
    for face in ("heatmap", "histogram"):
        look_at(inspector, "w", face)
        assert "[0-4,6,8-11]" in detail(inspector)
        assert "[5,7]" in detail(inspector)
        assert "[8]" not in detail(inspector)
