"""What is in a register: a table of it, and one part of it looked at closely."""

from __future__ import annotations

import re
from html import escape

import pytest

from disco_magic.errors import UnknownName
from disco_magic.notebook.inspector import faces
from tests.notebook.inspector.user import detail, look_at, message, press, until

PARAMS = "params = {'w': np.full((3, 4), worker_id + 1.0), 'layers': [np.zeros(2), np.arange(6.0)], 'n': 3}"


def options(inspector):
    return [label for label, _ in inspector._detail.part.list.options]


def hidden(control):
    return control.layout.display == "none"


def test_of_a_register_that_holds_arrays_one_can_be_chosen(inspector, session):
    session.run(PARAMS)
    inspector.refresh()
    look_at(inspector, "x")
    assert hidden(inspector._detail.part.list)
    look_at(inspector, "params")
    assert not hidden(inspector._detail.part.list)
    assert options(inspector) == [
        "all of it",
        "['w'] \u00b7 float64 3\u00d74",
        "['layers'][0] \u00b7 float64 2",
        "['layers'][1] \u00b7 float64 6",
    ]
    assert "3 items" in detail(inspector)
    inspector._detail.part.list.value = "['w']"
    assert "params['w']: statistics of all elements" in detail(inspector)
    assert "| [2] | float64 3\u00d74 | cpu | 96 B | 3 | 3 | 3 |" in detail(inspector)
    inspector._detail.part.list.value = ""
    assert "params['w']" not in detail(inspector)


def test_the_summary_of_what_has_parts_is_a_table_of_them(inspector, session):
    session.run(PARAMS + "; params['layers'][0][1] = np.nan; params['layers'][1][5] += worker_id == 1")
    inspector.refresh()
    look_at(inspector, "params")
    shown = detail(inspector)
    assert "params: 4 parts, 2 differ between workers (\u2260), 1 has NaN or Inf" in shown
    names = re.findall(r"\| (?:\u2260 )?(\[\S*\]) \| ", shown)
    assert names == ["['w']", "['layers'][1]", "['layers'][0]", "['n']"]
    assert "[1] 1 of 6 elements differs from worker 0's, by up to 1, at [5]" in shown
    assert "0 except 1 NaN" in shown
    assert 'title="params[&#x27;w&#x27;]"' in inspector._detail.html
    session.run("params['layers'][1][5] = 5")
    inspector.refresh()
    assert "params: 4 parts, 1 differs" in detail(inspector)


def test_of_many_parts_the_first_are_drawn(inspector, session):
    session.run("params = {i: np.zeros(1) for i in range(310)}")
    inspector.refresh()
    look_at(inspector, "params")
    assert "and 10 more" in detail(inspector)


@pytest.mark.parametrize(("budget", "said"), [(faces._BUDGET, "all 0"), (1, "all \u22480")])
def test_parts_of_a_large_register_are_looked_at_in_part(inspector, session, monkeypatch, budget, said):
    monkeypatch.setattr(faces, "FEW_NBYTES", 1000)
    monkeypatch.setattr(faces, "_BUDGET", budget)
    session.run("params = {'w': np.zeros(3000), 'v': np.zeros(10)}")
    inspector.refresh()
    look_at(inspector, "params")
    assert said in detail(inspector)


def test_an_object_without_arrays_has_no_columns_of_statistics(inspector, session):
    session.run("class Tokenizer: pass\ntokenizer = Tokenizer()")
    inspector.refresh()
    look_at(inspector, "tokenizer")
    assert "| worker | type | device | bytes | value |" in detail(inspector)
    assert "statistics" not in detail(inspector)


def test_what_is_dropped_while_it_is_looked_into_is_no_end_of_the_inspector(inspector, session, monkeypatch):
    session.run(PARAMS)
    inspector.refresh()

    def gone(*_, **__):
        raise UnknownName("no register 'params'")

    monkeypatch.setattr(type(session), "look_into", gone)
    look_at(inspector, "params")
    assert "3 items" in detail(inspector)
    assert message(inspector) == ""


