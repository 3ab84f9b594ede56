"""Functions and classes of cells as values: wherever they come, they use that worker's registers."""

from __future__ import annotations

import functools
import pickle

import pytest

DEFINED = """
scale = 10.0 ** worker_id
def f(x): return x * scale
def who(): return worker_id, worker.id
def set_scale(to):
    global scale
    scale = to
def made(by):
    def inner(x, *, more=1): return x * by * scale * more
    inner.note = by
    return inner
import functools, json
cached = functools.lru_cache(f)
def again(g):
    @functools.wraps(g)
    def wrapper(x): return g(x)
    return wrapper
@again
def decorated(x): return x * scale
@functools.wraps(json.dumps)
def borrowed(x): return x * scale
class Layer:
    @classmethod
    def made(cls): return cls(f)
    def __init__(self, inner): self.inner = inner
    def __call__(self, x): return self.inner(x) + scale
"""
OWN = [1.0, 10.0, 100.0]


@pytest.fixture
def s(session):
    """Three workers, each with a scale of its own."""
    started = session(3)
    started.run(DEFINED)
    return started


def sent_on(s, written, source=0):
    """Copied to the notebook, and from there to all workers, which call it `got`."""
    s.run(f"sent = {written}", workers=[source])
    s.put("got", s["sent"].get(source))


@pytest.mark.parametrize("source", [0, 2])
@pytest.mark.parametrize(
    ("written", "called"),
    [
        ("f", "got(1)"),
        ("{'act': f}", "got['act'](1)"),
        ("[(f, 1)]", "got[0][0](1)"),
        ("lambda x: x * scale", "got(1)"),
        ("made(2)", "got(.5)"),
        ("Layer(f)", "got(1) / 2"),
        ("Layer(lambda x: x * scale)", "got(1) / 2"),
        ("__import__('functools').partial(f, 1)", "got()"),
        ("[__import__('functools').partial(f, 1)]", "got[0]()"),
        ("cached", "got(1)"),
        ("{'c': cached}", "got['c'](1)"),
        ("decorated", "got(1)"),
        ("[decorated]", "got[0](1)"),
        ("Layer(f).__call__", "got(1) / 2"),
        ("Layer.made", "got()(1) / 2"),
        ("borrowed", "got(1)"),
    ],
)
def test_a_function_that_goes_through_the_notebook_reads_the_receiver_s_registers(s, written, called, source):
    sent_on(s, written, source)
    assert s.run(called).values == OWN


def test_it_is_the_receiver_s_own_function_if_that_is_the_same(s):
    sent_on(s, "{'f': f, 'Layer': Layer, 'again': f}")
    assert s.run("got['f'] is f, got['again'] is f, got['Layer'] is Layer").values == [(True, True, True)] * 3
    s.run("def f(x): return 'another'")
    assert s.run("got['f'](1)").values == OWN


def test_what_a_function_carries_comes_along(s):
    sent_on(s, "made(2)")
    assert s.run("got(.5, more=2) / 2, got.note, got.__qualname__, got.__kwdefaults__").values == [
        (own, 2, "made.<locals>.inner", {"more": 1}) for own in OWN
    ]


def test_it_sets_the_registers_of_whoever_calls_it(s):
    sent_on(s, "set_scale")
    s.run("got(-5.0)", workers=[2])
    assert s.run("scale").values == [1.0, 10.0, -5.0]
    assert s.run("got(worker_id)\nscale").values == [0, 1, 2]


def test_a_copy_from_pickle_and_a_plain_one_are_the_same(s):
    s.put("plain", s["f"].get(0))
    s.put("packed", pickle.dumps(s["f"].get(0)))
    assert s.run("import pickle\npickle.loads(packed) is plain is f").values == [True] * 3


def test_one_that_is_called_or_passed_from_the_notebook_is_each_worker_s_own(s):
    f, who = s["f"].get(0), s["who"].get(1)
    assert s.call_packed(f, 1).get_all() == OWN
    assert s.call_packed(who).get_all() == [(0, 0), (1, 1), (2, 2)]
    assert s.call_packed(lambda g: g(1), f).get_all() == OWN
    for name in ("cached", "decorated", "borrowed"):
        assert s.call_packed(s[name].get(0), 1).get_all() == OWN, name
    assert s.call_packed(lambda held: held["f"](1), {"f": f}).get_all() == OWN
    assert s.call_packed(lambda *, g: g(1), g=f, workers=[1]).get(1) == 10.0
    assert s.call_packed(functools.partial(f, 1)).get_all() == OWN


def test_what_one_worker_is_given_is_its_own(s):
    s.run("taken = None")
    s["taken"].set(2, {"f": s["f"].get(0)})
    assert s.run("taken['f'](1)", workers=[2]).values == [100.0]


def test_what_the_notebook_gets_stays_the_worker_s(s):
    assert [f(1) for f in s["f"].get_all()] == OWN


def test_a_function_outlives_the_session_whose_cell_defined_it(session, s):
    f = s["f"].get(0)
    s.shutdown()
    later = session(2)
    later.run("scale = 7.0 + worker_id")
    later.put("f", f)
    assert later.run("f(1)").values == [7.0, 8.0]


def test_functions_of_the_notebook_are_handed_over_as_they_are(s):
    s.put("plain", test_functions_of_the_notebook_are_handed_over_as_they_are)
    s.put("held", [len, test_functions_of_the_notebook_are_handed_over_as_they_are])
    assert s["plain"].get(2) is test_functions_of_the_notebook_are_handed_over_as_they_are
    assert s["held"].get(2)[1] is test_functions_of_the_notebook_are_handed_over_as_they_are


def test_functions_of_one_definition_that_differ_in_their_defaults_stay_apart(s):
    s.run("fs = []\nfor k in (1, 2, 3):\n    def h(x, k=k, *, by=k): return x * k * by\n    fs.append(h)")
    s.put("got", s["fs"].get(0))
    assert s.run("[h(10) for h in got]").values == [[10, 40, 90]] * 3
    s.run("def g(x, by=1): return x * by")
    s.run("old = g\ndef g(x, by=2): return x * by")
    s.put("got", s["old"].get(0))
    assert s.run("got(10)").values == [10] * 3
    assert s.call_packed(s["old"].get(1), 10).get_all() == [10] * 3
