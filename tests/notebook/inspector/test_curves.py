"""The numbers of a register as a line per worker."""

from __future__ import annotations

import re

from disco_magic.notebook.inspector import curves
from disco_magic.notebook.inspector.watch import Watch
from tests.notebook.inspector.user import detail, look_at


def drawn(inspector, name, workers=()):
    look_at(inspector, name, "lines", workers)
    return detail(inspector)


def test_losses_are_a_line_per_worker(inspector, session):
    session.run("losses = [2.0 ** -(step + worker_id) for step in range(12)]")
    inspector.refresh()
    said = drawn(inspector, "losses")
    assert "12 numbers" in said
    html = inspector._detail.html
    assert "[0] from 1 to 0.0004883, [1] from 0.5 to 0.0002441, [2] from 0.25 to" in html
    assert "[1] 3: 0.0625" in html  # the tooltip of a point


def test_workers_that_agree_have_one_line(inspector, session):
    session.run("losses = [3.0, 2.0, 1.0 if worker_id else 1.5]")
    inspector.refresh()
    drawn(inspector, "losses")
    assert inspector._detail.html.count("<path") - 2 == 2  # two are the axes
    assert "[1-2] from 3 to 1" in inspector._detail.html


def test_one_worker_can_be_drawn_alone(inspector, session):
    session.run("losses = [float(worker_id), 9.0]")
    inspector.refresh()
    drawn(inspector, "losses", (1,))
    assert "[0]" not in detail(inspector)
    assert "[1]" in detail(inspector)


def test_of_a_long_series_all_workers_are_drawn_at_the_same_places(inspector, session, monkeypatch):
    monkeypatch.setattr(curves, "_MOST", 10)
    session.run("trace = np.arange(100.0 - worker_id)")
    inspector.refresh()
    assert "98 to 100 numbers, of each 20 the least and the largest" in drawn(inspector, "trace")
    assert "[0] 90: 99" in inspector._detail.html
    assert "[2] 90: 97" in inspector._detail.html


def test_of_complex_numbers_the_magnitude_is_drawn_and_the_picture_says_so(inspector, session):
    session.run("wave = np.array([3j, 4 + 3j])\nlosses = [3.0, 5.0]")
    inspector.refresh()
    assert "|x| of 2 numbers" in drawn(inspector, "wave")
    assert "[0-2] from 3 to 5" in inspector._detail.html
    assert "|x|" not in drawn(inspector, "losses")


def test_workers_without_such_numbers_are_named_with_the_reason(inspector, session):
    session.run("losses = [1.0, 2.0] if worker_id == 0 else np.zeros((2, 2)) if worker_id == 1 else []")
    inspector.refresh()
    said = drawn(inspector, "losses")
    assert "on [1]: an array of shape (2, 2) is no line: give one with a single axis a name" in said
    assert "on [2]: no numbers" in said


def test_a_number_is_watched_by_its_value(session):
    session.run("loss, odd, large = 0.5 + worker_id, float('nan'), 10 ** 100")
    watch = Watch()
    for name in ("loss", "odd", "large"):
        watch.add(name)
        watch.note(name, "[1]", session.registers().row(name).cells)
    assert watch.lines("loss", "mean") == {n: [("[1]", 0.5 + n)] for n in range(3)}
    assert watch.lines("loss", "NaN count") == {n: [("[1]", 0.0)] for n in range(3)}
    assert watch.lines("odd", "NaN count") == {n: [("[1]", 1.0)] for n in range(3)}
    assert watch.lines("large", "mean") == {n: [("[1]", None)] for n in range(3)}


def test_a_watched_value_without_a_mean_says_so_instead_of_empty_axes(inspector, session):
    session.run("words = ['a']")
    inspector.refresh()
    look_at(inspector, "words")
    inspector._watch.add("words")
    inspector._watch.note("words", "[1]", session.registers().row("words").cells)
    inspector._detail.face.value = "Over cells"
    assert detail(inspector) == "| words is watched, but of what it has been so far there is no mean"


def test_the_names_of_lines_have_the_colours_of_these(inspector, session):
    session.run("losses = [2.0, 1.0 + worker_id]")
    inspector.refresh()
    drawn(inspector, "losses")
    rules, _, svg = inspector._detail.html.partition("</style>")
    assert "svg text{fill" not in rules.replace(".stage svg text{fill", "")  # it would go before the colours
    colours = re.findall(r'stroke="(#\w+)" stroke-width', svg)
    assert sorted(re.findall(r'<text [^>]*fill="(#\w+)">\[\d\]', svg)) == sorted(colours)


def test_a_single_number_is_said_to_be_one_that_can_be_watched(inspector, session):
    session.run("loss = 0.5")
    inspector.refresh()
    assert drawn(inspector, "loss") == "| loss is a single number; Watch, below, notes it after every cell"
