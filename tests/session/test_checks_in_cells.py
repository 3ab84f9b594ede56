"""`worker.check`: workers compare what they hold in the middle of a cell."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, Divergence, PlaneMismatch, UnknownName, UsageMistake

# A replica drifts in the third step; `done` tells how far each worker came.
TRAINING = """
done = 0
for step in range(9):
    w = w - 0.1 * (np.ones((2, 3)) + (step == 3) * (worker_id == 2) * np.eye(2, 3))
    worker.check(w)
    done += 1
"""
SHARDED = """
model = {"norm": np.ones(4), "rows": np.full(3, worker.coordinates["tp"])}
worker.replicated(model, over="dp"); worker.replicated(model["norm"])
"""


def failed(session, cell):
    """Worker -> error of a cell that fails."""
    with pytest.raises(CellError) as caught:
        session.run(cell)
    return {worker: failure.exception for worker, failure in caught.value.failures.items()}


def reports(session, cell):
    """The reports of a cell in which something differs, each once."""
    errors = failed(session, cell)
    assert {type(error) for error in errors.values()} == {Divergence}
    return list({str(error.report): error.report for error in errors.values()}.values())


def report(session, cell):
    (one,) = reports(session, cell)
    return one


# --- what is compared ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
def test_who_agrees_goes_on_with_what_was_given(session, n):
    s = session(n)
    s.run("x = np.arange(3); a = worker.check(x); b = worker.check(x, [x, 'text'], 2.5)")
    assert (
        s.run("a is x, b[0] is x, b[1:], worker.check(None)").values
        == [(True, True, ([pytest.approx([0, 1, 2]), "text"], 2.5), None)] * n
    )


def test_the_step_after_which_a_replica_differs_is_found(session):
    s = session(4)
    s.run("w = np.zeros((2, 3))")
    errors = failed(s, TRAINING)
    assert s["done"].get_all() == [3] * 4
    assert {str(error) for error in errors.values()} == {str(errors[0])}
    first, _, table = str(errors[0]).partition("\n\n")
    assert ", line 5: 'w' differs: float64 (2, 3) [[-0.4 -0.4 -0.4] [-0.4 -0.4 -0.4]] on work" in first
    assert table.splitlines()[2].strip() == (
        "2 of 6 elements differ from the first worker's, by up to 0.1, the first at [0, 0]"
    )
    assert table.splitlines()[-2] == "`%disco debug -w I` shows the variables of worker I at that line."
    assert s.run("worker.check(done)").values == [3] * 4


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
    assert session(2).run("float(worker.check(np.array([np.nan, 1.0]))[1])").values == [1.0] * 2


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
    ],
)
def test_values_are_called_as_they_are_written(session, call, name):
    s = session(2, mesh={"all": 2})
    s.run("x = {'w': worker_id}; y = worker_id")
    assert report(s, call).differing[0].name.partition(" of")[0] == name


def test_values_that_are_written_alike_are_told_apart(session):
    found = report(session(2), "x = iter([1, worker_id]); worker.check(next(x), next(x))")
    assert [row.name for row in found.differing] == ["value 2"]


# --- who has to agree ------------------------------------------------------------------------------


def test_what_is_marked_over_axes_has_to_agree_along_these(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(SHARDED)
    for call in ("worker.check(model)", "worker.check(model['rows'])", "worker.check()"):
        assert s.run(f"{call} is None").errors == {}
    s.run("if worker_id == 1: model['rows'][2] = 7")
    for call in ("worker.check(model)", "worker.check()", "worker.check(model['rows'])"):
        (row,) = report(s, call).differing
        assert (row.name, row.gap) == (
            "model['rows']",
            "tp=1: 1 of 3 elements differs from the first worker's, by up to 6, at [2]",
        )


def test_parts_have_to_agree_as_their_own_marks_say(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(SHARDED + "if worker.coordinates['tp']: model['norm'] += 0.5")
    for call in ("worker.check(model)", "worker.check(model['norm'])", "worker.check()"):
        assert [row.name for row in report(s, call).differing] == ["model['norm']"]
    s.run("worker.check(model, over='dp')")


def test_in_a_function_a_register_has_its_marks_and_the_function_s_name(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(SHARDED + "def see(net): worker.check(net)\nsee(model)")
    s.run("if worker_id == 3: model['rows'][0] = 5")
    assert [row.name for row in report(s, "see(model)").differing] == ["net['rows']"]


def test_axes_are_asked_instead_of_marks(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run("x = worker.replicated(worker.coordinates['tp'], over='dp'); worker.check(x, over='dp')")
    assert sorted(failed(s, "y = worker_id == 3\nworker.check(y, over='dp')")) == [1, 3]
    found = reports(s, "worker.check(x, over='tp')")
    assert [each.workers for each in found] == [(0, 1), (2, 3)]
    assert found[1].differing[0].splits()[0][0] == "dp=1"


def test_workers_can_be_named(session):
    s = session(4)
    s.run("if worker_id in (0, 3): worker.check(worker_id % 3, over=[0, 3])")
    s.run("if worker_id in (0, 3): worker.check(worker_id % 3, over={0: 1, 3: 1}.keys())")
    errors = failed(s, "if worker_id in (0, 2): worker.check(worker_id, over=[0, 2])")
    assert sorted(errors) == [0, 2]


def test_without_values_what_is_marked_is_compared(session):
    s = session(3)
    s.run("w = worker.replicated(np.zeros(3)); mine = worker_id; worker.check()")
    assert [row.name for row in report(s, "w[1] += worker_id; worker.check()").rows] == ["w"]
    s.run("w[1] = 0\nif worker_id: b = worker.replicated([1]); del b\nb = 2")
    (row,) = report(s, "if worker_id: b = worker.replicated(b)\nworker.check()").differing
    assert (row.name, row.aspects) == ("b", ("mark",))


def test_groups_compare_among_all(session):
    s = session(4, 2)
    assert report(s, "worker.check(worker.group)").differing[0].splits()[0][1] == [
        ((0, 1), "int 0"),
        ((2, 3), "int 1"),
    ]


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "kind", "text"),
    [
        ("worker.check()", UsageMistake, "nothing is marked as equal"),
        ("worker.check(iter([]))", UsageMistake, "iter([]) cannot be compared: values of type list_iterator"),
        ("x = [iter([]), worker_id]\nworker.check(x[0])", UsageMistake, "x[0] cannot be compared: values of"),
        ("worker.check(1, 'dp')", UsageMistake, "'dp' is an axis of the mesh: over='dp'"),
        ("worker.check(1, over='pp')", UnknownName, "pp"),
        ("worker.check(1, 2) if worker_id else worker.check(1)", PlaneMismatch,
         "worker 0 brought 1 value, workers [1-3] brought 2 values"),
        ("worker.check(1) if worker_id else worker.check()", PlaneMismatch,
         "worker 0 brought what is marked, workers [1-3] brought 1 value"),
        ("worker.check(1) if worker_id else barrier()", PlaneMismatch, " called check at Cell"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_by_all(session, cell, kind, text):
    errors = failed(session(4, mesh={"dp": 4}), cell)
    assert {type(error) for error in errors.values()} == {kind}
    assert all(text in str(error) for error in errors.values())
    assert len(errors) == 4


def test_in_a_cell_the_session_s_check_names_this_one(session):
    started = []
    s = session(2, extras=lambda _: {"started": started})
    started.append(s)
    errors = failed(s, "started[0].check()")
    assert str(errors[0]).endswith("; here it is worker.check(x)")


# --- what else is on its way -----------------------------------------------------------------------


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
        return disco.worker().check(np.full(2, by)).sum()

    assert s.call_packed(step, 2).get_all() == [4, 4, 4]
