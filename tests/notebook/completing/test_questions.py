"""``name?`` in cells on the workers: answered once, and without them where a cell asks nothing else."""

from __future__ import annotations

import warnings

import pytest

from disco_magic.errors import CellError, UsageMistake
from disco_magic.notebook.completing.inquiries import Inquiries, Inquiry
from disco_magic.notebook.completing.inspection import asked_alone
from disco_magic.session.current import session
from disco_magic.testing.doubles import Gate
from tests.notebook.completing.inspecting import MODEL, front


@pytest.mark.parametrize("line", ["same?", "?same", "%pinfo same"])
def test_a_question_in_a_cell_is_answered_once(four, line):
    four.run(MODEL)
    four.run(f"%%disco\n{line}")
    assert four.out.count("Register:") == 1
    assert "[0-3] float64 3" in four.out


def test_the_answer_comes_when_all_have_come(four):
    four.run("%%disco\nlate?\nlate = worker_id // 4")
    assert "[0-3] int \u00b7 0" in four.out


def test_two_questions_ask_for_the_source(four):
    four.run(MODEL)
    four.run("%%disco\ndouble??\nmodel.weight?\ndouble?")
    assert four.out.count("return value * times") == 1
    assert (
        four.out.index("return value * times") < four.out.index("Value:") < four.out.index("Docstring: Do it")
    )


def test_the_object_told_is_that_of_a_worker_that_asks(four):
    four.run("%%disco\ndef f():\n    '''Low.'''\nif worker_id > 1:\n    def f():\n        '''High.'''")
    four.run("%%disco -w 3\nf?")
    assert "High." in four.out
    four.run("%%disco\nif worker_id:\n    f?")
    assert "Low." in four.out


def test_a_question_in_a_cell_of_another_session_is_answered_by_that(four):
    four.run("import disco_magic\nfirst = disco_magic.session()\nother = disco_magic.ThreadedSession(2)")
    try:
        four.run("%%disco --session first\nsame = 3")
        four.run("%%disco --session first\nsame?\nworker_id")
        assert four.out.count("Register:") == 1
        assert "[0-3] int \u00b7 3" in four.out
        four.run("%%disco\nsame?")
        assert "Object `same` not found." in four.out
    finally:
        four.ip.user_ns["other"].shutdown()


def test_what_nobody_has_is_said(four):
    four.run("%%disco\nnobody?\n1 + 1")
    assert "Object `nobody` not found." in four.out
    assert "[0-3] 2" in four.out


def test_a_cell_of_questions_alone_waits_for_nobody_and_sends_nothing(four):
    gate = Gate()
    four.ip.user_ns["gate"] = gate
    four.run(MODEL)
    four.run("%%disco --nowait --push gate -o cell\ngate()")
    gate.arrived(4)
    try:
        sent = [each.sent for each in session().stats().workers]
        four.run("%%disco\n\ndouble??\n# and\nmodel.weight?\nnobody?\ndouble??")
        assert four.out.count("return value * times") == 1
        assert "Value:" in four.out
        assert "Object `nobody` not found." in four.out
        four.run("%disco auto on")
        four.run("?double")
        assert "Docstring: Do it" in four.out
        assert [each.sent for each in session().stats().workers] == sent
    finally:
        gate.open()
        four.run("%disco auto off")
        four.run("cell.wait()")


def test_a_question_alone_starts_no_session(shell):
    shell.run("%%disco\nallreduce?")
    assert "Signature:" in shell.out
    assert front(shell).sessions.find() is None


@pytest.mark.parametrize(
    "cell",
    [
        "1 + 1\nsame?",
        "same?\n%pdoc same",
        "if 1:\n    same?",
        "'?'",
        "f(same) # what?",
        "same ?",
        "3?",
    ],
)
def test_a_cell_that_is_more_than_questions_is_not_answered_here(four, cell):
    assert asked_alone(four.ip, cell) == []


