"""What Out[n] and %disco registers show."""

from __future__ import annotations

import base64
import re
from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest
from IPython.core import formatters

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
from disco_magic.notebook.tables.results import result_bundle, show_only
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
        ["\u2260 x", "float32 2\u00d73", "24 B", *[" 1.5 | 0 \u2026 3"] * 2],
        ["\u2260 n", "int", "", "1", "\u2260 no value"],
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
    assert [row[0] for row in Cells(bundle["text/html"]).rows[1:]] == ["#5 | Out[<2>]", "\u2260 y", "total"]
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


def test_equal_values_are_shown_once_under_their_workers(four):
    four.run("%%disco\nworker_id // 2")
    assert four.lines[-2:] == ["[0-1] 0", "[2-3] 1"]


def test_a_number_of_numpy_is_shown_as_numpy_prints_it(crew):
    crew.run("%%disco\nnp.float32(1.5)")
    assert crew.lines[-1].endswith("] 1.5")
    crew.run("%%disco\nnp.bool_(True)")
    assert crew.lines[-1].endswith("] True")


def test_none_everywhere_gives_no_out(crew):
    assert crew.run("%%disco\nNone") is None
    assert crew.run("%%disco\nx = 1") is None
    assert crew.run("%%disco\n1;") is None
    assert crew.out == ""


def test_none_on_some_workers_is_shown(four):
    assert four.run("%%disco\n1 if worker_id else None") is not None
    assert four.lines[-2:] == ["[0]   None", "[1-3] 1"]


def test_rows_of_an_array_stay_under_each_other(four):
    four.run("%%disco -w 1\nnp.eye(2)")
    assert four.lines[-2:] == ["[1] array([[1., 0.],", "           [0., 1.]])"]


def test_out_holds_the_values_of_all_workers(crew):
    result = crew.run("%%disco\nworker_id * 10")
    assert (result.values, result[0], len(result)) == ([10 * worker for worker in range(crew.n)], 0, crew.n)
    assert crew.ip.user_ns["_"] is result


def test_richer_values_get_a_section_per_group(four):
    result = four.run(
        "%%disco\nclass Rich:\n    def __repr__(self): return 'rich'\n"
        "    def _repr_html_(self): return f'<b>{worker_id}</b>'\n"
        "    def __reduce__(self): return (int, (worker_id // 2,))\n"
        "Rich() if worker_id < 3 else 5"
    )
    html = result_bundle(result)["text/html"]
    assert html.count("<b>") == len([1 for workers, data in result.groups() if "text/html" in data])
    assert "<pre>5</pre>" in html


@pytest.mark.parametrize(
    ("bundle", "expected"),
    [
        ({"text/plain": "t", "image/svg+xml": "<svg/>"}, "<svg/>"),
        ({"text/plain": "t", "image/png": b"\x89PNG"}, "data:image/png;base64,iVBORw=="),
        ({"text/plain": "t", "image/jpeg": "YWJj\n"}, "data:image/jpeg;base64,YWJj"),
        ({"text/plain": "t", "text/latex": "$a<b$"}, "<div>$a&lt;b$</div>"),
        ({"text/plain": "<t>", "application/json": "{}"}, "<pre>&lt;t&gt;</pre>"),
    ],
)
def test_every_form_of_a_value_fits_into_the_section(four, bundle, expected):
    result = four.run("%%disco -w 0\n1")
    result.shown[0] = bundle
    assert expected in result_bundle(result)["text/html"]


def test_markdown_is_left_to_the_front_end_and_beside_something_richer_shown_as_it_was_written(four):
    result = four.run("%%disco\nworker_id // 2")
    markdown = {
        worker: {"text/plain": "<Markdown>", "text/markdown": f"# <{worker // 2}>"} for worker in range(4)
    }
    result.shown.update(markdown)
    bundle = result_bundle(result)
    assert bundle["text/markdown"] == "`[0-1]`\n\n# <0>\n\n`[2-3]`\n\n# <1>"
    assert set(bundle) == {"text/plain", "text/markdown"}
    result.shown[0] = {"text/plain": "t", "text/markdown": "```\nis not closed"}
    assert "<pre>```\nis not closed</pre>" in result_bundle(result)["text/html"]
    result.shown[0] = {"text/plain": "t", "text/html": "<b>t</b>"}
    bundle = result_bundle(result)
    assert "<pre># &lt;1&gt;</pre>" in bundle["text/html"]
    assert "text/markdown" not in bundle


NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ('<svg width="1"/>', f'<svg{NAMESPACE} width="1"/>'),
        ('<?xml version="1.0"?>\n<svg><g/></svg>', f'<?xml version="1.0"?>\n<svg{NAMESPACE}><g/></svg>'),
        ('<!-- <svg> --><svg data-xmlns="a"/>', f'<!-- <svg> --><svg{NAMESPACE} data-xmlns="a"/>'),
        *((whole, whole) for whole in ('<svg xmlns="n"/>', '<svg label="a>b" xmlns = "n"/>')),
        *((whole, whole) for whole in ('<svg:svg xmlns:svg="n"/>', "no drawing")),
    ],
)
@pytest.mark.parametrize("kind", [str, str.encode])
def test_an_svg_gets_the_namespace_that_it_lacks_where_it_stands_alone(four, given, shown, kind):
    result = four.run("%%disco\nworker_id")
    result.shown.update({w: {"text/plain": "t", "image/svg+xml": kind(given)} for w in range(4)})
    found = re.findall(r"base64,([^\"]+)", result_bundle(result)["text/html"])
    assert [base64.b64decode(each).decode() for each in found] == [shown] * 4


def test_values_that_look_the_same_and_differ_say_in_what_in_every_form(four):
    table = "import pandas as pd\npd.DataFrame({'<a>': [1 + (worker_id == 2) * 1e-9]})"
    told = "≠ [2] ['<a>']: 1 of 1 elements differs from worker 0's, by up to 1e-09"
    result = four.run(f"%%disco\n{table}")
    assert four.lines[-1] == told
    html = result_bundle(result)["text/html"]
    assert f">{escape(told)}</span></div>" in html
    show_only(result, (0, 1))
    assert "≠" not in str(result_bundle(result))
    result = four.run(
        "%%disco\nclass Note:\n    def __init__(self): self.x = worker_id // 3\n"
        "    def __repr__(self): return 'x'\n    def _repr_markdown_(self): return '*x*'\nNote()"
    )
    assert result_bundle(result)["text/markdown"].splitlines()[-1] == "`≠ [3] .x: 1, worker 0's is 0`"


def test_figures_of_several_workers_stand_side_by_side_and_so_do_other_values(four):
    result = four.run("%%disco\nworker_id // 2")
    result.shown.update({worker: {"text/plain": "t", "image/png": b"\x89PNG"} for worker in range(4)})
    figures = result_bundle(result)["text/html"]
    assert figures.startswith('<div class="disco-figures"')
    assert (figures.count("<img"), figures.count("[0-1]"), figures.count("[2-3]")) == (2, 1, 1)
    result.shown[2] = {"text/plain": "t", "text/html": "<b>t</b>"}
    assert "display:flex;flex-wrap:wrap" in result_bundle(result)["text/html"]


def test_with_output_worker0_the_value_of_the_first_worker_that_ran_is_shown_and_all_are_kept(four):
    result = four.run("%%disco -w 1:4 --output worker0\nworker_id")
    assert result_bundle(result) == {"text/plain": "[1] 1"}
    assert result.values == [1, 2, 3]


def test_a_filter_goes_before_the_configured_output_of_one_worker(four):
    four.run("%config DiscoMagics.output = 'worker0'")
    result = four.run("%%disco --show 2\nprint(worker_id)\nworker_id")
    assert (four.lines, result_bundle(result)) == (["[2] 2", "[2] 2"], {"text/plain": "[2] 2"})


def test_plain_values_get_no_html(four):
    assert list(result_bundle(four.run("%%disco\n1"))) == ["text/plain"]


