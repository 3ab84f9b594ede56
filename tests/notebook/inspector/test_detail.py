"""One register, looked at closely: every face of it."""

from __future__ import annotations

import re
import threading

import pytest

from disco_magic import ThreadedSession
from disco_magic.notebook.inspector import faces, panel
from disco_magic.notebook.inspector.watch import Watch
from disco_magic.values import describe
from disco_magic.values.peek import Window
from tests.notebook.inspector.user import detail, look_at, message, until


def test_nothing_is_looked_at_closely_until_a_register_is_chosen(inspector):
    assert inspector._detail.html == ""
    assert inspector._detail._below.layout.display == "none"
    assert inspector._actions.of_register.layout.display == "none"
    look_at(inspector, "x")
    assert inspector._detail._below.layout.display is None


@pytest.mark.parametrize("face", ["summary", "heatmap", "histogram", "lines", "values", "difference"])
@pytest.mark.parametrize("name", ["x", "same", "n", "text", "things", "nothing", "cube", "z", "flags"])
def test_every_face_draws_every_value_or_says_why_not(inspector, session, face, name):
    session.run(
        "text = 'abc'; things = [1, object()]; nothing = np.zeros((0, 3)); cube = np.ones((2, 3, 4, 5))\n"
        "z = np.ones(4) * 1j; flags = np.array([True, False])"
    )
    inspector.refresh()
    look_at(inspector, name, face)
    until(lambda: name in inspector._detail.html, inspector)
    assert message(inspector) == ""


def test_histograms_of_different_values_have_the_same_bins_so_that_they_can_be_compared(inspector, session):
    session.run("spread = np.linspace(0, 1 + worker_id, 50)")
    inspector.refresh()
    look_at(inspector, "spread", "histogram")
    html = inspector._detail.html
    assert "same bins and heights" in html
    widest = session.examine("spread", max)[-1]
    assert html.count(f" to {widest:g}: ") == len(session.examine("spread", len))


def test_the_histogram_of_one_worker_has_bins_of_its_own(inspector, session):
    session.run("spread = np.linspace(0, 1 + worker_id, 50)")
    inspector.refresh()
    look_at(inspector, "spread", "histogram", (1,))
    inspector._detail._worker.value = 1
    assert detail(inspector).startswith("| spread on [1] |")
    assert " to 2: " in inspector._detail.html
    session.run("spread = 'abc' if worker_id else spread")
    inspector.refresh()
    assert detail(inspector) == "| spread on [1]: a value of type str has no elements to show"


def test_an_array_without_elements_has_no_sliders_that_select_some(inspector, session):
    session.run("empty = np.zeros((3, 0, 7)); full = np.zeros((3, 2, 7))")
    inspector.refresh()
    slices = inspector._detail._slices
    for name, shown in (("full", None), ("empty", "none"), ("full", None)):
        look_at(inspector, name, "heatmap")
        controls = (slices.axes, slices.rows, slices.columns, slices.further[0])
        assert [control.layout.display for control in controls] == [shown] * 4


def test_the_summary_of_a_text_has_no_columns_of_statistics_and_says_nothing_of_elements(inspector, session):
    session.run("if worker_id:\n    words = 'abc'")
    inspector.refresh()
    look_at(inspector, "words")
    head, _, rest = detail(inspector).partition(" | value | ")
    assert head == "| words | | worker | type | device | bytes"
    assert "'abc'" in rest
    assert 'colspan="4" class="dim">no value' in inspector._detail.html


def test_the_summary_of_arrays_without_a_text_has_no_column_for_it(inspector, session):
    session.run("if worker_id:\n    large = np.zeros((100, 100))")
    inspector.refresh()
    look_at(inspector, "large")
    assert "from min to max | [0]" in detail(inspector).replace(" | | ", " | ")
    assert "value | [0]" not in detail(inspector)
    assert 'colspan="9" class="dim">no value' in inspector._detail.html


