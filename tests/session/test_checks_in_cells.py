"""`worker.check`: workers compare what they hold in the middle of a cell."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import PlaneMismatch, UnknownName, UsageMistake
from disco_magic.functions import apart
from disco_magic.values import divergence
from tests.session.checked import failed, report

# A replica drifts in the third step; `done` tells how far each worker came.
TRAINING = """
done = 0
for step in range(9):
    w = w - 0.1 * (np.ones((2, 3)) + (step == 3) * (worker_id == 2) * np.eye(2, 3))
    worker.check(w)
    done += 1
"""


# --- what is compared ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
def test_who_agrees_goes_on(session, n):
    s = session(n)
    s.run("x = np.arange(3); worker.check(x); worker.check(x, [x, 'text'], 2.5); y = 1")
    assert s.run("y, worker.check(None)").values == [(1, None)] * n


def test_the_step_after_which_a_replica_differs_is_found(session):
    s = session(4)
    s.run("w = np.zeros((2, 3))")
    errors = failed(s, TRAINING)
    assert s["done"].get_all() == [3] * 4
    assert {str(error) for error in errors.values()} == {str(errors[0])}
    first, _, table = str(errors[0]).partition("\n\n")
    assert (
        ", line 5, which has passed 3 times before: 'w' differs: float64 (2, 3) [[-0.4 -0.4 -0.4] [-0"
        in first
    )
    assert table.splitlines()[2].strip() == (
        "2 of 6 elements differ from the first worker's, by up to 0.1, the first at [0, 0]"
    )
    assert table.splitlines()[-1] == "Equal means bit for bit: 0.0 is not -0.0."
    s.run("worker.check(done)")


@pytest.mark.parametrize("dtype", ["object", "np.dtypes.StringDType()"])
def test_arrays_of_objects_that_differ_are_told(session, dtype):
    if dtype != "object" and not hasattr(np.dtypes, "StringDType"):
        pytest.skip("NumPy 2 has it")
    found = report(session(2), f"x = np.array(['a', 'b' * (1 + worker_id)], {dtype}); worker.check(x)")
    assert [row.name for row in found.rows] == ["x"]


def test_of_containers_it_says_which_number(session):
    found = report(
        session(3),
        "opt = {'lr': 0.1 * (1 + worker_id // 2), 'w': np.zeros(2), 'name': 'sgd'}; worker.check(opt)",
    )
    assert [(row.name, row.gap) for row in found.rows] == [("opt", "[2] ['lr']: 0.2, worker 0's is 0.1")]


def test_parts_that_differ_have_rows_of_their_own(session):
    found = report(
        session(3),
        "net = {'a': np.zeros(3), 'b': [np.zeros(2), np.full(2, worker_id == 1)]}; steps = worker_id\n"
        "worker.check(net, steps)",
    )
    assert [(row.name, row.aspects) for row in found.differing] == [
        ("net['b'][1]", ("value",)),
        ("steps", ("value",)),
    ]


@pytest.mark.parametrize(
    ("given", "aspects"),
    [
        ("np.zeros(2 + worker_id)", ("shape", "value")),
        ("np.zeros(2, 'f4' if worker_id else 'f8')", ("dtype", "value")),
        ("1 if worker_id else 1.0", ("type",)),
        ("[1] * (worker_id + 1)", ("shape", "value")),
        ("-0.0 if worker_id else 0.0", ("value",)),
    ],
)
def test_it_says_in_what_values_differ(session, given, aspects):
    (row,) = report(session(2), f"x = {given}\nworker.check(x)").rows
    assert (row.name, row.aspects) == ("x", aspects)


def test_a_nan_is_equal_to_itself(session):
    assert session(2).run("worker.check(np.array([np.nan, 1.0]))").values == [None] * 2


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("worker.check(worker_id + 1)", "worker_id + 1"),
        ("worker.check(x, over='all')", "x"),
        ("worker.check(\n    0,\n    x['w'],\n)", "x['w']"),
        ("worker.check(*[x['w']])", "value 1"),
        ("worker.check(" + " + ".join(["worker_id"] * 20) + ")", "value 1"),
        ("worker.check(0, x['w']) if worker_id else worker.check(0, y)", "y"),
        ("(lambda v: worker.check(v, 0))(worker_id)", "v"),
        ("list(map(worker.check, [y]))", "value 1"),
        ("sorted([3, worker_id, 4], key=worker.check)", "value 1"),
    ],
)
def test_values_are_called_as_they_are_written(session, call, name):
    s = session(2, mesh={"all": 2})
    s.run("x = {'w': worker_id}; y = worker_id")
    assert report(s, call).differing[0].name.partition(" of")[0] == name


@pytest.mark.parametrize("call", ["x[i]", "x[i:2]", "x[9]"])
def test_elements_and_slices_that_differ_are_told_whatever_their_index_is_made_of(session, call):
    # A check looked for marks under the text of the argument, and refused an index with names, or one that
    # the register of that name does not have, in the place of the report.
    step = f"def step(x, i):\n    x[i:] += worker_id\n    worker.check({call})"
    found = report(session(2), f"x = [0]\n{step}\nstep(np.ones(20), 1)")
    assert [row.name for row in found.differing] == [call]


def test_values_that_are_written_alike_are_told_apart(session):
    found = report(session(2), "x = iter([1, worker_id]); worker.check(next(x), next(x))")
    assert [row.name for row in found.differing] == ["value 2"]


@pytest.fixture
def few_parts(monkeypatch):
    """50 parts of a value are looked at by value, not 10,000."""
    assert divergence.PARTS_BY_VALUE == 10_000
    monkeypatch.setattr(divergence, "PARTS_BY_VALUE", 50)


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "kind", "text"),
    [
        ("worker.check()", UsageMistake, "nothing is marked as equal"),
        ("worker.check(iter([]))", UsageMistake, "iter([]) cannot be compared: values of type list_iterator"),
        ("x = [iter([]), worker_id]\nworker.check(x[0])", UsageMistake, "x[0] cannot be compared: values of"),
        ("worker.check(1, 'dp')", UsageMistake, "'dp' is an axis of the mesh: over='dp'"),
        ("w = worker_id\nworker.check('w')", UsageMistake, "'w' is a text; write worker.check(w)"),
        ("w = {'a': [1]}\nworker.check(1, \"w['a']\")", UsageMistake, "write worker.check(w['a'])"),
        ("x = [0, 1]\nworker.check('x[0:1]')", UsageMistake, "'x[0:1]' is a text; write worker.check(x[0"),
        ("x = [0, 1]\nworker.check('x[2]')", UsageMistake, "'x[2]' is a text; write worker.check(x[2])"),
        ("worker.check(1, over='pp')", UnknownName, "pp"),
        ("worker.check(1, over=3)", UsageMistake, "over is 3"),
        ("worker.check({float('nan'): np.full(1, worker_id), float('nan'): np.ones(1)})", UsageMistake,
         "cannot be compared: several of its keys are written alike"),
        ("n = 10**200\nworker.check({n + 10**100: np.full(1, worker_id), n: np.ones(1)})", UsageMistake,
         "the parts that differ cannot be named: several are written alike"),
        ("x = [np.ones(1)] * 51\nworker.check(x)", UsageMistake, "x cannot be compared: it has more than 50"),
        ("worker.check(1, 2) if worker_id else worker.check(1)", PlaneMismatch,
         "worker 0 brought 1 value, workers [1-3] brought 2 values"),
        ("worker.check(1) if worker_id else worker.check()", PlaneMismatch,
         "worker 0 brought what is marked, workers [1-3] brought 1 value"),
        ("worker.check(1) if worker_id else barrier()", PlaneMismatch, " called check at Cell"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_by_all(session, few_parts, cell, kind, text):
    errors = failed(session(4, mesh={"dp": 4}), cell)
    assert {type(error) for error in errors.values()} == {kind}
    assert all(text in str(error) for error in errors.values())
    assert len(errors) == 4


def test_a_text_that_is_called_as_a_register_is_a_value_like_others(session):
    cell = "adam = 1\nchosen = 'adam'\nworker.check(chosen, 'other')\nworker.check([chosen][0])"
    assert session(2).run(cell).errors == {}
    assert session(2).run("x = [0]\nchosen = 'x[1]'\nworker.check(chosen)").errors == {}


def test_in_a_cell_the_session_s_check_names_this_one(session):
    started = []
    s = session(2, extras=lambda _: {"started": started})
    started.append(s)
    errors = failed(s, "started[0].check()")
    assert str(errors[0]).endswith("; here it is worker.check(x)")


# --- what else is on its way -----------------------------------------------------------------------


@pytest.mark.parametrize("fails", ["1 / 0", "pass"])
def test_who_does_not_come_to_a_check_keeps_nobody_waiting(session, fails):
    errors = failed(session(3), f"if worker_id == 1: {fails}\nelse: worker.check(1)")
    assert {worker: type(error).__name__ for worker, error in errors.items() if worker != 1} == {
        0: "PlaneAborted",
        2: "PlaneAborted",
    }


@pytest.mark.parametrize("explained", ["elements_compared", "gap", "is_of"])
def test_an_explanation_that_fails_on_one_worker_takes_nothing_with_it(session, monkeypatch, explained):
    as_it_is = getattr(apart, explained)

    def odd(*given):
        if disco.worker().id == 0:
            raise MemoryError
        return as_it_is(*given)

    if explained != "is_of":
        monkeypatch.setattr(apart, explained, odd)
    else:
        monkeypatch.setattr(apart, explained, lambda *given: disco.worker().id != 0)
    (row,) = report(session(3), "x = np.full(2, worker_id); worker.check(x)").rows
    assert (row.aspects, row.gap) == (("value",), "")


def test_circles_may_hold_arrays_of_different_shapes_and_other_values(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run("t = worker.coordinates['tp']; x = worker.replicated(np.zeros(2 + 3 * t), over='dp')")
    (row,) = report(s, "if worker_id == 3: x[4] = 1\nworker.check(x)").rows
    assert row.gap == "tp=1: 1 of 5 elements differs from the first worker's, by up to 1, at [4]"
    s.run("x = np.zeros(3) if t else 7; x = worker.replicated(x, over='dp')")
    (row,) = report(s, "if worker_id == 3: x[0] = 1\nworker.check(x)").rows
    assert row.gap == "tp=1: 1 of 3 elements differs from the first worker's, by up to 1, at [0]"
    assert s.check("x", values=True)["x"].gap == row.gap


def test_explaining_runs_no_code_of_the_user_s(session):
    s = session(2)
    s.run(
        "class Own(np.float64):\n    def __reduce__(self): raise RuntimeError('mine')\n"
        "x = [Own(1), Own(worker_id), 2]"
    )
    assert report(s, "worker.check(x)")["x"].gap == ""


def test_of_very_many_numbers_is_said_that_they_differ(session):
    s = session(2)
    (row,) = report(s, "x = [0] * 70_000; x[-1] = worker_id\nworker.check(x)").rows
    assert (row.aspects, row.gap) == (("value",), "")


def test_many_parts_in_another_order_are_compared_by_their_names(session):
    s = session(2)
    s.run("p = {i: np.zeros(1) for i in range(1200)}\nif worker_id: p = dict(reversed(p.items()))")
    s.run("worker.check(p)")
    found = report(s, "p[1100][0] = worker_id\nworker.check(p)")
    assert [row.name for row in found.differing] == ["p[1100]"]


def test_what_was_left_out_on_a_worker_is_not_missing(session, few_parts):
    s = session(2)
    s.run("p = {i: np.zeros(1) for i in range(60)}\nif worker_id: p = dict(reversed(p.items()))")
    assert "p cannot be compared: it has more than 50 parts" in str(failed(s, "worker.check(p)")[0])
    assert s.check("p", values=True).differing == ()


def test_names_of_one_worker_hide_nothing_of_another(session):
    s = session(2)
    s.run("x = {'w': np.zeros(2)}; y = {'w': np.full(2, worker_id)}; z = np.zeros(2)")
    found = report(s, "worker.check(y, z) if worker_id else worker.check(x, x['w'])")
    assert [row.name for row in found.differing] == ["x['w']"]


def test_messages_that_are_on_their_way_are_left_to_their_receivers(session):
    s = session(2)
    cell = (
        "x = {'a': np.arange(4) + worker_id, 'n': worker_id}\n"
        "if worker_id: send(np.full(2, 5), 0)\n"
        "try: worker.check(x)\n"
        "except disco_magic.Divergence as error: said = [row.gap for row in error.report.differing]\n"
        "recv(1).tolist() if worker_id == 0 else None"
    )
    s.run("import disco_magic")
    assert s.run(cell).values[0] == [5, 5]
    assert (
        s["said"].get_all()
        == [["[1] ['n']: 1, worker 0's is 0", "4 of 4 elements differ from the first worker's, by up to 1"]]
        * 2
    )


def test_where_columns_of_texts_and_with_missing_values_differ_is_told(session):
    pytest.importorskip("pandas")
    s = session(3)
    s.run(
        "import pandas as pd\nmine = worker_id == 2\n"
        "numbers = pd.array([1] * 5000, dtype='Int64')\n"
        "df = pd.DataFrame({'t': [f'row {i}' for i in range(5000)], 'n': numbers})\n"
        "if mine: df.loc[4321, 't'], df.loc[7, 'n'] = 'x', None"
    )
    texts = "[2] 1 of 5,000 elements differs from worker 0's, at [4321]: 'x', worker 0's is 'row 4321'"
    numbers = "[2] 1 of 5,000 elements differs from worker 0's, at [7]: None, worker 0's is 1"
    for told in (s.check("df"), report(s, "worker.check(df)")):
        assert {row.name: row.gap for row in told if row.differs} == {"df['t']": texts, "df['n']": numbers}
    s.run("long = pd.Series([str(i) for i in range(100_000)])\nif mine: long[0] = 'x'")
    said = "[2] 1 of 50,000 sampled elements differs from worker 0's: 'x', worker 0's is '0'"
    assert next(row.gap for row in report(s, "worker.check(long)") if row.differs) == said


def test_of_many_values_the_first_few_say_how_far_they_are_apart(session):
    found = report(session(2), "x = {i: np.full(3, worker_id) for i in range(12)}; worker.check(x)")
    assert [bool(row.gap) for row in found.differing] == [True] * 8 + [False] * 4


def test_arrays_of_gpus_are_compared(four):
    four.run("x = xp.arange(6.0).reshape(2, 3); worker.check(x, {'w': x.T})")
    found = report(four, "x[1, 1] += worker_id == 2\nworker.check({'w': x})")
    assert [(row.name, row.gap) for row in found.differing] == [
        ("{'w': x}['w']", "1 of 6 elements differs from the first worker's, by up to 1, at [1, 1]")
    ]


def test_a_function_of_the_controller_s_can_compare(session):
    s = session(3)

    def step(by):
        disco.worker().check(np.full(2, by))
        return by

    assert s.call_packed(step, 2).get_all() == [2, 2, 2]
