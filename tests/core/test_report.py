"""The report of a check: its sentences, its table, its error."""

from __future__ import annotations

import pickle

import pytest

from disco_magic.core.check_row import CheckRow
from disco_magic.core.circles import Circles
from disco_magic.core.held import Held
from disco_magic.core.report import CheckReport
from disco_magic.errors import Divergence
from tests.core.held import DOUBLE, FLOAT, INT, report, value


def test_a_report_that_differs_is_false_and_raises_one_sentence_a_table_and_what_to_do():
    checked = report(*[{"w": FLOAT, "b": FLOAT}] * 3, {"w": DOUBLE, "b": FLOAT})
    assert not checked
    assert [row.name for row in checked.differing] == ["w"]
    with pytest.raises(Divergence) as caught:
        checked.raise_if_differing()
    assert caught.value.report is checked
    assert str(caught.value).split("\n") == [
        "Cell In[7]: 'w' differs: float32 (3, 4) on workers [0-2], float64 (3, 4) on worker 3",
        "",
        "≠ w  dtype  [0-2]  float32 (3, 4)",
        "            [3]    float64 (3, 4)",
        "",
        "No register was changed: session[name].get_all() has the values.",
        "Give what is meant to differ a name that begins with an underscore: such names are not compared.",
    ]


@pytest.mark.parametrize(
    ("names", "also"), [("a", ""), ("ab", ", and 1 more differs"), ("abc", ", and 2 more differ")]
)
def test_the_sentence_tells_the_first_register_and_counts_the_others(names, also):
    checked = report(dict.fromkeys(names, FLOAT), dict.fromkeys(names, DOUBLE))
    assert checked.message.split("\n")[0].endswith(f"float64 (3, 4) on worker 1{also}")


def test_the_sentence_has_three_values_and_the_table_all():
    lines = report(*({"w": Held("ndarray", (n,), "float32", "cpu")} for n in range(8))).message.split("\n")
    told = ", ".join(f"float32 ({n},) on worker {n}" for n in range(3))
    assert lines[0] == f"Cell In[7]: 'w' differs: {told}, others on workers [3-7]"
    assert [line.split()[-1] for line in lines[2:10]] == [f"({n},)" for n in range(8)]


def test_values_that_differ_come_with_advice_on_marks_and_how_far_they_are_apart():
    row = CheckRow(
        "w", {0: value("", b"\x01"), 1: value("", b"\x02")}, Circles(((0, 1),)), by_value=True, gap="by 3"
    )
    message = CheckReport("Cell In[7]", (0, 1), (row,)).message
    assert "`del` drops the mark" in message
    named = CheckReport("Disco session 1", (0, 1), (row,), named=True).message
    assert named.splitlines()[-2:] == [
        "No register was changed: session[name].get_all() has the values.",
        "Equal means bit for bit: 0.0 is not -0.0.",
    ]
    assert row.lines()[-1] == ("", "", "by 3")


def test_a_report_without_differences_is_true_and_raises_nothing():
    checked = report({"w": FLOAT}, {"w": FLOAT})
    checked.raise_if_differing()
    assert checked
    assert len(checked) == 1
    assert repr(checked).split("\n") == [
        "Cell In[7]: [0-1] agree on type and shape of: w",
        "  w  same type  [0-1]  float32 (3, 4)",
    ]


def test_of_hundreds_of_rows_the_error_shows_the_first_twenty_and_the_report_has_all():
    names = [f"r{number}" for number in range(300)]
    checked = report(dict.fromkeys(names, FLOAT), dict.fromkeys(names, DOUBLE))
    with pytest.raises(Divergence) as caught:
        checked.raise_if_differing()
    lines = str(caught.value).split("\n")
    assert lines[0].endswith("and 299 more differ")
    assert sum(line.startswith("≠ r") for line in lines) == 20
    assert "... and 280 more: the error's `report` has all of them" in lines
    assert len(caught.value.report.differing) == 300
    assert " more: " not in report(dict.fromkeys(names[:20], FLOAT), dict.fromkeys(names[:20], INT)).message


def test_a_row_is_found_by_its_name_and_by_its_place_in_the_iteration():
    checked = report({"a": FLOAT, "b": INT}, {"a": FLOAT, "b": FLOAT})
    rows = list(checked)
    assert [checked[place] for place in range(len(checked))] == rows
    assert [checked[row.name] for row in rows] == rows
    assert checked[-1] is rows[1]
    assert checked[:1] == tuple(rows[:1])
    assert "a" in checked
    assert rows[0] in checked
    assert "c" not in checked
    with pytest.raises(KeyError, match="no row 'c'; there are: a, b"):
        checked["c"]
    with pytest.raises(IndexError):
        checked[2]


def test_a_report_of_nothing_says_so():
    assert repr(report({}, {})) == "Cell In[7]: [0-1] no registers to compare"


def test_the_line_that_says_what_agrees_stays_short():
    names = [f"r{number}" for number in range(9)]
    checked = report(*[dict.fromkeys(names, INT)] * 2, by_value=["r0"])
    assert (
        checked.summary == "[0-1] agree on: r0; agree on type and shape of: r1, r2, r3, r4, r5, r6 and 2 more"
    )


def test_names_that_no_worker_has_have_no_row():
    with pytest.raises(KeyError):
        report({"w": FLOAT}, {"w": FLOAT}, names=["w", "gone"])["gone"]


def test_the_error_survives_pickling_with_its_report():
    checked = report({"w": FLOAT}, {"w": DOUBLE})
    error = Divergence(checked.message, checked)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.report) == (str(error), checked)


def test_of_thousands_of_lines_the_error_shows_the_first_sixty():
    workers = 100
    cells = {worker: value(f"[{worker}]", bytes([worker])) for worker in range(workers)}
    pairs = tuple((worker, worker + 1) for worker in range(0, workers, 2))
    row = CheckRow("w", cells, Circles(pairs, tuple(f"tp={n}" for n in range(50)), "dp"), by_value=True)
    report = CheckReport("Cell In[7]", tuple(range(workers)), (row,))
    lines = report.message.splitlines()
    assert lines[2].startswith("\u2260 w  tp=0 value   [0]")
    assert "... and 40 more lines" in lines
    assert len(lines) < 70
    assert len(repr(report).splitlines()) == 1 + workers


def test_what_differs_comes_first_in_the_table_and_rows_keep_their_order():
    checked = report({"a": FLOAT, "w": FLOAT, "z": INT}, {"a": FLOAT, "w": DOUBLE, "z": INT})
    assert [row.name for row in checked.rows] == ["a", "w", "z"]
    assert [row.name for row in checked.shown] == ["w", "a", "z"]
    named = [line.split()[:2] for line in repr(checked).splitlines()[1:]]
    assert named == [["≠", "w"], ["[1]", "float64"], ["a", "same"], ["z", "same"]]