@pytest.mark.parametrize(
    ("kind", "value"), [(int, "3"), (list, "[3]"), (np.ndarray, "np.ones(3)"), (np.float64, "np.float64(2)")]
)
def test_plain_values_get_the_html_that_a_function_of_the_users_makes_for_their_class(four, kind, value):
    formatter = four.ip.display_formatter.formatters["text/html"]
    formatter.for_type(kind, lambda value: f"<b>{type(value).__name__}</b>")
    try:
        shown = four.run(f"%%disco\n{value}").shown
    finally:
        formatter.pop(kind)
    assert [each["text/html"] for each in shown.values()] == [f"<b>{kind.__name__}</b>"] * 4


def test_plain_values_get_the_form_of_a_formatter_of_the_users_that_asks_nobody(four):
    class Marked(formatters.HTMLFormatter):
        format_type = "text/x-marked"

        def __call__(self, obj):
            return f"marked {obj}"

    known = four.ip.display_formatter.formatters
    known["text/x-marked"] = Marked()
    try:
        shown = four.run("%%disco -w 0\n3").shown
    finally:
        del known["text/x-marked"]
    assert shown[0] == {"text/plain": "3", "text/x-marked": "marked 3"}


def test_values_get_the_forms_that_a_format_of_the_users_adds(four, monkeypatch):
    """Its formatters were asked, one by one, and its own `format` never."""
    display = four.ip.display_formatter
    plain = display.format

    def marked(obj, include=None, exclude=None):
        data, metadata = plain(obj, include, exclude)
        return {**data, "text/x-marked": f"marked {obj}"}, metadata

    monkeypatch.setattr(display, "format", marked)
    shown = four.run("%%disco -w 0\n3").shown
    assert shown[0] == {"text/plain": "3", "text/x-marked": "marked 3"}


def test_a_value_is_asked_once_for_each_of_its_forms(four):
    names = ["_ipython_display_", "_repr_mimebundle_", "_repr_html_", "_repr_svg_"]
    methods = "".join(f"    def {name}(self, *_, **__): return ask({name!r})\n" for name in names)
    four.run(
        "%%disco -w 0\nasked = []\ndef ask(name):\n    asked.append(name)\n    raise NotImplementedError\n"
        f"class Asked:\n{methods}    def __repr__(self): return 'asked'\nAsked()"
    )
    assert four.lines[-1] == "[0] asked"
    assert sorted(four.run("%%disco -w 0\nasked")[0]) == sorted(names)


def test_a_filter_hides_values_but_keeps_them(four):
    result = four.run("%%disco --show 0,2\nprint(worker_id)\nworker_id")
    assert sorted(four.lines[:2]) == ["[0] 0", "[2] 2"]
    assert four.lines[-2:] == ["[0] 0", "[2] 2"]
    assert result.values == [0, 1, 2, 3]
    show_only(result, (3,))
    assert result_bundle(result)["text/plain"] == "[3] 3"


def test_a_value_that_displays_itself_does_so_and_gives_no_out(four):
    source = "class Own:\n    def _ipython_display_(self): print('own', worker_id)\nOwn()"
    assert four.run(f"%%disco -w 1\n{source}") is None
    assert four.lines == ["[1] own 1"]


def test_the_result_of_a_failed_cell_names_the_errors(four):
    four.fail("%%disco -o r\nif worker_id == 2:\n    raise ValueError('bad')\n7")
    assert result_bundle(four.ip.user_ns["r"])["text/plain"] == "[0-1,3] 7\n[2]     ValueError: bad"


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


def test_a_result_prints_as_it_shows_and_can_be_asked_for_some_workers(four):
    result = four.run("%%disco\nworker_id // 2")
    assert repr(result) == result_bundle(result)["text/plain"] == "[0-1] 0\n[2-3] 1"
    assert result.text((1, 2)) == "[1] 0\n[2] 1"


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


PICTURE = """
class Picture:
    def __init__(self, width): self.width = width
    def _repr_png_(self): return b"\\x89PNG\\r\\n\\x1a\\n", ({"width": self.width} if self.width else {})
Picture(7 if worker_id else 0)
"""


def test_a_picture_that_is_the_last_value_keeps_its_size(four):
    html = result_bundle(four.run(f"%%disco\n{PICTURE}"))["text/html"]
    first, others = re.findall(r"<img [^>]*>", html)
    assert 'width="7"' in others
    assert "width=" not in first.replace("max-width", "")
