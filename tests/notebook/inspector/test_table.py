"""The inspector's table: what stands in it, and how much of it is sent."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from disco_magic.core.snapshot import RegisterInfo, Row
from disco_magic.notebook.inspector.table import table_html
from tests.contrast import contrast, mixed

COUNTS = (1, 0, 2, 3, 9, 14, 20, 30, 28, 22, 11, 6, 3, 1, 0, 1)


def array(mark=b"a", **changes):
    given = {"minimum": -2.5, "mean": 0.125, "maximum": 3.25, "nans": 0, "infs": 0, "histogram": COUNTS}
    dtype = changes.pop("dtype", "float32")
    return RegisterInfo("ndarray", (64, 64), dtype, "cpu", 16384, fingerprint=mark, **{**given, **changes})


class Table(HTMLParser):
    """Rows of texts; `columns` counts a cell as often as it is wide."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.columns, self.odd, self._inside = [], [], 0, False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "tr":
            self.rows.append([])
            self.columns.append(0)
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.columns[-1] += int(attrs.get("colspan", 1))
            self.odd += attrs.get("class") == "o"
        self._inside = self._inside or tag == "table"

    def handle_data(self, data):
        if self._inside and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def table(rows, workers=2, **options):
    return Table(table_html(rows, range(workers), [0] * workers, **options))


def test_every_row_is_as_wide_as_the_head():
    rows = [
        Row("same", (array(), array())),
        Row("other", (array(), array(b"b"))),
        Row("none", (None, array())),
        Row("shapes", (array(), RegisterInfo("list", text="3 items"))),
    ]
    assert set(table(rows).columns) == {5}
    assert set(table([]).columns) == {5}


def test_a_text_of_one_worker_that_may_be_cut_is_a_tooltip_too():
    long = RegisterInfo("Generator", text="numpy.random._generator.Generator <&>", fingerprint=b"c")
    short = RegisterInfo("Generator", text="short", fingerprint=b"d")
    html = table_html([Row("x", (long, short))], range(2), [0, 0])
    assert html.count("<td title=") == 1
    assert ' title="numpy.random._generator.Generator &lt;&amp;&gt;">numpy' in html


def test_a_tooltip_has_the_type_if_it_is_in_the_cell():
    long = RegisterInfo("a_type_with_a_long_name", text="1", fingerprint=b"c")
    html = table_html([Row("x", (long, RegisterInfo("int", text="1")))], range(2), [0, 0])
    assert html.count(' title="a_type_with_a_long_name\n1"') == 1


def test_a_mean_of_magnitudes_is_a_tooltip_too_because_it_is_too_long_beside_a_histogram():
    cells = array(dtype="complex128"), array(b"b", dtype="complex128")
    assert table_html([Row("z", cells)], range(2), [0, 0]).count(' title="|x| 0.125"') == 2


def test_what_all_workers_have_does_not_widen_the_table_and_is_not_cut():
    html = table_html([Row("x", (array(), array()))], range(2), [0, 0])
    assert ".disco-registers td[colspan]{max-width:0;" in html
    assert ".disco-registers td[colspan],.disco-registers td:has(b){white-space:normal}" in html


def test_a_register_that_is_the_same_everywhere_has_one_wide_cell():
    (_, row, _) = table([Row("x", (array(), array()))]).rows
    assert row[:3] == ["x", "float32 64\u00d764", "16 KiB"]
    assert row[3].endswith("0.125-2.5 \u2026 3.25 \u00b7 the same on all")
    assert len(row) == 4


def test_what_was_compared_by_type_only_says_so():
    (_, row, _) = table([Row("x", (RegisterInfo("list", text="3 items"),) * 2)]).rows
    assert row[3] == "3 items \u00b7 of this type on all"


def test_what_only_agrees_in_a_sample_says_so():
    (_, row, _) = table([Row("x", (array(sampled=True),) * 2)]).rows
    assert row[3].endswith("no difference in the sample")


def test_a_worker_that_differs_is_marked_by_a_sign():
    found = table([Row("x", (array(), array(), array(b"b")))], 3)
    assert found.odd == 1
    assert [cell.startswith("\u2260") for cell in found.rows[1][3:]] == [False, False, True]


def test_signs_stand_before_the_name_of_which_the_end_may_not_be_seen():
    rows = [Row("x" * 99, (array(), array(b"b"))), Row("y", (array(), array()))]
    found = table(rows, pinned=frozenset(["x" * 99]))
    assert re.fullmatch(r"\u2260\S*\u00a0x{99}", found.rows[1][0])
    assert found.rows[2][0] == "y"


def test_kinds_that_differ_stand_in_the_cells():
    found = table([Row("x", (array(), RegisterInfo("float", text="0.5", fingerprint=b"c")))])
    assert found.rows[1][1] == "differs"
    assert found.rows[1][3].startswith("float32 64\u00d764")
    assert "float0.5" in found.rows[1][4]


def test_nan_and_inf_are_counted():
    rows = [Row("x", (array(nans=1234, infs=2), array(b"b")))]
    cells = table(rows).rows[1]
    assert "1,234 NaN, 2 Inf" in cells[3]
    assert "NaN" not in cells[4]


