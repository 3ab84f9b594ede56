"""Checks of configurations: ranges, dtypes, devices, functions and classes, and how containers are set up."""

from __future__ import annotations

import pytest

from tests.session.checked import failed, report

SETUP = """
import collections, dataclasses, enum
from functools import cached_property, lru_cache, partial, wraps
from types import SimpleNamespace
def made(k, *more):
    def inner(x, y=1):
        return x + k, more
    return inner
def itself(k):
    def inner():
        return inner, k
    return inner
def traced(function):
    @wraps(function)
    def wrapper(*args): return function(*args)
    return wrapper
def labelled(k):
    def act(): pass
    act.k = k
    return act
def kind(k, base=object):
    class Layer(base):
        width = k
        def size(self): return super().__init__, 1
        @property
        def half(self): return self
        @staticmethod
        def of(x=k): return x
    return Layer
class Plain: pass
def config(k, more=0):
    @dataclasses.dataclass
    class Config:
        rate: float = k
        layers: list = dataclasses.field(default_factory=[list, tuple][more])
    return Config
def mode(k):
    class Mode(enum.Enum):
        LR = k
    return Mode
def cached(k, wrapper):
    def one(self): return 1
    def two(self): return 2
    class Cached: size = wrapper([one, two][k])
    return Cached
def having(*items):
    class Having: held = {"a": list(items)}
    return Having
class Held:
    def act(self): pass
def late():
    def inner(): return after
    return inner
    after = 1
"""


def test_ranges_that_are_equal_are_equal_however_they_were_made(session):
    s = session(2)
    s.run("r = range(0, 10, 3) if worker_id else range(0, 12, 3)")
    s.run("worker.check(r, [r, np.ones(2)])")
    assert not s.look_at("r").differs
    assert s.check("r").ok


def compared(session, made):
    """Whether equal definitions count as equal, and whether others do."""
    s = session(2)
    s.run(f"{SETUP}\nv = 1\none = SimpleNamespace(a={made})")
    s.run(f"v = worker_id\nother = SimpleNamespace(a={made})")
    s.run("worker.check(one)")
    return s.check("one").ok, s.check("other").ok


@pytest.mark.parametrize(
    "made",
    [
        "np.dtype(['f4', 'f8'][v])",
        "[np.float32, np.float64][v]",
        "[np.add, np.exp][v]",
        "[len, abs][v]",
        "[np.linalg.norm, np.linalg.inv][v]",
        "[np, collections][v]",
        "[dict.fromkeys, int.from_bytes][v]",
        "made(v)",
        "itself(v)",
        "traced(made(v))",
        "labelled(v)",
        "[lambda: 1, lambda: 2][v]",
        "lambda x, *, k=v: k",
        "partial(np.add, v)",
        "partial(np.sum, axis=v)",
        "[made, itself][v]",
        "kind(v)",
        "kind(1, [object, Plain][v])",
        "kind(np.full(3, v))",
        "config(v)",
        "config(1, v)",
        "mode(v)",
        "mode(1 + v).LR.__class__",
        "cached(v, cached_property)",
        "cached(v, lru_cache)",
        "cached(v, lru_cache(maxsize=4))",
        "cached(0, lru_cache(maxsize=4 + v))",
        "cached(v, staticmethod)",
        "cached(v, classmethod)",
        "cached(v, property)",
        "having(np.full(3, v))",
        "having({'b': v}, {v})",
        "made(np.full(3, v))",
        "collections.deque([1], maxlen=2 + v)",
        "collections.defaultdict([list, int][v])",
    ],
)
def test_settings_are_compared_by_what_they_are(session, made):
    assert compared(session, made) == (True, False)


def test_what_a_container_is_set_up_with_is_named(session):
    s = session(2)
    s.run("import collections")
    (row,) = report(s, "worker.check(collections.deque([1], maxlen=2 + worker_id))").rows
    assert row.lines()[0][2] == "collections.deque of 1 (int) maxlen=2"
    (row,) = report(s, "worker.check(collections.defaultdict([list, int][worker_id]))").rows
    assert row.lines()[0][2].startswith("collections.defaultdict of 0 default_factory=list")


@pytest.mark.parametrize(
    "made",
    ["[].append", "Held().act", "made(Held())", "made(1, Held())", "late()", "np.frompyfunc(len, 1, 1)"],
)
def test_what_functions_take_along_is_not_said_to_be_equal_if_it_cannot_be_compared(session, made):
    s = session(2)
    s.run(f"{SETUP}\na = {made}")
    assert s.check("a")["a"].opaque
    errors = failed(s, f"import collections; worker.check(collections.defaultdict({made}))")
    assert "cannot be compared: its default_factory=" in str(errors[0])


def test_a_class_with_attributes_that_cannot_be_compared_is_treated_like_an_object_with_such(session):
    s = session(2)
    s.run(f"{SETUP}\na = having(object(), worker_id)\nclass b:\n    log, lock = object(), object()")
    s.run("class c:\n    def f(self, x=b): return x")
    for name, why in (
        ("a", "its attribute"),
        ("b", "its attributes lock, log cannot be compared"),
        ("c", "its attribute f cannot be compared"),
    ):
        report = s.check(name)
        assert (report.ok, bool(report), len(report.uncompared)) == (True, False, 1)
        assert why in report[name].opaque
        assert "equal" not in report.summary
        (error, _) = failed(s, f"worker.check({name})").values()
        assert f"check: {name} cannot be compared: {why}" in str(error)
    s.run("class a:\n    held = object()\n    width = worker_id")
    assert s.check("a")["a"].differs  # what is known of it counts
