"""`worker.check`: which workers have to agree on what, by marks, axes and ids."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError
from tests.session.checked import failed, report, reports

SHARDED = """
model = {"norm": np.ones(4), "rows": np.full(3, worker.coordinates["tp"])}
worker.replicated(model, over="dp"); worker.replicated(model["norm"])
"""


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


@pytest.mark.parametrize("asked", ["tp", ("pp", "tp")])
def test_a_place_that_a_mark_and_the_check_name_is_said_once(session, asked):
    s = session(4, mesh={"pp": 2, "tp": 2})
    s.run("w = worker.replicated(np.zeros(3), over='tp')\nif worker_id == 3: w += 1")
    with pytest.raises(CellError, match="'w' differs at pp=1: float64"):
        s.run(f"worker.check(over={asked!r})")


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


@pytest.mark.unmeasured  # nine hundred parts go the ways of three
def test_time_grows_as_the_number_of_marked_parts(session):
    s = session(2, mesh={"dp": 1, "tp": 2})
    s.run("import time")
    taken = []
    for count in (100, 800):
        s.run(f"p = {{i: np.full(1, worker_id) for i in range({count})}}")
        s.run("for each in p.values(): worker.replicated(each, over='dp')")
        s.run("start = time.perf_counter(); worker.check(p); worker.check()")
        s.run("spent = time.perf_counter() - start")
        taken.append(max(s["spent"].get_all()))
    assert taken[1] < 30 * taken[0]  # quadratic it would be 64 times


def test_along_which_axis_nothing_differs_is_said(session):
    s = session(4, mesh={"pp": 2, "tp": 2})
    s.run("loss = None if worker.coordinates['pp'] else 1.5; w = np.zeros(3)")
    report = s.check()
    assert report.along == ("tp",)
    assert (
        "Along tp nothing differs: over='tp' (%disco check --over tp) compares that alone." in report.message
    )
    assert s.check(over="tp")
    assert s.check(over="pp").along == ()
    s.run("if worker_id == 3: w = np.zeros(4)")
    assert s.check().along == ()
    assert s.check("loss").along == ("tp",)
