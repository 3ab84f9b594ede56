"""What a cell gives back: values, groups of equal ones, rendered text."""

from __future__ import annotations

import contextvars
import copy
import pickle

import pytest

from disco_magic.errors import CellError, SessionClosed, UsageMistake, WorkerError, WorkerInterrupt
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.isolation.lasting import LastingVariables

WORDS = contextvars.ContextVar("words")


class Scope:
    """A front end that keeps per worker what a cell prints through `say`."""

    def __init__(self):
        self.stdout = {}
        self.log = []
        self.given_up = []

    def context(self, worker):
        context = contextvars.copy_context()
        context.run(WORDS.set, [])
        return context

    def render(self, value):
        return {"text/plain": f"<{value}>", "text/html": f"<b>{value}</b>"}

    def ended(self, worker):
        self.log.append(worker)
        self.stdout[worker] = "".join(WORDS.get())

    def skipped(self, worker):
        pass

    def abandoned(self, worker):
        self.given_up.append(worker)


def say(text):
    WORDS.get().append(text)


@pytest.mark.parametrize("where", ["end", "begin"])
def test_a_front_end_hears_of_the_end_also_where_an_interrupt_strikes_at_either_end(
    session, monkeypatch, where
):
    def struck(_):
        raise WorkerInterrupt

    s, scope = session(1), Scope()
    monkeypatch.setattr(LastingVariables, where, struck)
    with pytest.raises(WorkerError, match="interrupted"):
        s.run("1", scope=scope)
    assert scope.log == [0]


# --- results ---------------------------------------------------------------------------------------


def test_values_that_look_different_are_shown_apart_also_if_pickle_writes_the_same(session):
    s = session(3)
    s.run(
        """
import dataclasses
class Tag:
    def __repr__(self): return f'Tag{worker_id}'
class Kind:
    of = worker_id // 2
    def __repr__(self): return f'Kind of {self.of}'
@dataclasses.dataclass
class Data:
    x: int = 1
    label = 'a' if worker_id else 'b'
    def __repr__(self): return self.label
class Plain: pass
"""
    )
    assert repr(s.run("Tag()")) == "[0] Tag0\n[1] Tag1\n[2] Tag2"
    assert repr(s.run("[Tag(), 1]")) == "[0] [Tag0, 1]\n[1] [Tag1, 1]\n[2] [Tag2, 1]"
    assert repr(s.run("Kind()")) == "[0-1] Kind of 0\n[2]   Kind of 1"
    assert repr(s.run("Data()")) == "[0]   b\n[1-2] a"
    assert repr(s.run("Plain()")).startswith("[0-2] <__disco__.Plain object at 0x")
    assert repr(s.run("{Plain: [Plain()]}")).startswith("[0-2] {")


def test_html_that_reads_each_worker_s_registers_is_shown_apart(session):
    class Shown(Scope):
        def render(self, value):
            return {"text/plain": "<Report>", "text/html": value._repr_html_()}

    s = session(2)
    s.run("class Report:\n    def _repr_html_(self): return f'<b>{loss}</b>'\nloss = 1.5 * worker_id")
    groups = s.run("Report()", scope=Shown()).groups()
    assert [(who, shown["text/html"]) for who, shown in groups] == [
        ((0,), "<b>0.0</b>"),
        ((1,), "<b>1.5</b>"),
    ]


# What is where a value is missing differs, and is no part of the Series.
MISSING = (
    "import pandas as pd\n"
    "pd.Series(pd.arrays.IntegerArray(np.array([worker_id, 1]), np.array([True, False])))"
)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("36.0", "[0-3] 36.0"),
        ("worker_id // 2", "[0-1] 0\n[2-3] 1"),
        ("worker_id % 2", "[0,2] 0\n[1,3] 1"),
        ("None", "<Cell on workers [0-3]: no value>"),
        ("x = 1", "<Cell on workers [0-3]: no value>"),
        ("None if worker_id else 5", "[0]   5\n[1-3] None"),
        ("np.eye(2)", "[0-3] array([[1., 0.],\n             [0., 1.]])"),
        (MISSING, "[0-3] 0    <NA>\n      1       1\n      dtype: Int64"),
    ],
)
def test_a_result_shows_equal_values_together(session, source, text):
    assert repr(session(4).run(compile_cell(source, label="Cell"))) == text


def test_values_that_look_alike_but_differ_are_kept_apart(session):
    result = session(2).run(
        "np.zeros(2000) if worker_id else np.arange(2000) // 1500 * 0.0 + np.eye(1, 2000, 1000)[0]"
    )
    assert [workers for workers, _ in result.groups()] == [(0,), (1,)]