def test_what_is_no_array_is_shown_by_its_repr_when_asked_for(inspector, session):
    session.run(
        "class Odd:\n    asked = 0\n"
        "    def __repr__(self):\n        Odd.asked += 1\n        return f'<odd {Odd.asked}>'\n"
        "class Bad:\n    def __repr__(self):\n        raise KeyError('no')\n"
        "odd, bad, things = Odd(), Bad(), {'a': [1, 2], 'b': list(range(1000))}"
    )
    inspector.refresh()
    look_at(inspector, "things", "values", (0,))
    until(lambda: "{'a': [1, 2], 'b': [0, 1," in detail(inspector), inspector)
    assert len(detail(inspector)) < 2000
    look_at(inspector, "odd", "values", (0,))
    until(lambda: "<odd 1>" in detail(inspector), inspector)
    inspector.refresh()
    assert "<odd 1>" in detail(inspector)
    inspector._toolbar.refresh.click()
    until(lambda: "<odd 2>" in detail(inspector), inspector)
    look_at(inspector, "bad", "values", (0,))
    until(lambda: "its __repr__ raised KeyError: 'no'" in detail(inspector), inspector)


def test_the_elements_of_a_data_frame_are_shown_with_their_labels_where_the_sliders_are(inspector, session):
    pytest.importorskip("pandas")
    session.run(
        "import pandas as pd\n"
        "rows = [f'row{n}' for n in range(40)]\n"
        "df = pd.DataFrame({'id': range(40), 'label': ['cat', 'dog'] * 20}, index=rows)\n"
        "losses = pd.Series([0.5, 0.25], index=['a', 'b'])"
    )
    inspector.refresh()
    look_at(inspector, "df", "values", (0,))
    assert (
        "df on [0]: rows 0 to 15 of 40\u00d72 | id | label | row0 | 0 | 'cat' | row1 | 1 | 'dog'"
        in spaced(inspector)
    )
    inspector._detail._slices.rows.value = (20, 40)
    assert "| row20 | 20 | 'cat'" in spaced(inspector)
    look_at(inspector, "losses", "values", (0,))
    assert "losses on [0]: 2 | a | b | 0 | 0.5 | 0.25" in spaced(inspector)
    look_at(inspector, "losses", "summary")
    assert "| 0.25 | 0.375 | 0.5 | 0 | 0 |" in spaced(inspector)
    assert "[0.5 0.25]" in detail(inspector)
    look_at(inspector, "df['id']", "histogram")
    assert "<svg" in inspector._detail.html


def spaced(inspector):
    """The text of the closer look, one bar between cells."""
    return re.sub(r"[\s|]*\|[\s|]*", " | ", detail(inspector))


def test_a_face_that_cannot_draw_one_workers_value_draws_the_others(inspector, session):
    session.run("x = 'text' if worker_id == 1 else x")
    inspector.refresh()
    look_at(inspector, "x", "heatmap")
    assert inspector._detail.html.count("<img") >= 2
    assert message(inspector) == ""


@pytest.mark.parametrize(("num_workers", "side"), [(1, 320), (3, 256), (5, 128), (9, 128)])
def test_pictures_take_the_room_that_their_number_leaves(num_workers, side):
    with ThreadedSession(num_workers) as session:
        session.run("x = np.eye(64) + worker_id")
        row = session.registers().find("x")
        html = faces.heat_map(session, row, faces.Choice(None, 0, 0, None, "mean", Window()), Watch())
    assert re.findall(r'<img class="disco-heat"[^>]* width="(\d+)"', html) == [str(side)] * num_workers


@pytest.mark.parametrize("shape", [(16, 16), (64, 64), (200, 200), (13, 13)])
@pytest.mark.parametrize("num_workers", [2, 4])
def test_pictures_of_four_workers_fit_beside_each_other_in_a_window_of_1200_pixels(num_workers, shape):
    with ThreadedSession(num_workers) as session:
        session.run(f"x = np.zeros({shape}); x[0, 0] = worker_id")
        row = session.registers().find("x")
        html = faces.heat_map(session, row, faces.Choice(None, 0, 0, None, "mean", Window()), Watch())
    stages = [int(width) for width in re.findall(r'class="stage" style="width:(\d+)px', html)]
    gaps = [int(gap) for gap in re.findall(r"margin:0 (\d+)px 6px 0", html)]
    assert len(stages) == len(gaps) == num_workers
    assert sum(stages) + sum(gaps) <= 1000


