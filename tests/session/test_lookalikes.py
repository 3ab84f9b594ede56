"""Results that differ between workers and look the same: a line says in what, and by how much."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.values import distances, lookalikes


def noting(monkeypatch):
    """Pairs of values that are compared from now on."""
    compared = []
    monkeypatch.setattr(lookalikes, "why_apart", lambda *pair: compared.append(pair[:2]))
    return compared


def last_lines(result, count=1):
    return str(result).splitlines()[-count:]


def test_an_array_says_in_how_many_elements_and_by_how_much(four):
    result = four.run("xp.array([1 / 3 + (worker_id == 3) * 1e-12, 1.0])")
    assert str(result).splitlines() == [
        "[0-2] array([0.33333333, 1.        ])",
        "[3]   array([0.33333333, 1.        ])",
        "≠ [3] 1 of 2 elements differs from worker 0's, by up to 1e-12, at [0]",
    ]


def test_a_part_of_a_container_is_named(four):
    result = four.run("{'b': xp.zeros(2), 'w': [xp.ones(3) + (worker_id > 1) * 1e-12]}")
    told = "≠ [2-3] ['w'][0]: 3 of 3 elements differ from worker 0's, by up to 1e-12"
    assert last_lines(result) == [told]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("np.float32(0.1) if worker_id else 0.1", "numpy.float32, worker 0's is float"),
        ("worker_id // 2", None),
        (
            "x = np.ones(2000); x[1000] += (worker_id > 1) / 8; x",
            "1 of 2,000 elements differs from worker 0's, by up to 0.125, at [1000]",
        ),
        (
            "x = np.full(2000, 'a'); x[1000] = 'b' if worker_id > 1 else 'c'; x",
            "1 of 2,000 elements differs from worker 0's, at [1000]",
        ),
        (
            "x = np.full(2, np.nan); x.view('i8')[1] += worker_id > 1; x",
            "as numbers they are equal: signs of zeros differ, or bits of NaNs",
        ),
        (
            "import pandas as pd; pd.DataFrame({'a': [1, 2], 'b': [1.0, 2 + (worker_id > 1) * 1e-9]})",
            "['b']: 1 of 2 elements differs from worker 0's, by up to 1e-09, at [1]",
        ),
        (
            "import pandas as pd; pd.DataFrame({'a': pd.Series([1, 2], dtype=f'int{32 << worker_id // 2}')})",
            "['a']: int64 (2,), worker 0's is int32 (2,)",
        ),
    ],
)
def test_all_kinds_of_values_say_it(session, cell, told):
    result = session(4).run(cell)
    workers = "[1-3]" if "if worker_id else" in cell else "[2-3]"
    assert [line for line in str(result).splitlines() if "≠" in line] == [f"≠ {workers} {told}"] * bool(told)


HUGE = hex(10**5000)  # which Python refuses to write in decimal
OBJECTS = """
class Token:
    def __repr__(self): raise RuntimeError("no text")
    __reduce__ = __repr__
PADDED = np.zeros(3, dtype=np.dtype([("x", "i1"), ("y", "f8")], align=True))
PADDED.view("u1")[1] = worker_id
RECORD = np.zeros(1, dtype=[("a", object), ("b", "f8")])
RECORD[0] = Token(), worker_id
RECORD = RECORD[0]
class Box:
    def __init__(self, **fields):
        vars(self).update(fields)
    def __repr__(self):
        return "Box"
