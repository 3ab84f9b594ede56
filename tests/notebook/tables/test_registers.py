"""What %disco registers shows, and references to registers of themselves."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

from disco_magic.core.snapshot import RegisterInfo, Row, SessionSnapshot
from disco_magic.core.words import human_bytes
from disco_magic.notebook.completing import summary
from disco_magic.notebook.tables.registers import (
    dref_bundle,
    listing_bundle,
    parts_bundle,
    row_bundle,
    snapshot_bundle,
)
from disco_magic.session import dref
from disco_magic.session.current import session
from tests.conftest import DEADLINE_S


class Cells(HTMLParser):
    """Text of the cells of a table, and which of them are marked."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.odd, self._style = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            if ("class", "o") in attrs:
                self.odd.append((len(self.rows) - 1, len(self.rows[-1]) - 1))
        if tag == "br":
            self.rows[-1][-1] += " | "
        self._style = tag == "style"

    def handle_endtag(self, tag):
        self._style = False

    def handle_data(self, data):
        if self.rows and not self._style:
            self.rows[-1][-1] += data


def array(mark=b"a", **changes):
    given = {
        "shape": (2, 3),
        "dtype": "float32",
        "device": "cpu",
        "nbytes": 24,
        "minimum": 0.0,
        "mean": 1.5,
        "maximum": 3.0,
    }
    return RegisterInfo("ndarray", fingerprint=mark, **{**given, **changes})


def test_the_table_has_a_row_per_register_and_a_column_per_worker():
    snapshot = SessionSnapshot(
        7, 2, (Row("x", (array(), array(b"b"))), Row("n", (RegisterInfo("int", text="1"), None)))
    )
    cells = Cells(snapshot_bundle(snapshot)["text/html"])
    assert cells.rows == [
        ["register", "type", "bytes", "worker 0", "worker 1"],
        ["\u2260\u00a0x", "float32 2\u00d73", "24 B", *[" 1.5 | 0 \u2026 3"] * 2],
        ["\u2260\u00a0n", "int", "", "1", "\u2260\u00a0no value"],
        ["total", "", "", "24 B", "24 B"],
    ]
    assert cells.odd == [(2, 4)]


def test_what_all_workers_have_alike_is_one_cell():
    gpus = [array(device=f"cuda:{worker}", sampled=True) for worker in range(2)]
    things = RegisterInfo("list", text="[1]")
    snapshot = SessionSnapshot(
        7,
        2,
        (
            Row("x", (array(), array())),
            Row("g", tuple(gpus)),
            Row("n", (things,) * 2),
            Row("u", (None,) * 2),
        ),
    )
    html = snapshot_bundle(snapshot)["text/html"]
    kind, numbers = "float32 2\u00d73", "1.5 | 0 \u2026 3"
    assert Cells(html).rows[1:-1] == [
        ["x", kind, "24 B", f" {numbers} \u00b7 the same on all"],
        [
            "g",
            f"{kind} | cuda:0, cuda:1",
            "24 B",
            " \u22481.5 | 0 \u2026 3 \u00b7 no difference in the sample",
        ],
        ["n", "list", "", "[1] \u00b7 of this type on all"],
        ["u", "", "", "no value", "no value"],
    ]
    assert html.count('colspan="2"') == 3
    alone = snapshot_bundle(SessionSnapshot(7, 1, (Row("n", (things,)),)))["text/html"]
    assert "on all" not in alone


def test_cells_that_differ_are_marked_by_a_sign_and_a_border():
    row = Row("x", (array(), array(b"b"), array(), None))
    bundle = snapshot_bundle(SessionSnapshot(1, 4, (row,)))
    cells = Cells(bundle["text/html"])
    assert cells.odd == [(1, 4), (1, 6)]
    assert [text.startswith("\u2260") for text in cells.rows[1][3:]] == [False, True, False, True]
    marked = [line for line in bundle["text/plain"].splitlines() if line.startswith("\u2260")]
    assert [line.split("[")[1][0] for line in marked] == ["1", "3"]
    assert "no value" in marked[1]