@pytest.mark.parametrize(
    ("values", "ends", "around"),
    [
        ("[-2.0, 1.0]", ("-2", "2"), ("-2", "2")),
        ("[-0.1, 1.0]", ("-0.1", "1"), ("-1", "1")),
        ("[1.0, 3.0]", ("0.5", "3"), ("-3", "3")),
    ],
)
def test_values_on_both_sides_of_0_get_a_scale_around_0(inspector, session, values, ends, around):
    session.run(f"y = np.array({values}) * (1 if worker_id else 0.5)")
    inspector.refresh()
    look_at(inspector, "y", "heatmap", ())
    assert re.search(rf" {ends[0]} [\d.e+-]+ {ends[1]} ", detail(inspector))
    inspector._detail._scale.value = "symmetric around 0"
    assert re.search(rf" {around[0]} 0 {around[1]} ", detail(inspector))


def test_workers_of_different_shapes_are_not_compared(inspector, session):
    session.run("y = np.zeros((2, 3) if worker_id else (2, 2))")
    inspector.refresh()
    look_at(inspector, "y", "difference", (1, 0))
    assert "shape" in detail(inspector)
    assert message(inspector) == ""


@pytest.mark.parametrize("face", ["heatmap", "values"])
def test_a_worker_with_another_shape_gets_its_picture(inspector, session, face):
    session.run("w = np.ones((8, 4) if worker_id == 1 else (4, 8))")
    inspector.refresh()
    look_at(inspector, "w", face, (1,))
    assert "does not fit" not in detail(inspector)
    look_at(inspector, "w", face)
    assert "does not fit" not in detail(inspector)
    inspector._detail._slices.rows.value = (2, 4)
    inspector._detail._slices.columns.value = (5, 8)
    inspector._detail.face.value = "Heat map"
    assert "does not fit into shape (8, 4)" in detail(inspector)  # what was narrowed is meant


def test_sliders_offer_the_axes_of_the_register(inspector, session):
    session.run("cube = np.arange(120.0).reshape(2, 3, 4, 5)")
    inspector.refresh()
    look_at(inspector, "cube", "values")
    picker = inspector._detail._slices
    assert [slider.max for slider in picker.further if slider.layout.display is None] == [1, 2]
    assert "119" not in detail(inspector)
    picker.further[0].value, picker.further[1].value = 1, 2
    assert "119" in detail(inspector)
    picker.rows.value = (1, 2)
    assert "105" in detail(inspector)
    assert "119" not in detail(inspector)


def test_any_two_axes_can_be_shown_in_either_order(inspector, session):
    session.run("cube = np.arange(120.0).reshape(2, 3, 4, 5)")
    inspector.refresh()
    look_at(inspector, "cube", "values", (0,))
    picker = inspector._detail._slices
    assert picker.axes.value == (2, 3)
    picker.axes.value = (1, 0)
    assert [slider.description for slider in picker.further if slider.layout.display is None] == [
        "axis 2",
        "axis 3",
    ]
    assert (picker.rows.value, picker.columns.value) == ((0, 3), (0, 2))
    head, _, cells = detail(inspector).partition(" | | | ")
    assert head == "| cube on [0]: 2\u00d73\u00d74\u00d75"
    assert cells == "0 | 1 | | 0 | 0.0 | 60.0 | | 1 | 20.0 | 80.0 | | 2 | 40.0 | 100.0"
    picker.further[1].value = 4
    assert "104" in detail(inspector)


def test_a_row_is_shown_of_an_array_with_one_axis_and_an_element_of_one_with_none(inspector, session):
    session.run("line = np.arange(3.0); dot = np.array(5.0)")
    inspector.refresh()
    for name, element in (("line", "2"), ("dot", "5")):
        look_at(inspector, name, "values", (0,))
        assert element in detail(inspector)
        assert inspector._detail._slices.axes.layout.display == "none"


