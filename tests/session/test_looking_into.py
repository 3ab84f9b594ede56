"""`session.look_into`: one register, part by part, on every worker."""

from __future__ import annotations

import pytest

from disco_magic.errors import SessionClosed, UnknownName, UsageMistake

NET = """
net = {"w": np.arange(12.0).reshape(3, 4), "rows": np.full(2, worker_id), "b": np.zeros(2), "lr": 0.1}
net["w"][1, 2] += 1e-9 * (worker_id == 2)
net["b"][1] = np.nan
"""


@pytest.fixture
def four_nets(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(NET)
    return s


def test_parts_come_in_their_order_and_what_differs_is_shown_first(four_nets):
    found = four_nets.look_into("net")
    assert [row.name for row in found.rows] == ["net['w']", "net['rows']", "net['b']", "net['lr']"]
    assert [row.name for row in found.shown] == ["net['w']", "net['rows']", "net['b']", "net['lr']"]
    assert (found.differing, found.bad, found.is_all, found.row.name) == (2, 1, True, "net")
    assert found.rows[0].cells[0].maximum == 11


def test_of_a_part_that_differs_it_says_in_what_but_not_of_shards(four_nets):
    found = four_nets.look_into("net")
    assert found.gaps == {
        "net['w']": "[2] 1 of 12 elements differs from worker 0's, by up to 1e-09, at [1, 2]"
    }
    lines = str(found).splitlines()
    assert lines[0] == "net: 4 parts, 2 differ between workers (≠), 1 has NaN or Inf"
    (below,) = (number for number, line in enumerate(lines) if found.gaps["net['w']"] in line)
    assert lines[below - 2].startswith("  net['w']     [0-1,3] float64")


def test_marks_say_who_has_to_agree_on_a_part(four_nets):
    s = four_nets
    s.run("worker.replicated(net, over='dp'); worker.replicated(net['b'])")
    s.run("net['rows'][:] = worker.coordinates['tp']; net['w'][1, 2] = worker.coordinates['tp']")
    assert s.look_into("net").differing == 0
    s.run("net['b'][0] = worker.coordinates['tp']; net['rows'][0] += worker_id == 3")
    found = s.look_into("net")
    assert {row.name for row in found.rows if row.differs} == {"net['rows']", "net['b']"}
    assert found.gaps["net['rows']"].startswith("[3] 1 of 2 elements differs from worker 1's, by up to 1")


def test_the_worker_that_differs_is_told_from_those_of_its_own_circle(session):
    s = session(6, mesh={"dp": 3, "tp": 2})
    s.run("net = {'w': np.full(2, worker.coordinates['tp'])}; worker.replicated(net, over='dp')")
    s.run("net['w'][1] += 4 * (worker_id == 5)")
    assert s.look_into("net").gaps == {
        "net['w']": "[5] 1 of 2 elements differs from worker 1's, by up to 4, at [1]"
    }


def test_a_part_that_some_workers_lack_differs(session):
    s = session(3)
    s.run("p = {'a': np.ones(1)}\nif worker_id == 1: p['b'] = np.ones(2)")
    found = s.look_into("p")
    assert [(row.name, row.differs) for row in found.rows] == [("p['a']", False), ("p['b']", True)]
    assert found.gaps == {}


def test_a_part_can_be_looked_into_and_what_has_none(four_nets):
    s = four_nets
    s.run("deep = {'net': net}; x = np.ones(2)")
    assert [row.name for row in s.look_into("deep['net']").rows][:2] == [
        "deep['net']['w']",
        "deep['net']['rows']",
    ]
    assert s.look_into('deep["net"]').differing == 2
    alone = s.look_into("x")
    assert (alone.rows, str(alone).splitlines()[0]) == ((), "x has no parts")
    s.run("x[1] = np.nan if worker_id else 2")
    assert str(s.look_into("x")).splitlines() == [
        "x has no parts, differs between workers (≠), has NaN or Inf",
        "≠ x  [0] float64 2 · cpu · 16 B · min 1 mean 1.5 max 2",
        "     [1-3] float64 2 · cpu · 16 B · min 1 mean 1 max 1 · 1 NaN",
        "     [0] 1 of 2 elements differs from worker 1's, at [1]; 1 is NaN in some only",
    ]


def test_large_parts_are_looked_at_in_part_and_gaps_of_them_are_not_looked_for(session):
    s = session(3)
    s.run("p = {'w': np.zeros(600_000), 'v': np.zeros(10)}; p['w'][0] = worker_id == 1")
    assert s.look_into("p").rows[0].cells[0].sampled is False
    found = s.look_into("p", sample=100)
    assert (found.rows[0].cells[0].sampled, found.rows[1].cells[0].sampled) == (True, False)
    assert found.gaps == {}


def test_the_first_few_that_differ_say_in_what(session):
    s = session(3)
    s.run("p = {i: np.full(2, worker_id == 1) for i in range(9)}")
    assert list(s.look_into("p").gaps) == [f"p[{i}]" for i in range(4)]


def test_of_many_the_first_are_shown(session):
    s = session(2)
    s.run("p = {i: np.zeros(1) for i in range(1200)}; p[7][0] = worker_id")
    found = s.look_into("p")
    assert (len(found.rows), len(found.shown), found.is_all) == (1000, 300, False)
    text = str(found).splitlines()
    assert text[0] == "p: the first 1,000 parts, 1 differs between workers (≠)"
    assert text[-1] == "and 940 more, in its .rows"


def test_a_register_whose_parts_all_agree_as_they_are_marked_is_not_marked_itself(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run("m = {'rows': np.full(2, worker.coordinates['tp']), 'n': np.zeros(2)}")
    assert s.look_into("m").row.differs
    s.run("worker.replicated(m['rows'], over='dp')")
    found = s.look_into("m")
    assert (found.differing, found.row.differs) == (0, False)
    s.run("m['n'][0] = worker_id")
    assert s.look_into("m").row.differs


@pytest.mark.unmeasured  # fifteen hundred parts go the ways of three
def test_marks_of_more_than_a_thousand_parts_are_kept(session):
    s = session(2)
    s.run("p = {i: np.zeros(1) for i in range(1500)}\nfor each in p.values(): worker.replicated(each)")
    assert s.run("len(worker.marks.names)").values == [1500] * 2
    s.run("p[1400][0] = worker_id")
    assert [row.name for row in s.check(values=True).differing] == ["p[1400]"]


def test_values_that_were_not_compared_are_counted(session):
    s = session(2)
    s.run("import threading\np = {'lock': threading.Lock(), 'w': np.ones(1)}")
    assert str(s.look_into("p")).startswith("p: 2 parts, 1 compared by type only")


def test_parts_that_one_worker_has_elsewhere_are_not_missing(session):
    s = session(2)
    s.run("p = {i: np.zeros(1) for i in range(1200)}\nif worker_id: p = dict(reversed(p.items()))")
    found = s.look_into("p")
    assert (len(found.rows), found.differing, found.is_all) == (1000, 0, False)


def test_parts_behind_many_containers_are_listed(session):
    s = session(2)
    s.run("p = {i: {'w': np.zeros(1)} for i in range(600)}; p[599]['w'][0] = worker_id")
    found = s.look_into("p")
    assert ([row.name for row in found.rows if row.differs], found.is_all) == (["p[599]['w']"], True)


def test_numbers_that_are_none_count_as_bad(session):
    s = session(2)
    s.run("p = {'a': 1.0, 'loss': float('nan'), 'most': -float('inf'), 'text': 'nan'}")
    assert [row.name for row in s.look_into("p").shown] == ["p['loss']", "p['most']", "p['a']", "p['text']"]


def test_a_large_array_by_itself_is_looked_at_in_part(session):
    s = session(2)
    s.run("x = np.zeros(20_000_000, 'f4')")
    assert sum(s.look_into("x").row.cells[0].histogram) == 65_536


def test_of_two_workers_the_second_is_told_from_the_first(session):
    s = session(2)
    s.run("p = {'w': np.arange(3.0) + worker_id}")
    assert s.look_into("p").gaps["p['w']"].startswith("[1] 3 of 3 elements differ from worker 0's")


def test_it_waits_for_no_worker(gated, gate):
    s = gated(2)
    s.run("p = {'w': np.ones(3)}")
    pending = s.run_nowait("gate(worker_id)")
    assert s.look_into("p").rows[0].cells[1].mean == 1
    gate.open()
    pending.wait()


def test_what_cannot_be_looked_into_is_refused(session):
    s = session(2)
    s.run("net = {'w': 1}")
    for name in ("nett", "net['v']"):
        with pytest.raises(UnknownName):
            s.look_into(name)
    with pytest.raises(UsageMistake, match="sample is -1"):
        s.look_into("net", sample=-1)
    with pytest.raises(UsageMistake, match=r"got DRef; the row of a reference is its .info\(\)"):
        s.look_into(s["net"])
    s.shutdown()
    with pytest.raises(SessionClosed):
        s.look_into("net")


def test_parts_on_gpus_have_statistics(four):
    four.run("p = {'w': xp.arange(4.0), 'h': np.ones(2)}; p['w'][3] += worker_id == 3")
    found = four.look_into("p")
    assert [row.cells[0].mean for row in found.rows] == [1.5, 1.0]
    assert [row.differs for row in found.rows] == [True, False]
    assert found.gaps["p['w']"].startswith("[3] 1 of 4 elements differs from worker 0's, by up to 1")