def test_a_cell_that_is_no_question_is_read_once(four):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        four.run("%%disco\nwhy = '\\d?' # why?")
    assert [str(each.message) for each in warned if "invalid escape" in str(each.message)] != []
    assert len(warned) == 1


def test_other_magics_are_refused_as_ever(four):
    assert "%pdoc cannot run on workers" in str(four.fail("%%disco\n%pdoc same", UsageMistake))


def test_a_star_asks_which_names_fit_on_any_worker(four):
    four.run(MODEL)
    four.run("%%disco\nif worker_id == 3: sample, _sample = 1, 2")

    def found(question):
        four.run(f"%%disco\n{question}")
        return four.out.split()

    assert found("sam*?") == ["same", "sample"]
    assert found("?sam*e") == ["same", "sample"]
    assert found("_sam*?") == ["_sample"]
    assert found("*reduce?") == ["allreduce", "reduce"]
    assert found("model.*w*?") == ["model.forward", "model.weight"]
    assert found("Model.c*?") == ["Model.costly"]
    assert found("np.*loadt*?") == ["np.loadtxt"]
    assert found("nobody.*?") == found("model.weight.nothing.*?") == []
    assert found("%psearch sam*\n1 + 1") == ["Out[14]:", "[0-3]", "2", "same", "sample"]


def test_a_search_with_options_is_refused_as_ever(four):
    for line in "%psearch -c NETW*", "%psearch net* int":
        assert "%psearch cannot run on workers" in str(four.fail(f"%%disco\n{line}", UsageMistake))


def test_plain_questions_know_the_names_of_workers(four):
    four.run("%disco auto on")
    four.run("*reduce?")
    assert four.out.split() == ["allreduce", "reduce"]  # without a session
    four.run(MODEL)
    four.ip.user_ns["here_only"] = 1
    four.run("DOUB*?")
    assert four.out.split() == ["double"]
    for asked in "%pinfo double", "%pinfo double\nworker_id":
        four.run(asked)
        assert "Docstring: Do it" in four.out
    four.run("%psearch doub*")
    assert four.out.split() == ["double"]
    four.run("here_onl*?")
    assert four.out.split() == ["here_only"]


def test_a_column_of_a_frame_is_asked_for_as_an_attribute(four):
    pytest.importorskip("pandas")
    four.run("%%disco\nimport pandas\ndf = pandas.DataFrame({'width': [1.5], 'a b': [2]})\ndf.width?")
    assert "[0-3] Series float64 1" in four.out
    four.run("%%disco\ndf.nothing?")
    assert "Object `df.nothing` not found." in four.out
    four.run("%%disco\ndf.wid*?")
    assert four.out.split() == ["df.width"]


def test_a_cell_that_fails_answers_what_it_asked_before(four):
    four.run(MODEL)
    four.fail("%%disco\nsame?\n1 / 0", CellError)
    assert four.out.count("Register:") == 1


def test_questions_of_one_session_are_not_another_s():
    asked = Inquiries()
    asked.ask(1, 2, Inquiry("x", 0))
    asked.ask(2, 0, Inquiry("x", 0))
    asked.ask(1, 0, Inquiry("y", 0))
    asked.ask(1, 0, Inquiry("x", 0))
    assert asked.take(1) == {Inquiry("x", 0): [0, 2], Inquiry("y", 0): [0]}
    assert asked.take(1) == {}
    assert asked.take(2) == {Inquiry("x", 0): [0]}


def test_html_reaches_the_pager_only_where_the_user_wants_it(four, monkeypatch):
    shown = []
    monkeypatch.setattr("disco_magic.notebook.completing.inspection.page.page", shown.append)
    four.run(MODEL)
    four.run("%%disco\nsame?")
    with pytest.warns(Warning, match="provisional"):
        four.ip.enable_html_pager = True
    four.run("%%disco\nsame?")
    assert [sorted(each) for each in shown] == [["text/plain"], ["text/html", "text/plain"]]