def test_an_element_without_axes_that_is_looked_at_first_has_no_sliders(inspector, session):
    # Its shape was that of a new picker, whose sliders of one position and list of no axes then stayed.
    session.run("dot = np.array(5.0)")
    inspector.refresh()
    look_at(inspector, "dot", "values", (0,))
    picker = inspector._detail._slices
    assert {each.layout.display for each in (picker.axes, picker.rows, picker.columns)} == {"none"}


def test_where_the_sliders_are_stays_while_the_shape_stays(inspector, session):
    look_at(inspector, "x", "values", (0,))
    inspector._detail._slices.columns.value = (2, 4)
    session.run("x += 100")
    inspector.refresh()
    assert inspector._detail._slices.columns.value == (2, 4)
    assert "102" in detail(inspector)
    session.run("x = np.zeros((2, 2))")
    inspector.refresh()
    assert inspector._detail._slices.columns.value == (0, 2)


def test_the_difference_of_two_workers_says_how_much_and_where(inspector, session):
    session.run("x = np.zeros((3, 4)); x[2, 1] = 5 * worker_id")
    inspector.refresh()
    look_at(inspector, "x", "difference", (2, 0))
    assert "(2, 1)" in detail(inspector)
    assert "10" in detail(inspector)
    inspector._detail._other.value = 2
    assert "choose two different workers" in detail(inspector)


def test_the_worker_that_differs_is_compared_with_one_that_does_not(inspector, session):
    session.run("y = np.full(3, worker_id == 1)")
    inspector.refresh()
    look_at(inspector, "y", "difference")
    assert (inspector._detail._one.value, inspector._detail._other.value) == (1, 0)
    look_at(inspector, "x", "difference")
    assert (inspector._detail._one.value, inspector._detail._other.value) == (0, 1)
    look_at(inspector, "y", "difference", (2, 1))
    assert (inspector._detail._one.value, inspector._detail._other.value) == (2, 1)


def test_exact_statistics_are_those_of_all_elements_and_stay_until_asked_again(
    inspector, session, monkeypatch
):
    monkeypatch.setattr(describe, "WHOLE_NBYTES", 1 << 20)
    session.run("large = np.zeros(200_001); large[-1] = 7 + worker_id")
    inspector.refresh()
    look_at(inspector, "large")
    assert "a sample of 65,536" in detail(inspector)
    inspector._detail._exact.click()
    until(lambda: "200,001" in detail(inspector), inspector)
    assert "| [2] | 0 | " in detail(inspector)
    assert "| 9 |" in detail(inspector)
    inspector.refresh()
    assert "200,001" in detail(inspector)
    inspector._toolbar.refresh.click()
    assert "a sample of 65,536" in detail(inspector)


@pytest.fixture
def large(session, monkeypatch):
    """A register that is large, by a low limit, with a NaN on worker 1 and a difference that samples miss."""
    monkeypatch.setattr(faces, "FEW_NBYTES", 1 << 20)
    monkeypatch.setattr(describe, "WHOLE_NBYTES", 1 << 20)
    session.run(
        "net = {'w': np.zeros(200_001), 'b': np.ones(200_001), 'lr': 0.1}\n"
        "if worker_id == 1: net['w'][77_777] = np.nan\n"
        "if worker_id == 0: net['b'][77_777] = 2"
    )


def test_of_large_parts_it_is_said_that_samples_were_seen(inspector, session, large):
    inspector.refresh()
    look_at(inspector, "net")
    assert "net: 3 parts, seen in samples of their elements" in detail(inspector)
    assert detail(inspector).count("no difference in the sample") == 2
    assert "seen in samples" in inspector.bundles()[0]["text/plain"]


def test_exact_reads_all_elements_of_all_parts(inspector, session, large):
    inspector.refresh()
    look_at(inspector, "net")
    inspector._detail._exact.click()
    found = "net: 3 parts, 2 differ between workers (\u2260), 1 has NaN or Inf"
    until(lambda: found in detail(inspector), inspector)
    assert "1 \u2026 2" in detail(inspector)
    assert "1 NaN" in detail(inspector)
    assert "sample" not in detail(inspector)


