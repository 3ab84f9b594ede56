"""One thread at a time draws with matplotlib; who was given up while drawing keeps nobody from it."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

from disco_magic.notebook.libraries.drawing import RenewedLock, fit_figure, fit_parser
from disco_magic.testing.doubles import Gate
from tests.notebook.acting import as_worker, new_worker


def figure_module():
    """What `fit_figure` looks at in matplotlib; drawing goes through the test's own function."""

    class Figure:
        _render_lock = threading.RLock()

        def draw(self, action):
            return action()

    return SimpleNamespace(Figure=Figure)


def test_drawing_is_done_by_one_thread_at_a_time_and_may_draw_in_it():
    module, gate, done = figure_module(), Gate(), []
    before = vars(module.Figure)["draw"], module.Figure._render_lock
    undo = fit_figure(module)
    figure = module.Figure()

    def first():
        gate("drawing")
        done.append(figure.draw(lambda: "first"))

    threads = [threading.Thread(target=figure.draw, args=(first,))]
    threads[0].start()
    gate.arrived()
    threads.append(threading.Thread(target=figure.draw, args=(lambda: done.append("second"),)))
    threads[1].start()
    gate.open()
    for thread in threads:
        thread.join(20)
    assert done == ["first", "second"]
    undo()
    assert (vars(module.Figure)["draw"], module.Figure._render_lock) == before
    undo = fit_figure(module)
    module.Figure.draw = foreign = lambda *_: None
    undo()
    assert module.Figure.draw is foreign


def test_who_was_given_up_while_drawing_keeps_nobody_from_drawing(texts, live):
    renewed, gate = [], Gate()
    draw = RenewedLock(lambda: renewed.append(True)).guarding(lambda action: action())
    _, (stuck, other) = live(texts)
    thread = threading.Thread(target=as_worker, args=(new_worker(), stuck, draw, gate))
    thread.start()
    gate.arrived()
    stuck.abandon()
    assert as_worker(new_worker(1), other, draw, lambda: "drawn") == "drawn"
    assert draw(lambda: "drawn, too") == "drawn, too"
    assert renewed == [True]
    gate.open()
    thread.join(20)


def test_the_parser_of_who_was_given_up_is_made_anew(texts, live, monkeypatch):
    class MathTextParser:
        _parser = "half-way through a formula"

        def parse(self, action):
            return action()

    module, gate = SimpleNamespace(MathTextParser=MathTextParser), Gate()
    monkeypatch.setitem(sys.modules, "matplotlib.mathtext", module)
    undo = fit_parser(module)
    _, (stuck, _) = live(texts)
    thread = threading.Thread(target=as_worker, args=(new_worker(), stuck, MathTextParser().parse, gate))
    thread.start()
    gate.arrived()
    stuck.abandon()
    assert MathTextParser().parse(lambda: MathTextParser._parser) is None
    gate.open()
    thread.join(20)
    undo()


def test_formulas_are_read_in_turn_and_the_parser_is_put_back():
    class MathTextParser:
        _parser = "old"

        def parse(self, text):
            return text.upper()

    module = SimpleNamespace(MathTextParser=MathTextParser)
    before = MathTextParser.parse
    undo = fit_parser(module)
    assert MathTextParser.parse is not before
    assert MathTextParser().parse("x") == "X"
    undo()
    assert MathTextParser.parse is before
    undo = fit_parser(module)
    MathTextParser.parse = foreign = len
    undo()
    assert MathTextParser.parse is foreign