"""


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("x=worker_id // 2", ".x: 1, worker 0's is 0"),
        ("x=[1, 'one' if worker_id > 1 else 'two']", ".x[1]: 'one', worker 0's is 'two'"),
        ("x=list(range(3 + worker_id // 2))", ".x: 4 items, worker 0's is 3 items"),
        ("x={'a': {'b': 1 + worker_id // 2}}", ".x['a']['b']: 2, worker 0's is 1"),
        ("x=1, y=[1.0] if worker_id > 1 else (1.0,)", ".y: list, worker 0's is tuple"),
        ("x={1: 2}, y={10**5000: worker_id // 2}", f".y[{HUGE[:20]}…{HUGE[-20:]}]: 1, worker 0's is 0"),
        ("x=0.0 if worker_id > 1 else -0.0", ".x: 0.0, worker 0's is -0.0"),
    ],
)
def test_what_is_in_an_object_is_found(session, fields, told):
    s = session(4)
    s.run(OBJECTS)
    result = s.run(f"Box({fields})")
    assert str(result).splitlines()[:2] == ["[0-1] Box", "[2-3] Box"]
    assert str(result).splitlines()[2:] == [f"≠ [2-3] {told}"]


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ("x={1, 2 + worker_id // 2}", ".x (set)"),
        ("x={1: 2}, y=np.array([None, worker_id // 2])", ".y (ndarray)"),
        ("x=__import__('io').BytesIO(bytes([worker_id // 2])), y={1}", ".x (_io.BytesIO) or .y (set)"),
        ("v={0}, w={1}, x={2}, y={3}, z={worker_id // 2}", ".v (set) or .w (set) or .x (set) or 2 more"),
    ],
)
def test_where_nothing_is_found_the_parts_are_named_that_no_look_goes_into(session, fields, parts):
    # "Differs in what is not shown" left the reader to search the whole object.
    s = session(4)
    s.run(OBJECTS)
    result = s.run(f"Box({fields})")
    told = f"differs from worker 0's in what is not shown, perhaps in {parts}, which no look goes into"
    assert last_lines(result) == [f"≠ [2-3] {told}"]


@pytest.mark.parametrize("odd", ["PADDED", "Token", "Box(x=RECORD)", "Box(x={10**5000: 1})"])
def test_what_is_equal_or_cannot_be_compared_does_not_hide_what_differs(session, odd):
    s = session(4)
    s.run(OBJECTS)
    result = s.run(f"[{odd}, np.array([1 / 3 + (worker_id > 1) * 1e-12, 1])]")
    told = "≠ [2-3] [1]: 1 of 2 elements differs from worker 0's, by up to 1e-12, at [0]"
    assert last_lines(result) == [told]


def test_those_that_differ_in_the_same_way_have_one_line_of_the_first_that_looks_like_them(session):
    result = session(6).run("np.ones(1) * (7 if worker_id == 0 else 1 + 1e-12 * (worker_id % 3))")
    assert str(result).splitlines()[4:] == [
        "≠ [2-3,5] 1 of 1 elements differs from worker 1's, by up to 1e-12"
    ]


def test_who_is_not_shown_is_not_told(session):
    result = session(4).run("np.ones(1) + 1e-12 * (worker_id > 1)")
    assert len(result.apart()) == len(result.apart((0, 2))) == len(result.apart((1, 3))) == 1
    assert result.apart((0, 1)) == result.apart((2, 3)) == []


@pytest.mark.parametrize("cell", ["lambda: 1", "def f(): pass\n[f, 1]", "class A: pass\nA"])
def test_what_is_each_worker_s_own_whatever_it_shows_is_not_told(session, cell):
    assert "≠" not in str(session(2).run(cell))


def test_a_figure_and_what_is_in_it_are_not_told(session):
    pytest.importorskip("matplotlib")
    s = session(2)
    s.run("from matplotlib.figure import Figure\nfigure = Figure()\naxes = figure.subplots()")
    for cell in ("figure", "axes", "axes.set_title('x')"):
        assert "≠" not in str(s.run(cell))


def test_values_that_look_different_are_not_compared(session, monkeypatch):
    compared = noting(monkeypatch)
    assert str(session(2).run("worker_id")) == "[0] 0\n[1] 1"
    assert str(session(2).run("np.ones(2)")) == "[0-1] array([1., 1.])"
    assert compared == []


def test_it_is_known_when_the_cell_has_ended_and_stays(session):
    s = session(2)
    s.run("x = np.ones(1) + worker_id / 1e12")
    result = s.run("x")
    s.run("x[:] = 1")
    result.release()
    s.shutdown()
    assert last_lines(result) == ["≠ [1] 1 of 1 elements differs from worker 0's, by up to 1e-12"]


def test_a_cell_that_was_sent_without_waiting_says_it_too(session):
    pending = session(2).run_nowait("np.ones(1) + worker_id / 1e12")
    assert last_lines(pending.wait()) == ["≠ [1] 1 of 1 elements differs from worker 0's, by up to 1e-12"]


@pytest.mark.parametrize("later", ["x += 100 * worker_id", "x = 5"])
def test_what_a_later_cell_may_have_changed_is_not_compared(session, later):
    s = session(2)
    pending = s.run_nowait("x = np.ones(1) + worker_id / 1e12\nx")
    s.run(later)
    assert str(pending.wait()) == "[0] array([1.])\n[1] array([1.])"


def test_a_worker_that_is_busy_with_something_later_is_not_waited_for(session):
    s = session(2)
    s.run("import threading; go = threading.Event()")
    pending = s.run_nowait("np.ones(1) + worker_id / 1e12")
    later = s.run_nowait("go.wait()")
    try:
        assert len(str(pending.wait()).splitlines()) == 2
        assert not later.done()
    finally:
        s.examine_names(lambda bound, behind: bound["go"].set())
    later.wait()


def test_values_of_a_session_that_has_ended_are_not_compared(session):
    s = session(2)
    pending = s.run_nowait("np.ones(1) + worker_id / 1e12")
    while not pending.done():
        s.sync_all()
    s.shutdown()
    assert str(pending.wait()) == "[0] array([1.])\n[1] array([1.])"


OWN_NUMBER = """
class Own(np.float64):
    def __repr__(self): raise ZeroDivisionError("mine")
    __str__ = __repr__