def test_the_text_of_a_closer_look_is_that_of_all_elements_where_they_are_few(inspector, session):
    session.run("net = {'w': np.zeros((48, 48))}\nif worker_id == 1: net['w'][7, 7] = np.nan")
    inspector.refresh()
    look_at(inspector, "net")
    text = inspector.bundles()[0]["text/plain"]
    assert text.startswith("net: 1 part, 1 differs between workers (\u2260), 1 has NaN or Inf")


def test_one_nan_among_many_elements_is_seen_while_there_are_not_too_many_bytes(
    inspector, session, monkeypatch
):
    session.run("x = np.zeros(300_000); x[123_456] = np.nan if worker_id else 0")
    inspector.refresh()
    assert [cell.nans for cell in inspector.snapshot.row("x").cells[:2]] == [0, 1]
    monkeypatch.setattr(panel, "FEW_NBYTES", 1 << 20)
    inspector.refresh()
    assert inspector.snapshot.row("x").cells[0].sampled


def test_containers_of_very_many_items_are_not_looked_into_with_each_refresh(inspector, session, monkeypatch):
    session.run("x = {n: np.zeros(3) for n in range(300)}")
    inspector.refresh()
    assert inspector.snapshot.row("x").compared
    monkeypatch.setattr(panel, "FEW_ITEMS", 299)
    monkeypatch.setattr(panel, "BUDGET", 1)
    inspector.refresh()
    assert not inspector.snapshot.row("x").compared


def test_large_arrays_are_compared_in_a_thread_and_only_when_asked(inspector, session, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.inspector.detail.AT_ONCE", 50)
    compared = []
    real = faces.difference_of
    monkeypatch.setattr(
        faces,
        "difference_of",
        lambda *given, **named: compared.append(threading.current_thread().name) or real(*given, **named),
    )
    look_at(inspector, "x", "difference", (2, 0))
    until(lambda: "elements differ" in detail(inspector), inspector)
    inspector.refresh()
    inspector.refresh()
    assert compared == ["disco-long-look"]
    assert "elements differ" in detail(inspector)
    inspector._toolbar.refresh.click()
    until(lambda: "elements differ" in detail(inspector), inspector)
    assert len(compared) == 2


def test_only_the_controls_that_a_face_has_use_for_are_shown(inspector):
    look_at(inspector, "x", "summary")
    controls = inspector._detail._controls
    assert [name for name, control in controls.items() if control.layout.display is None] == ["exact"]
    inspector._detail.face.value = "Difference"
    shown = {name for name, control in controls.items() if control.layout.display is None}
    assert shown == {"one", "other", "slice"}


def test_a_register_that_is_gone_is_not_looked_at_any_more(inspector, session):
    look_at(inspector, "x")
    del session["x"]
    session.sync_all()
    inspector.refresh()
    assert inspector._detail.name == ""
    assert detail(inspector) == ""


def test_the_register_that_was_looked_at_is_looked_at_again_in_the_next_session(inspector, session, front):
    look_at(inspector, "x")
    front.sessions.session = None
    inspector.refresh()
    with ThreadedSession(2) as front.sessions.session:
        inspector.refresh()
        assert inspector._detail.name == ""
        front.sessions.session.run("other = 1")
        inspector.refresh()
        assert inspector._detail.name == ""
        front.sessions.session.run("x = np.ones(3)")
        inspector.refresh()
        assert inspector._detail.name == "x"
        assert "float64" in detail(inspector)


def test_a_register_that_is_back_is_not_looked_at_if_another_was_chosen_meanwhile(inspector, session):
    session.run("other = 1")
    look_at(inspector, "x")
    del session["x"]
    session.sync_all()
    inspector.refresh()
    look_at(inspector, "other")
    session.run("x = 1")
    inspector.refresh()
    assert inspector._detail.name == "other"
