"""What Out[n] shows of a cell's values."""

from __future__ import annotations

import base64
import re
from html import escape

import numpy as np
import pytest
from IPython.core import formatters

from disco_magic.notebook.tables.results import result_bundle, show_only


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


def test_plain_values_get_the_bundle_that_a_function_of_the_users_makes_for_their_class(four):
    formatter = four.ip.display_formatter.mimebundle_formatter
    formatter.for_type(int, lambda value: {"text/latex": f"$ {value} $"})
    try:
        shown = four.run("%%disco -w 0\n3").shown
    finally:
        formatter.pop(int)
    assert shown[0] == {"text/plain": "3", "text/latex": "$ 3 $"}


def test_functions_of_the_users_are_found_where_all_were_replaced_at_once(four):
    formatter = four.ip.display_formatter.formatters["text/html"]
    four.run("%%disco\n3")
    before = formatter.type_printers
    formatter.type_printers = {int: "<b>{}</b>".format}
    try:
        shown = four.run("%%disco -w 0\n3").shown
    finally:
        formatter.type_printers = before
    assert shown[0]["text/html"] == "<b>3</b>"


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


def test_a_result_prints_as_it_shows_and_can_be_asked_for_some_workers(four):
    result = four.run("%%disco\nworker_id // 2")
    assert repr(result) == result_bundle(result)["text/plain"] == "[0-1] 0\n[2-3] 1"
    assert result.text((1, 2)) == "[1] 0\n[2] 1"


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