class Box:
    def __init__(self, x): self.x = x
    def __repr__(self): return "Box"
"""


def test_a_number_of_a_class_of_its_own_is_not_asked_for_its_text(session):
    s = session(2)
    s.run(OWN_NUMBER)
    assert last_lines(s.run("Box([Own(1 + worker_id)])")) == [
        "≠ [1] differs from worker 0's in what is not shown"
    ]
    assert last_lines(s.run("Box([1 + worker_id])")) == ["≠ [1] .x[0]: 2, worker 0's is 1"]
    s.run("c = worker.replicated([1, Own(1 + worker_id)])\nd = worker.replicated([Own(worker_id)] * 100)")
    report = s.check(values=True)
    assert not report.ok
    assert s.registers().row("d").differs


def test_texts_that_look_the_same_say_from_where_on_they_differ(session):
    s = session(2)
    s.run(OWN_NUMBER)
    told = "≠ [1] .x[0]: they differ from character 102 on"
    assert last_lines(s.run("Box(['a' * 100 + str(worker_id)])")) == [told]


def test_waiting_again_does_not_compare_again(session, monkeypatch):
    pending = session(2).run_nowait("np.ones(1) + worker_id / 1e12")
    first = str(pending.wait())
    compared = noting(monkeypatch)
    assert str(pending.wait()) == first
    assert compared == []


def test_ctrl_c_while_values_are_compared_leaves_the_result(session, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(lookalikes, "why_apart", interrupt)
    pending = session(2).run_nowait("np.ones(1) + worker_id / 1e12")
    with pytest.raises(KeyboardInterrupt) as caught:
        pending.wait()
    assert str(caught.value.result) == str(pending.wait()) == "[0] array([1.])\n[1] array([1.])"


def test_no_code_of_the_values_is_executed(session):
    s = session(2)
    s.run(
        """
called = []
class Odd:
    def __init__(self, x): self.x = x
    def __repr__(self): return 'Odd'
    shape = property(lambda self: called.append('shape'))
    def __getattr__(self, name): called.append(name); raise AttributeError(name)
    def __eq__(self, other): called.append('==')
    __hash__ = None
y = Odd(worker_id)
"""
    )
    result = s.run("called.clear(); y")
    told = s.run("[name for name in called if not name.startswith(('_repr', '_ipython'))]")
    assert last_lines(result) == ["≠ [1] .x: 1, worker 0's is 0"]
    assert "shape" not in str(told)
    assert "==" not in str(told)


def test_large_arrays_are_compared_by_a_sample(monkeypatch):
    monkeypatch.setattr(distances, "MOST_ELEMENTS", 65_536)
    x = np.ones(1 << 17)
    told = lookalikes.why_apart(x, x + 1, "worker 3's")
    assert told == "65,536 of 65,536 sampled elements differ from worker 3's, by up to 1"
    assert lookalikes.why_apart(x, x.copy(), "worker 3's") == ""


EQUAL = """
import dataclasses
@dataclasses.dataclass
class Pair:
    one: object
    other: object
w = "ab cd ab".split()
shared = [1.0]
"""


@pytest.mark.parametrize(
    "cell",
    [
        "Pair(w[0], w[0] if worker_id else w[2])",
        "Pair(shared, shared if worker_id else [1.0])",
        "[Pair(np.ones((2, 3)).T if worker_id else np.ones((3, 2)), 1)]",
    ],
)
def test_how_equal_objects_were_made_does_not_matter(session, cell):
    s = session(2)
    s.run(EQUAL)
    result = s.run(cell)
    assert len(result.groups()) == 1
    assert result.apart() == []


def test_texts_that_are_spelled_in_other_characters_are_told_by_their_code_points(session):
    s = session(2)
    accent = "{} if worker_id else {}"
    told = accent.format(r"'caf\u00e9'", r"'cafe\u0301'")
    assert repr(s.run(told)).splitlines()[2:] == [r"≠ [1] 'caf\xe9', worker 0's is 'cafe\u0301'"]
    assert repr(s.run(f"[{{'name': {told}}}]")).splitlines()[2:] == [
        r"≠ [1] [0]['name']: 'caf\xe9', worker 0's is 'cafe\u0301'"
    ]
    s.run(f"c = worker.replicated([{told}])")
    assert s.check(values=True)["c"].gap == r"[1] [0]: 'caf\xe9', worker 0's is 'cafe\u0301'"