@pytest.mark.parametrize("what", ["b", ".mark"])
def test_counts_of_nan_and_marks_are_readable_in_selected_rows_too(what):
    html = table_html([Row("x", (array(nans=1), array(b"b")))], range(2), [0, 0])
    style = re.search(rf"\.disco-registers {re.escape(what)}{{[^}}]*color-mix\(in srgb,#(\w+) (\d+)%", html)
    colour, percent = tuple(bytes.fromhex(style[1])), int(style[2])
    for text, rows in (((31,) * 3, (255, 238)), ((225,) * 3, (33, 66))):
        for gray in rows:
            assert contrast(mixed(colour, percent, text), (gray,) * 3) > 4.5
    vivid = re.search(rf'="true"] \.disco-registers {re.escape(what)}{{[^}}]*#(\w+)', html)
    assert all(contrast(tuple(bytes.fromhex(vivid[1])), (gray,) * 3) > 4.5 for gray in (255, 238))


def test_of_equal_elements_there_is_no_distribution_to_show():
    rows = [Row("x", (array(minimum=1.0, mean=1.0, maximum=1.0),))]
    assert table(rows, 1).rows[1][3] == "all 1"
    rows = [Row("x", (array(minimum=1.0, mean=1.0, maximum=1.0, nans=2),))]
    assert table(rows, 1).rows[1][3] == "1 except 2 NaN"


def test_numbers_of_a_sample_say_that_they_are_about():
    rows = [Row("x", (array(nans=5, sampled=True), array(b"b")))]
    assert "\u22480.125" in table(rows).rows[1][3]
    assert "\u22485 NaN" in table(rows).rows[1][3]


def test_statistics_of_complex_numbers_say_that_they_are_of_magnitudes():
    cells = array(dtype="complex128"), array(b"b", dtype="complex64", minimum=5.0, mean=5.0, maximum=5.0)
    row = table([Row("z", cells)]).rows[1]
    assert any("|x| 0.12" in cell for cell in row)
    assert any("all |x| 5" in cell for cell in row)
    assert "|x|" not in str(table([Row("x", (array(), array(b"b")))]).rows)


def test_who_keeps_a_register_stands_under_its_number():
    assert table([Row("#5", (array(), array()))], held={"#5": "Out[3], y"}).rows[1][0] == "#5Out[3], y"


def test_the_selected_row_and_pinned_rows_are_marked():
    html = table_html(
        [Row("x", (array(),)), Row("y", (array(),))], range(1), [0], selected="x", pinned=frozenset("y")
    )
    assert re.search(r'aria-current="true"><th scope="row"><code>x<', html)
    assert re.search(r'<span title="pinned">[^<]*</span>\u00a0<code>y</code>', html)


def test_names_and_values_are_escaped():
    html = table_html(
        [Row("<b>", (RegisterInfo("str", text="'<i>'"),) * 2)], range(2), [0, 0], held={"<b>": "<u>"}
    )
    assert "&lt;b&gt;" in html
    assert "'<i>'" not in html
    assert "<u>" not in html


def test_devices_other_than_the_processor_are_named():
    gpu = RegisterInfo("ndarray", (2,), "float32", "cuda:0", 8)
    assert table([Row("x", (gpu, gpu))]).rows[1][1] == "ndarray".replace("ndarray", "float32 2") + "cuda:0"


def test_two_hundred_registers_on_eight_workers_are_sent_in_less_than_two_hundred_kilobytes():
    rows = [
        Row(
            f"layers.{i}.attention",
            tuple(array(bytes([worker]), minimum=-0.123456 * i, nans=i % 3) for worker in range(8)),
        )
        for i in range(200)
    ]
    assert len(table_html(rows, range(8), [1 << 30] * 8).encode()) <= 200_000


def test_a_histogram_of_sixteen_bins_is_eight_blocks():
    counts = (0, 0, 1, 0) + (0,) * 10 + (700, 700)
    html = table_html([Row("x", (array(histogram=counts),))], range(1), [0])
    assert "<td>\u2581\u2582\u2581\u2581\u2581\u2581\u2581\u2588 " in html


def test_a_worker_that_could_not_be_looked_at_has_a_cell_of_its_own():
    unseen = RegisterInfo("ndarray", (64, 64), "float32", "cuda:0", 16384)
    seen = replace(array(), device="cuda:0")
    found = table([Row("x", (seen, unseen))])
    (row,) = [row for row in found.rows if "x" in row[0]]
    assert len(row) == 5
    assert "0.125" in row[3]
    assert row[4] == ""
    assert found.odd == 0


THIRDS = tuple(
    RegisterInfo("float", text=str(worker + 1 / 3), fingerprint=b"%d" % worker) for worker in range(4)
)


@pytest.mark.parametrize("columns", [range(4), None])
def test_numbers_are_short_and_have_all_digits_in_their_tooltips(columns):
    html = table_html([Row("x", THIRDS), Row("y", THIRDS[:1] * 4)], columns)
    assert "1.33333<" in html
    assert html.count('title="0.3333333333333333"') == 2
    assert ">0.333333 \u00b7 <i>the same on all" in html


def test_the_shape_of_an_array_without_axes_is_not_broken_at_its_hyphen():
    html = table_html([Row("x", (RegisterInfo("ndarray", (), "float64", "cpu", 8, text="0.5"),))], range(1))
    assert 'float64 <span class="k">0-d</span>' in html
    assert ".k{white-space:nowrap}" in html


def test_no_size_is_broken_before_its_unit_also_where_it_differs_between_workers():
    # In a narrow window texts take more lines, and "3.12 KiB" took two.
    html = table_html([Row("x", (array(), replace(array(b"b"), nbytes=512)))], range(2))
    assert '<span class="k">512 B</span> to <span class="k">16 KiB</span>' in html


def test_a_type_has_more_room_than_values_because_its_shape_is_at_its_end():
    html = table_html([Row("x", (array(),))], range(1))
    cut = html.index("td:not([colspan]){max-width:14em")
    assert html.index(".disco-registers td:nth-child(2):not([colspan]){max-width:26em}") > cut