def test_a_cell_without_a_value_leaves_the_last_one_there(session):
    s = session(2)
    s.run("6 * 7")
    s.run("print(end='')")
    s.run("x = 1")
    assert s.run("_").values == [42] * 2


def test_groups_can_be_asked_for_some_workers(session):
    result = session(3).run("1")
    assert result.groups((0, 2)) == [((0, 2), {"text/plain": "1"})]


def test_a_result_is_read_by_worker_and_in_order(session):
    result = session(3).run("worker_id * 2", workers=[0, 2])
    assert (result[2], list(result), len(result)) == (4, [0, 4], 2)
    assert (result[-1], result[-3]) == (4, 0)
    for absent in (1, -2, -4):
        with pytest.raises(UsageMistake, match=rf"ran on workers \[0,2\], not on {absent}$"):
            result[absent]


def test_a_results_values_are_copies(session):
    result = session(1).run("x = [1]\nx")
    result[0].append("mine")
    assert result[0] == [1]


def test_a_result_keeps_its_value_when_the_name_is_bound_again(session):
    s = session(1)
    result = s.run("x = 1\nx")
    s.run("x = 2")
    assert result[0] == 1


def test_a_released_result_frees_its_register_and_keeps_what_was_shown(session):
    s = session(2)
    result = s.run("np.ones(3)")
    assert s.ledger.live_registers == 1
    result.release()
    s.sync_all()
    assert s.ledger.live_registers == 0
    assert repr(result) == "[0-1] array([1., 1., 1.])"
    with pytest.raises(UsageMistake, match="were released; what was shown is still here"):
        result[0]


@pytest.mark.parametrize("end", ["shutdown", "restart"])
def test_values_of_a_session_that_ended_say_so(session, end):
    s = session(1)
    result = s.run(compile_cell("5", label="Cell In[7]"))
    getattr(s, end)()
    with pytest.raises(SessionClosed, match=r"the values of Cell In\[7\] went with their session"):
        result.values  # noqa: B018 - looking is the test
    assert repr(result) == "[0] 5"


def test_elapsed_seconds_are_measured_on_the_worker(session):
    result = session(2).run(
        "import time\nstart = time.perf_counter()\nx = sum(range(1000))\ntime.perf_counter() - start"
    )
    assert all(result.elapsed[w] >= result[w] for w in (0, 1))


# --- a front end's scope ---------------------------------------------------------------------------


def test_a_cell_runs_in_the_contexts_of_its_scope(session):
    s = session(2, extras=lambda context: {"say": say})
    result = s.run("say(f'I am {worker_id}')\nworker_id", scope=Scope())
    assert result.stdout == {0: "I am 0", 1: "I am 1"}
    assert result.shown[1] == {"text/plain": "<1>", "text/html": "<b>1</b>"}


def test_output_of_a_failed_cell_is_in_the_errors_result(session):
    s = session(1, extras=lambda context: {"say": say})
    with pytest.raises(CellError) as caught:
        s.run("say('so far')\n1 / 0", scope=Scope())
    assert caught.value.result.stdout == {0: "so far"}


def test_a_scope_that_cannot_be_entered_sends_nothing(session):
    class Broken(Scope):
        def context(self, worker):
            raise RuntimeError("no stream")

    s = session(2)
    before = (s.ledger.seq, s.ledger.live_registers)
    with pytest.raises(RuntimeError, match="no stream"):
        s.run("1", scope=Broken())
    assert (s.ledger.seq, s.ledger.live_registers) == before


def test_scopes_are_forgotten_when_their_cell_has_ended(session):
    s = session(2)
    s.run("1", scope=Scope())
    with pytest.raises(CellError):
        s.run("1 / 0", scope=Scope())
    assert [worker.scopes for worker in s._launcher.workers] == [{}, {}]


@pytest.mark.parametrize("keep", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_a_result_says_that_its_values_are_what_can_be_kept(session, keep):
    result = session(2).run("worker_id")
    with pytest.raises(UsageMistake, match=r"the result of Cell \d+ cannot be copied or pickled: .*\.values"):
        keep(result)
    assert keep(result.values) is not None


def test_values_of_a_failed_cell_raise_its_cause(session):
    s = session(2)
    with pytest.raises(CellError) as caught:
        s.run("allreduce(1) if worker_id == 0 else 1 / 0")
    for look in (lambda result: result.values, list):
        with pytest.raises(CellError) as again:
            look(caught.value.result)
        assert (again.value.origin.worker, len(again.value.failures)) == (1, 2)


def test_a_result_asked_for_get_says_where_its_values_are(session):
    result = session(2).run("worker_id")
    with pytest.raises(
        AttributeError, match=r"no attribute 'get': \.values has every worker's value, result\[2\]"
    ):
        result.get()
    assert "get" not in dir(result)
    assert "values" in dir(result)