def test_what_an_inspector_has_chosen_is_listed_with_what_keeps_it_below_the_sums_of_all():
    info = array(text="1")
    snapshot = SessionSnapshot(7, 2, (Row("x", (info,) * 2), Row("#5", (info,) * 2), Row("y", (info, None))))
    bundle = listing_bundle(snapshot, snapshot.rows[1:], {"#5": "Out[<2>]", "#6": "z"})
    names = [row[0] for row in Cells(bundle["text/html"]).rows[1:]]
    assert names == ["#5 | Out[<2>]", "\u2260\u00a0y", "total"]
    assert Cells(bundle["text/html"]).rows[-1][3:] == ["72 B", "48 B"]
    assert "3 registers, 1 differs between workers (\u2260), 2 shown</div>" in bundle["text/html"]
    first, second, *_ = bundle["text/plain"].splitlines()
    assert first.endswith(", 2 shown")
    assert second.startswith("  #5 (Out[<2>])  [0-1] float32")


def test_names_and_values_are_escaped():
    info = RegisterInfo("str", text="'<script>'")
    html = snapshot_bundle(SessionSnapshot(1, 1, (Row("x", (info,)),)))["text/html"]
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_session_without_registers_has_a_table_too():
    bundle = snapshot_bundle(SessionSnapshot(1, 2, ()))
    assert "0 registers" in bundle["text/plain"]
    assert Cells(bundle["text/html"]).rows[-2:] == [
        ["no register to show"],
        ["total", "", "", "0 B", "0 B"],
    ]


def test_statistics_of_a_sample_say_so_and_a_single_element_shows_its_value():
    text = row_bundle(Row("x", (array(sampled=True), array(b"b", shape=(), text="5.0"))))["text/plain"]
    assert "max 3 (sample)" in text.splitlines()[0]
    assert text.splitlines()[1].endswith("5.0")


@pytest.mark.parametrize(
    ("changes", "content"),
    [
        ({"nans": 0, "infs": 0}, "min 0 mean 1.5 max 3"),
        ({"nans": 3, "infs": 0}, "min 0 mean 1.5 max 3 \u00b7 3 NaN"),
        (
            {"nans": 3, "infs": 1200, "sampled": True},
            "min 0 mean 1.5 max 3 (sample) \u00b7 3 NaN \u00b7 1,200 Inf",
        ),
        ({"minimum": None, "mean": None, "maximum": None, "nans": 6, "infs": 0}, "6 NaN"),
        (
            {"minimum": None, "mean": None, "maximum": None, "nans": 1, "infs": 1, "text": "[nan inf]"},
            "[nan inf] \u00b7 1 NaN \u00b7 1 Inf",
        ),
        ({"minimum": None, "mean": None, "maximum": None, "nans": 1, "shape": (), "text": "nan"}, "nan"),
    ],
)
def test_what_is_not_finite_is_counted(changes, content):
    assert row_bundle(Row("x", (array(**changes),)))["text/plain"].endswith(f" \u00b7 {content}")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (64 << 20, "64 MiB"), (1 << 50, "1,024 TiB")],
)
def test_bytes_read_like_sizes(count, text):
    assert human_bytes(count) == text


def test_the_table_says_how_many_registers_were_compared_by_type_only(four):
    four.run("%%disco\nimport threading as _threading\nx = np.ones(2)\nl = [_threading.Lock()]")
    text = snapshot_bundle(four.run("%disco registers"))["text/plain"]
    assert "2 registers, 1 compared by type only" in text