@pytest.mark.parametrize("face", ["summary", "heatmap", "histogram", "values", "difference"])
def test_every_face_draws_a_part(inspector, session, face):
    session.run(PARAMS)
    inspector.refresh()
    look_at(inspector, "params['w']", face)
    until(lambda: escape("params['w']") in inspector._detail.html, inspector)
    assert message(inspector) == ""


def test_a_part_stays_chosen_while_it_is_there(inspector, session):
    session.run(PARAMS)
    inspector.refresh()
    look_at(inspector, "params['layers'][1]")
    session.run("params['layers'][1] += 1; params['more'] = np.ones(2)")
    inspector.refresh()
    assert "params['layers'][1]: statistics" in detail(inspector)
    assert "| 1 | 3.5 | 6 |" in detail(inspector)
    assert "['more'] \u00b7 float64 2" in options(inspector)
    session.run("params['layers'] = [params['layers'][1]]")
    inspector.refresh()
    assert inspector._detail.part.list.value == ""
    assert "params: 4 parts" in detail(inspector)
    assert message(inspector) == ""


def test_a_part_of_some_workers_only_can_be_chosen(inspector, session):
    session.run("params = {'a': np.ones(2), **({'b': np.ones(3)} if worker_id == 2 else {})}")
    inspector.refresh()
    look_at(inspector, "params['b']")
    assert "| [0] | no value" in detail(inspector)
    assert "| float64 3 | cpu | 24 B | 1 | 1 | 1 |" in detail(inspector)
    assert message(inspector) == ""


def test_the_part_of_one_register_is_not_looked_for_in_the_next(inspector, session):
    session.run(PARAMS + "; others = {'w': np.zeros(1)}")
    inspector.refresh()
    look_at(inspector, "params['w']")
    look_at(inspector, "others")
    assert inspector._detail.row.name == "others"
    look_at(inspector, "params['w']")
    inspector._detail.register.value = "others"
    assert inspector._detail.row.name == "others"
    look_at(inspector, "params['w']")
    look_at(inspector, "params")
    assert inspector._detail.row.name == "params"
    assert inspector._detail.part.list.value == ""


@pytest.mark.parametrize("part", ["['n']", "['layers']", "['many'][300]", '["w"]'])
def test_a_part_that_is_not_in_the_list_is_drawn_if_it_is_asked_for(inspector, session, part):
    session.run(PARAMS + "; params['many'] = [np.ones(1)] * 301")
    inspector.refresh()
    look_at(inspector, f"params{part}")
    assert inspector._detail.row.name == f"params{part}"
    assert options(inspector)[-1] == part
    inspector.refresh()
    assert inspector._detail.row.name == f"params{part}"


def test_a_register_that_goes_while_a_part_of_it_is_drawn_is_drawn_no_more(inspector, session):
    session.run(PARAMS)
    inspector.refresh()
    look_at(inspector, "params['w']")
    session.run("del params")
    inspector._detail.face.value = "Histogram"  # drawn of what was looked at last
    assert "register 'params' is not defined on any worker" in message(inspector)
    inspector.refresh()
    assert inspector._detail.row is None
    assert message(inspector) == ""


def test_a_part_is_watched_by_itself(inspector, session, front):
    session.run(PARAMS)
    inspector.refresh()
    look_at(inspector, "params['w']")
    press(inspector, "Watch")
    assert "the statistics of params['w'] are noted" in message(inspector)
    front.shell.execution_count = 2
    session.run("params['w'] += 1")
    inspector.cell_ended()
    inspector._detail.face.value = "Over cells"
    assert escape("mean of params['w'] after each cell") in inspector._detail.html
    press(inspector, "Unwatch")


def test_the_still_is_of_the_part(inspector, session):
    session.run(PARAMS)
    inspector.refresh()
    look_at(inspector, "params['w']")
    still = inspector.bundles()[0]
    assert "params['w']" in str(still)
