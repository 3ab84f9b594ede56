"""Parts that are meant to agree between other workers than the register they are in."""

from __future__ import annotations

import pytest

from disco_magic.values import parts
from disco_magic.values.inside import content_of

MODEL = """
model = {"norm": {"w": np.ones(4)}, "rows": np.full(3, worker.coordinates["tp"])}
worker.replicated(model, over="dp"); worker.replicated(model["norm"]["w"])
other = 1
"""
DRIFTS = "if worker.coordinates['tp'] == 1: model['norm']['w'] += 0.5"
NORM = "model['norm']['w']"


@pytest.fixture
def marked(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(MODEL)
    return s


def test_a_register_is_checked_with_the_marked_parts_of_it(marked):
    report = marked.check("model", values=True)
    assert (report.ok, [row.name for row in report.rows]) == (True, ["model", NORM])
    marked.run(DRIFTS)
    for names in (["model"], ["model['norm']"], ["other", "model"]):
        report = marked.check(*names, values=True)
        assert [row.name for row in report.differing] == [NORM]
    assert "4 of 4 elements differ from the first worker's, by up to 0.5" in str(report)


def test_of_a_marked_part_that_differs_it_is_said_what_in_it_does(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(MODEL.replace("model['norm']['w']", "model['norm']").replace('model["norm"]["w"]', 'model["norm"]'))
    assert [row.name for row in s.check("model", values=True).rows] == ["model", "model['norm']"]
    s.run(DRIFTS)
    assert [row.name for row in s.check("model", values=True).differing] == [NORM]


def test_who_says_who_has_to_agree_is_not_told_of_other_marks(marked):
    marked.run(DRIFTS)
    assert marked.check("model", values=True, over="dp").ok
    assert marked.check("model", values=True, workers=[0, 2]).ok
    assert marked.check("model", values=False).ok


def test_tables_show_such_a_part_if_it_differs(marked):
    before = marked.registers()
    assert before.parts == ()
    marked.run(DRIFTS)
    seen = marked.registers()
    assert [row.name for row in seen.listed] == ["model", NORM, "other"]
    assert [row.name for row in seen.rows] == ["model", "other"]
    assert "2 registers, 1 differs between workers" in str(seen)
    assert f"  {NORM}  [0,2] float64" in str(seen)
    assert seen.nbytes == before.nbytes
    assert marked.registers(sample=0).parts == ()


def test_one_part_is_judged_by_the_innermost_mark(marked):
    marked.run(DRIFTS)
    found = {label: marked.look_at(label).differs for label in (NORM, "model['norm']", "model['rows']")}
    assert found == {NORM: True, "model['norm']": False, "model['rows']": False}
    marked.run("worker.replicated(model['norm'], over='tp')")
    assert marked.look_at("model['norm']").differs


NET = """
_Module = type("Module", (), {"__module__": "torch.nn.modules.module"})
def _module(modules, **parameters):
    made = _Module()
    made._parameters, made._buffers, made._modules = parameters, {}, modules
    return made
_inner = {name: _module({}, weight=np.ones(2)) for name in ("0", "out")}
model = _module(_inner)
worker.replicated(model, over="dp")
for name, inner in model._modules.items():
    worker.replicated(inner)
del name, inner
"""


def test_a_module_in_another_one_is_marked_by_its_parameters(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(NET)
    paths = ["model.0.weight", "model.out.weight"]
    assert [row.name for row in s.check("model", values=True).rows] == ["model", *paths]
    s.run("if worker.coordinates['tp']: model._modules['out']._parameters['weight'] += 1")
    assert [row.name for row in s.check("model", values=True).differing] == paths[1:]
    assert [row.name for row in s.registers().parts] == paths[1:]


def test_a_part_that_is_gone_is_not_shown(marked):
    marked.run(DRIFTS)
    marked.run("del model['norm']")
    assert marked.registers().parts == ()
    assert marked.check("model", values=True).ok


def test_many_marked_parts_are_looked_up_in_one_walk_of_each_register(session, monkeypatch):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run("""
model = {f"layer{n}": {"w": np.full(2, worker.coordinates["tp"]), "norm": np.ones(2)} for n in range(40)}
worker.replicated(model, over="dp")
worker.replicated(*(layer["norm"] for layer in model.values()));
""")
    walks = []
    whole = s.run("id(model)").values
    monkeypatch.setattr(
        parts, "content_of", lambda value: walks.extend({id(value)}.intersection(whole)) or content_of(value)
    )
    assert s.registers().parts == ()
    assert len(walks) == 4
    assert len(s.check("model", values=True).rows) == 41
    s.run("model['layer7']['norm'] += worker_id")
    assert [row.name for row in s.registers().parts] == ["model['layer7']['norm']"]
    s.run("model = {'another': np.ones(2)}")  # the marks wait for parts of these names
    whole = s.run("id(model)").values
    walks.clear()
    assert s.registers().parts == ()
    assert len(walks) == 4


def test_a_number_that_is_asked_for_by_name_is_compared(session):
    s = session(2)
    s.run("config = {'lr': 0.1 * (1 + worker_id), 'steps': 3, 'name': 'a', 'seed': 5}")
    report = s.check("config['lr']", "config['steps']", "config['name']", "config['seed']", values=True)
    assert [row.name for row in report.differing] == ["config['lr']"]
    assert len(report.rows) == 4


def test_a_register_with_parts_that_differ_counts_once(marked):
    marked.run("if worker_id == 1: model['norm']['w'] += 1; model['rows'] = 'x'")
    assert marked.registers().differing == 1
    assert "2 registers, 1 differs between workers" in str(marked.registers())


def test_of_what_nobody_is_to_agree_with_no_parts_are_listed(session):
    s = session(2, mesh={"dp": 1, "tp": 2})
    s.run("model = {f'layer{n}': [np.full(2, worker_id)] for n in range(3)}")
    s.run("worker.replicated(model, over='dp');")
    report = s.check("model", values=True)
    assert [row.name for row in report.rows] == ["model"]
    assert report["model"].opaque == "none of the workers that should agree were compared"
