"""`worker.check`: workers compare what they hold in the middle of a cell."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, Divergence, PlaneMismatch, UnknownName, UsageMistake
from disco_magic.functions import apart, tolerances
from disco_magic.values import divergence

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


@pytest.mark.parametrize(
    "call",
    [
        "for p in model.values(): worker.check(p)",
        "def see(t): worker.check(t)\nsee(model['rows'])",
        "worker.check([model['rows'], 1])",
        "worker.check({'a': [*model.values()]}, model)",
        "worker.check(n)",
    ],
)
def test_marks_are_found_wherever_a_marked_value_comes_from(session, call):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(SHARDED + "n = worker.replicated(worker.coordinates['tp'], over='dp')")
    s.run(call)
    s.run("if worker_id == 3: model['rows'][0] = 7; n = 8")
    assert "tp=1" in str(failed(s, call)[3])


def test_where_nobody_else_has_to_agree_there_is_nothing_to_compare(session):
    s = session(2, mesh={"dp": 1, "tp": 2})
    s.run("x = worker.replicated(np.full(3, worker_id), over='dp')")
    for call in ("worker.check(x)", "worker.check()", "worker.check(x, over='dp')"):
        s.run(call)


def test_a_check_leaves_marks_as_they_are(session):
    make = "def make():\n    p = [np.zeros(2)]\n    worker.replicated(p)\n    CHECK\n    return p\np = make()"
    loop = "ps = [np.ones(2), np.ones(3)]\nfor p in ps:\n    worker.replicated(p)\n    CHECK"
    for cell in (make, loop):
        told = []
        for check in ("pass", "worker.check(p)", "worker.check()"):
            s = session(2)
            s.run("other = worker.replicated([1])")
            s.run(cell.replace("CHECK", check))
            told.append(s.run("sorted(worker.marks.names)").values[0])
        assert told[1:] == [told[0]] * 2


def test_marks_of_this_cell_are_compared(session):
    s = session(2)
    cell = "ps = [np.ones(2), np.full(3, worker_id)]\nfor p in ps: worker.replicated(p)\nworker.check()"
    assert "ps[1]" in report(s, cell) or "p" in report(s, cell)


def test_how_often_a_check_has_passed_is_counted_from_the_beginning_of_each_cell(session):
    s = session(2)
    s.run("def step(n): worker.check(n)\nfor n in range(5): step(n)")
    cell = "for n in range(3): step(n if n < 2 else worker_id)"
    for _ in range(2):
        assert ", which has passed 2 times before" in report(s, cell).title
    assert "passed" not in report(s, "step(worker_id)").title


def test_the_mark_of_the_name_that_is_written_counts_where_a_value_has_several(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run("x = np.full(3, worker.coordinates['tp']); x = worker.replicated(x, over='dp')")
    s.run("y = x; y = worker.replicated(y)")
    s.run("worker.check(x)")
    assert [row.name for row in report(s, "worker.check(y)").differing] == ["y"]
    assert [row.name for row in report(s, "worker.check([x])").differing] == ["[x][0]"]


def test_what_is_marked_along_other_axes_than_are_asked_is_left_out(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(
        "x = worker.replicated(np.full(3, worker.coordinates['tp']), over='dp'); n = worker.replicated([0])"
    )
    s.run("worker.check(over='tp')")
    (found, *_) = reports(s, "if worker_id == 1: n[0] = 1\nworker.check(over='tp')")
    assert [row.name for row in found.differing] == ["n"]


def test_of_an_edited_program_the_names_are_those_that_were_executed(session, tmp_path):
    s, file = session(2), tmp_path / "train.py"
    for name, other in [("first", "second"), ("second", "first")]:
        file.write_text(
            f"import disco_magic\nme = disco_magic.worker()\n{other} = 1\n{name} = me.id\nme.check({name})\n"
        )
        with pytest.raises(CellError) as caught:
            s.run_file(file)
        assert caught.value.failures[0].exception.report.differing[0].name == name


def test_what_a_look_makes_leaves_its_identity_to_nobody(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(
        "tp = worker.coordinates['tp']\nmarked = [np.random.default_rng(tp + i) for i in range(40)]\n"
        "marked = worker.replicated(marked, over='dp'); rng = np.random.default_rng(100 + tp)"
    )
    for _ in range(20):
        assert "rng.bit_generator.state" in report(s, "worker.check(rng)").differing[0].name


def test_a_marked_place_is_compared_whatever_the_cell_puts_there(session):
    s = session(3)
    cell = (
        "m = {'a': np.zeros(1)}\nworker.replicated(m['a'])\n"
        "for step in range(3):\n"
        "    worker.check()\n"
        "    m['a'] = m['a'] + (worker_id == 2)"
    )
    assert [row.name for row in report(s, cell).differing] == ["m['a']"]
    s.run(cell.replace("(worker_id == 2)", "1"))
    assert s.run("sorted(worker.marks.names)").values == [["m['a']"]] * 3
    assert [row.name for row in report(s, "m['a'] += worker_id\nworker.check()").differing] == ["m['a']"]


def test_the_variable_of_a_loop_has_no_mark_after_its_cell(session):
    s = session(2)
    s.run(
        "layers = [{'w': np.zeros(1)} for _ in range(3)]\n"
        "for layer in layers:\n    worker.replicated(layer['w'])\n    worker.check()"
    )
    names = ["layers[0]['w']", "layers[1]['w']", "layers[2]['w']"]
    assert s.run("sorted(worker.marks.names)").values == [names] * 2


def test_time_grows_as_the_number_of_marked_parts(session):
    s = session(2, mesh={"dp": 1, "tp": 2})
    s.run("import time")
    taken = []
    for count in (200, 1600):
        s.run(f"p = {{i: np.full(1, worker_id) for i in range({count})}}")
        s.run("for each in p.values(): worker.replicated(each, over='dp')")
        s.run("start = time.perf_counter(); worker.check(p); worker.check()")
        s.run("spent = time.perf_counter() - start")
        taken.append(max(s["spent"].get_all()))
    assert taken[1] < 30 * taken[0]  # quadratic it would be 64 times


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


# --- nearly equal ----------------------------------------------------------------------------------

NEAR = {
    "arrays": "np.ones((2, 3)) + worker_id * 1e-9",
    "float32": "np.ones(4, 'f4') * (1 + worker_id * np.float32(1e-6))",
    "complex": "np.ones(3) * (1 + worker_id * 1e-9j)",
    "0-d arrays": "np.array(1 + worker_id * 1e-9)",
    "numbers of numpy": "np.float64(1 + worker_id * 1e-9)",
    "numbers": "1 + worker_id * 1e-9",
    "lists": "[1 + worker_id * 1e-9, 2, 0.5j]",
    "dicts": "{'loss': 1 + worker_id * 1e-9, 'step': 3}",
    "parts": "{'w': [np.ones(3) + worker_id * 1e-9], 'name': 'net'}",
    "mixed": "{'epoch': 1, 'done': False, 'loss': 0.25 + worker_id * 1e-9, 'name': 'a', 'w': np.ones(2)}",
    "tuples": "(1.0 + worker_id * 1e-9, True, None, 'a', np.float32(1))",
    "arrays beside numbers": "{'w': np.ones(3) + worker_id * 1e-9, 'loss': 0.1 + worker_id * 1e-9}",
    "objects": "__import__('types').SimpleNamespace(lr=0.1 + worker_id * 1e-9, steps=3)",
    "sets beside": "[{1, 2}, 1.0 + worker_id * 1e-9]",
    "infinite and NaN": "np.array([np.inf, -np.inf, np.nan, 1 + worker_id * 1e-9])",
}
FAR = {
    "arrays": ("np.ones(3) + worker_id * 1e-3", "by up to 0.002"),
    "one element": ("np.ones(9) + (np.arange(9) == 4) * worker_id", "1 of 9 elements differs"),
    "integers": ("np.arange(3) + worker_id", "3 of 3 elements differ"),
    "whole numbers": ("5 + worker_id", "int 5"),
    "of another sign of infinity": ("np.array([np.inf, 1.0]) * (1 - 2 * (worker_id == 1))", "differ"),
    "NaN": ("np.array([1.0, np.nan if worker_id else 1.0])", "differ"),
    "infinite beside finite": ("np.array([np.inf if worker_id else 1.0, 1.0])", "differ"),
    "texts beside": ("['a' * worker_id, 1.0]", "differ"),
    "another length": ("[1.0] * (1 + worker_id)", "differ"),
    "flags beside": ("{'loss': 1.0 + worker_id * 1e-9, 'done': worker_id == 1}", "differ"),
    "another order": ("[1.0, 'a'] if worker_id else ['a', 1.0]", "differ"),
    "floats of another type": ("[1.0, np.float32(1)][:: 1 - 2 * (worker_id == 1)]", "differ"),
    "int beside float": ("1.0 if worker_id else 1", "differ"),
    "keys": ("{worker_id: 1.0}", "differ"),
    "dtypes": ("np.ones(3, 'f4' if worker_id else 'f8')", "differ"),
}


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("what", NEAR)
def test_what_is_near_enough_counts_as_equal(session, what, n):
    s = session(n)
    s.run(f"x = {NEAR[what]}\nworker.check(x, rtol=1e-5)\nworker.check(x, atol=1e-5)\ny = 1")
    assert s.run("y").values == [1] * n
    if n > 1:
        assert not report(s, "worker.check(x)").ok


@pytest.mark.parametrize("what", FAR)
def test_what_is_further_apart_differs(session, what):
    value, told = FAR[what]
    assert told in str(report(session(3), f"worker.check({value}, rtol=1e-5, atol=1e-5)"))


TABLES = {
    "frame": "pd.DataFrame({'a': [1.0 + e, 2.0], 'n': [1, 2], 's': ['x', 'y']})",
    "series": "pd.Series([1.0 + e, 2.0], index=['a', 'b'])",
    "masked": "pd.DataFrame({'a': pd.array([1.0 + e, None], dtype='Float64')})",
}


@pytest.mark.parametrize("what", TABLES)
def test_columns_of_numbers_may_differ_a_little(session, what):
    pytest.importorskip("pandas")
    s = session(2)
    s.run(f"import pandas as pd\ne = worker_id * 1e-9\nx = {TABLES[what]}\nworker.check(x, rtol=1e-6)")
    assert not report(s, "worker.check(x, rtol=1e-12)").ok
    s.run(f"e = worker_id * 0.5\nx = {TABLES[what]}")
    assert not report(s, "worker.check(x, rtol=1e-6)").ok


def test_the_advice_says_how_near_is_near(session):
    with pytest.raises(CellError, match=r"Equal means within rtol=0\.5, atol=0 of the first worker's"):
        session(2).run("worker.check(np.zeros(2) + worker_id, rtol=0.5)")


def test_of_several_values_those_that_are_far_apart_are_told(session):
    told = report(
        session(3), "a, b = 1.0 + worker_id * 1e-9, np.ones(2) * worker_id\nworker.check(a, b, rtol=1e-6)"
    )
    assert {row.name: row.aspects for row in told} == {"a": (), "b": ("value",)}


def test_what_is_marked_may_differ_a_little_along_its_axis(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(
        "w = worker.replicated(np.full(3, worker.coordinates['tp']) + 1e-9 * worker_id, over='dp')\n"
        "worker.check(rtol=1e-6, atol=1e-6)"
    )
    s.run("w += worker_id == 3")
    told = report(s, "worker.check(rtol=1e-6, atol=1e-6)")
    assert [place for place, _ in told["w"].splits()] == ["tp=1"]


def test_all_members_have_to_allow_the_same(session):
    errors = failed(session(2), "worker.check(1.0, rtol=1e-3 * (1 + worker_id))")
    assert {type(each) for each in errors.values()} == {PlaneMismatch}
    assert "worker 0 brought 1 value within rtol=0.001, atol=0" in str(errors[0])


@pytest.mark.parametrize(
    "given", ["rtol=-1", "atol=float('nan')", "rtol='1e-3'", "atol=float('inf')", "rtol=True", "rtol=10**400"]
)
def test_a_tolerance_is_a_number(session, given):
    (error,) = failed(session(1), f"worker.check(1.0, {given})").values()
    assert isinstance(error, UsageMistake)
    assert "expected a number, 0 or above" in str(error)


def test_what_cannot_be_shown_stays_different(session, monkeypatch):
    monkeypatch.setattr(tolerances, "elements_of", lambda _: 1 / 0)
    assert not report(session(2), "worker.check(np.ones(3) + worker_id * 1e-9, rtol=1e-3)").ok