def test_what_is_in_a_register_is_a_table_of_its_parts(session):
    s = session(3)
    s.run("p = {'w': np.arange(4) + (worker_id == 2), 'lr': 0.1}")
    bundle = parts_bundle(s.look_into("p"))
    html = bundle["text/html"]
    assert html.count("<tr>") == 5  # the head, the register, two parts, and in what one differs
    assert ">p: 2 parts, 1 differs between workers (\u2260)</div>" in html
    assert '<td colspan="3">[2] 4 of 4 elements differ from worker 0&#x27;s, by up to 1</td>' in html
    assert bundle["text/plain"] == repr(s.look_into("p"))
    s.run("p = {n: np.zeros(1) for n in range(305)}")
    assert ' colspan="6">and 5 more, in its .rows</th>' in parts_bundle(s.look_into("p"))["text/html"]


def test_how_far_a_register_without_parts_is_apart_is_in_its_table_too(session):
    # The text said it, and the table in a notebook did not.
    s = session(2)
    s.run("x = np.arange(4) + worker_id")
    assert "[1] 4 of 4 elements differ" in parts_bundle(s.look_into("x"))["text/html"]


@pytest.mark.parametrize("num_workers", [2, 64, 200])
def test_a_still_of_many_registers_shows_300_those_that_differ_first(num_workers):
    one, other = RegisterInfo("int", text="1"), RegisterInfo("str", text="x")
    alike = [Row(f"r{number}", (one,) * num_workers) for number in range(400)]
    odd = Row("odd", (*[one] * (num_workers - 1), other))
    snapshot = SessionSnapshot(1, num_workers, (*alike, odd))
    bundle = snapshot_bundle(snapshot)
    assert listing_bundle(snapshot, snapshot.rows, {}) == bundle
    lines = bundle["text/plain"].splitlines()
    assert "401 registers, 1 differs" in lines[0]
    assert " odd " in lines[1] + lines[2]
    assert lines[-2] == "and 101 more, in .rows of session.registers()"
    assert bundle["text/html"].count('<th scope="row">') == 300 + 1  # and the total
    assert "and 101 more, in .rows of session.registers()" in bundle["text/html"]


def test_marks_of_many_registers_are_left_out(four, monkeypatch):
    monkeypatch.setattr(summary, "MOST", 7)
    four.run("%%disco\na = b = 1\nif worker_id: a = 'x'")
    assert summary.marks(session(), ["a"]) == {"a": "register\u00a0\u2260"}
    assert summary.marks(session(), ["a", "b"]) == {"a": "register", "b": "register"}


def test_a_reference_shows_itself_without_asking_the_workers(four):
    four.run("%%disco\nx = np.ones(3)")
    four.ip.user_ns["d"] = session()["x"]
    session().sync_all()
    bundle = dref_bundle(four.ip.user_ns["d"])
    first, *rows = bundle["text/plain"].splitlines()
    assert first.endswith(f"on 4 workers of session {session().id}>")
    assert len(rows) == 1
    assert "[0-3] float64 3" in rows[0]
    assert bundle["text/html"].count("<td>float64 3</td>") == 1
    four.run("d")
    assert "float64 3" in four.out


def test_a_reference_that_was_just_made_shows_its_value(four, monkeypatch):
    monkeypatch.setattr(dref, "_MOMENT_S", DEADLINE_S)  # on a busy machine a worker may not run for a tenth
    for _ in range(20):
        text = dref_bundle(session().call_packed(np.ones, 3))["text/plain"]
        assert "[0-3] float64 3" in text


def test_a_reference_that_takes_long_says_that_its_value_is_not_there_yet(four, gate):
    ref = session().call_packed(gate)
    bundle = dref_bundle(ref)
    assert bundle["text/plain"].count("not there yet") == 1
    assert bundle["text/html"].count("<i>not there yet</i>") == 4
    assert "differs" not in Cells(bundle["text/html"]).rows[1][1]
    gate.open()


def test_a_reference_whose_session_has_ended_says_so(four):
    ref = session().call_packed(np.ones, 3)
    four.run("%disco stop")
    assert dref_bundle(ref)["text/plain"] == repr(ref)
    assert "closed" in repr(ref)
