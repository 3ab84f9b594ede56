"""What a failed expression has read: which names, followed how far, and in which words."""

from __future__ import annotations

import linecache
import logging
import pickle
from itertools import count

import numpy as np
import pytest

from disco_magic.errors import Failure, PlaneMismatch, WorkerInterrupt
from disco_magic.values.operands import operands_of

_numbers = count()


def error_of(source, **names):
    """The exception that the user's code raises."""
    file = f"/home/me/program{next(_numbers)}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        exec(compile(source, file, "exec"), names)
    except BaseException as error:  # noqa: BLE001 - whatever a test raises
        return error
    raise AssertionError("no error")


def read_by(source, **names):
    operands = operands_of(error_of(source, **names))
    return None if operands is None else dict(operands.values)


class Layer:
    def __init__(self):
        self.weight = np.ones((3, 2))
        self.asked = 0

    @property
    def scale(self):
        self.asked += 1
        return 1

    def __getattr__(self, name):
        object.__getattribute__(self, "__dict__")["asked"] += 1
        raise AttributeError(name)

    def __repr__(self):
        raise RuntimeError("nobody may ask")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("c = a @ b", {"a": "float64 2\u00d73 [[1. 1. 1.] [1. 1. 1.]]", "b": "int8 9"}),
        ("c = (a @ a) + b", {"a": "float64 2\u00d73 [[1. 1. 1.] [1. 1. 1.]]"}),
        ("total = 1\nif n > 0:\n    total += 1 / (n - 2)", {"n": "2"}),
        ("a[0] = text", {"a": "float64 2\u00d73 [[1. 1. 1.] [1. 1. 1.]]", "text": "'seven'"}),
        ("one, two = b", {"b": "int8 9"}),
        ("words['x'][n] + n", {"words['x']": "list [1]", "n": "2"}),
        ("words['x'][0] + words['nothing']", {"words": "dict {'x': [1]}"}),
        ("raise ValueError(\n    f'{n} is wrong'\n)", {"n": "2"}),
        ("(n +\n    text)", {"n": "2", "text": "'seven'"}),
        ("assert n == 3, 'no'", {"n": "2"}),
        ("max(key for key in text if n / 0)", {"n": "2"}),
        ("list(map(lambda n: n + 'x', [7]))", {"n": "7"}),
        ("for n in missing: pass", None),
        ("1 / 0", None),
        ("import no_such_module", None),
        ("raise ValueError('plain')", None),
        ("class C:\n    n = 1\n    m = n + text", {"n": "1", "text": "'seven'"}),
        ("del words[n]", {"words": "dict {'x': [1]}", "n": "2"}),
        ("with open(text + '/') as f: pass", {"text": "'seven'"}),
        ("np.reshape(a, (n, 7))", {"a": "float64 2\u00d73 [[1. 1. 1.] [1. 1. 1.]]", "n": "2"}),
        ("len(n.real)", {"n.real": "2"}),
    ],
)
def test_the_names_of_the_innermost_failed_expression_are_described(source, found):
    names = {"a": np.ones((2, 3)), "b": np.zeros(9, "int8"), "n": 2, "text": "seven", "words": {"x": [1]}}
    assert read_by(source, np=np, **names) == found


def test_no_code_of_a_metaclass_runs():
    def boom(*_):
        raise SystemExit("asked")

    meta = type("Meta", (type,), {"__eq__": boom, "__hash__": type.__hash__, "__flags__": property(boom)})
    odd = meta("Odd", (), {})()
    assert list(read_by("odd + 1", odd=odd)) == ["odd"]
    assert list(read_by("d[odd] + 1", odd=odd, d={})) == ["d", "odd"]


def test_a_local_variable_without_a_value_is_not_taken_for_the_global():
    assert read_by("def f():\n    y = x + z\n    x = 2\nf()", x=5, z=1) is None


def test_containers_of_secrets_are_not_shown():
    read = read_by("login(tokens, cfg)", login=3, tokens=["sk-123"], cfg={"password": "hunter2"})
    assert read == {"login": "3", "tokens": "list 1 item", "cfg": "dict 1 item"}


@pytest.mark.parametrize(
    "source", ["[v / n for v in text]", "def f(v):\n    return [n / v for v in text]\nf(3)"]
)
def test_a_comprehension_s_variable_is_not_taken_for_one_of_the_same_name(source):
    """From 3.12 on its value is gone when the error is described."""
    read = read_by(source, text="seven", n=2, v=5)
    assert read.pop("v", "'s'") == "'s'"
    assert read == {"n": "2"}


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    try:\n        return n / x\n    finally:\n        x = None\nf(0)",
        "x = 0\ntry:\n    n / x\nexcept ZeroDivisionError:\n    x = 9\n    raise",
        "x = 0\ntry:\n    try:\n        n / x\n    finally:\n        y = 1\nfinally:\n    del x",
        "x = 0\ntry:\n    n / x\nexcept ValueError as x:\n    pass",
    ],
)
def test_variables_that_a_handler_may_have_bound_again_are_left_out(source):
    assert read_by(source, n=2) == {"n": "2"}


IN_A_LOOP = """
for x in (0, 7):
    try:
        n / x
    except ZeroDivisionError as e:
        kept = e
raise kept
"""
IN_A_FUNCTION = """
def f(x):
    try:
        n / x
    except ZeroDivisionError as e:
        kept.append(e)
    for x in (3, 4): pass
kept = []
f(0)
raise kept[0]
"""
IN_A_GENERATOR = """
def g():
    for x in (0, 7):
        try:
            yield n / x
        except ZeroDivisionError as e:
            kept = e
    raise kept
list(g())
"""
IN_ANOTHER_HANDLER = """
x = 0
try:
    n / x
except ZeroDivisionError as e:
    kept = e
x = 7
try:
    {}[x]
except KeyError:
    raise kept
"""
IN_A_LATER_TURN = """
kept = None
for x in (0, 'a'):
    try:
        n / x
    except ZeroDivisionError as e:
        kept = e
    except TypeError:
        raise kept
"""
AT_THE_SECOND_TRY = """
first = None
for x in (0, 0.0):
    try:
        n / x
    except ZeroDivisionError as e:
        if first: raise first
        first = e
"""
IN_A_BLOCK = """
from contextlib import nullcontext
x = 0
try:
    n / x
except ZeroDivisionError as e:
    kept = e
x = 7
with nullcontext():
    raise kept
"""


@pytest.mark.parametrize(
    "source",
    [
        IN_A_LOOP,
        IN_A_FUNCTION,
        IN_A_GENERATOR,
        IN_ANOTHER_HANDLER,
        IN_A_LATER_TURN,
        AT_THE_SECOND_TRY,
        IN_A_BLOCK,
    ],
)
def test_of_an_error_that_is_raised_again_later_only_what_never_changes_is_told(source):
    assert read_by(source, n=2) == {"n": "2"}


@pytest.mark.parametrize("again", ["raise", "raise e", "raise e from None", "log()\n    raise"])
def test_of_an_error_that_its_handler_raises_again_everything_is_told(again):
    source = f"x = 0\nfor i in (1,):\n  try:\n    n / x\n  except ZeroDivisionError as e:\n    {again}"
    assert read_by(source, n=2, log=print) == {"n": "2", "x": "0"}


def test_what_the_expression_binds_itself_is_left_out():
    assert read_by("x = 1\nn + x + (x := 'seven')", n=2) == {"n": "2"}


def test_an_item_that_was_computed_in_place_and_could_not_be_set_is_left_out():
    assert read_by("t[0] += more", t=([1],), more=[2]) == {"more": "list [2]"}
    assert read_by("t[0] += more", t=([1],), more=2) == {"t[0]": "list [1]", "more": "2"}
    assert read_by("a[0] += more", a=np.ones(2), more=np.ones(3)) == {
        "a": "float64 2 [1. 1.]",
        "more": "float64 3 [1. 1. 1.]",
    }


def test_a_variable_is_read_again_when_the_comprehension_is_over():
    source = "def f(v):\n    all = [v for v, w in pairs]\n    return all + v\nf(3)"
    assert read_by(source, pairs=[(1, 2)]) == {"all": "list [1]", "v": "3"}


def test_attributes_are_followed_as_far_as_no_code_of_the_user_s_runs():
    layer = Layer()
    source = "def f(layer, x):\n    return layer.weight @ x\nf(layer, np.ones(4))"
    assert read_by(source, layer=layer, np=np) == {
        "layer.weight": "float64 3\u00d72 [[1. 1.] [1. 1.] [1. 1.]]",
        "x": "float64 4 [1. 1. 1. 1.]",
    }
    read = read_by("layer.scale / 0", layer=layer)
    assert list(read) == ["layer"]
    assert layer.asked == 1, "only the program itself has"


def test_what_is_the_same_everywhere_is_left_out_and_the_rest_is_counted():
    names = {f"x{i}": i for i in range(12)}
    operands = operands_of(error_of(f"sorted(print, {', '.join(names)})", **names))
    assert (list(operands.values), operands.left_out) == ([f"x{i}" for i in range(8)], 4)


def test_texts_that_may_be_secret_are_not_shown():
    names = {"hub_token": "hf_abcdef", "name": "/nowhere"}
    read = read_by("open(hub_token + name)", **names)
    assert read == {"hub_token": "str of length 9", "name": "'/nowhere'"}


def test_large_values_are_not_looked_into():
    read = read_by("rows[None], x", rows=list(range(1_000_000)), x=1)
    assert read == {"rows": "list, 1,000,000 items"}
    read = read_by("f(x)", f=3, x=np.full(1_000_000, np.nan))
    assert read == {"f": "3", "x": "float64 1000000"}


def test_a_frame_s_own_code_in_cython_is_not_the_user_s():
    pandas = pytest.importorskip("pandas")
    assert read_by("df['missing']", df=pandas.DataFrame({"a": ["x", "y"]})) == {"df": "DataFrame 2\u00d71"}


def test_elements_that_are_no_numbers_are_counted():
    x = np.array([1.0, np.nan, np.inf, np.nan, 1, 1, 1, 1])
    assert read_by("assert (x > 0).all() and False", x=x) == {"x": "float64 8, 2 NaN, 1 inf"}


@pytest.mark.parametrize("kind", [PlaneMismatch, WorkerInterrupt, KeyboardInterrupt, SystemExit])
def test_errors_that_say_enough_have_none(kind):
    assert read_by("raise kind(x)", kind=kind, x=1) is None


def test_an_expression_whose_source_is_gone_has_none():
    error = error_of("x / 0", x=1)
    linecache.cache.clear()
    assert operands_of(error) is None


def test_a_class_body_s_own_mapping_is_not_asked():
    class Asking(dict):
        def __contains__(self, name):
            raise RuntimeError("nobody may ask")

    class Meta(type):
        @classmethod
        def __prepare__(cls, name, bases):
            return Asking()

    assert read_by("class C(metaclass=Meta):\n    n = 3\n    n / (zero)", Meta=Meta, zero=0) == {"zero": "0"}


def test_what_cannot_be_described_does_not_take_the_error_s_place(monkeypatch, caplog):
    monkeypatch.setattr("disco_magic.values.operands.describe", lambda *_: 1 / 0)
    with caplog.at_level(logging.DEBUG, "disco_magic"):
        assert operands_of(error_of("x / 0", x=object())) is None
    assert "ZeroDivisionError" in caplog.text


def test_failures_keep_them_in_other_processes():
    error = error_of("x / 0", x=1)
    failure = Failure(1, 2, "call f", error, "", operands_of(error))
    again = pickle.loads(pickle.dumps(failure))  # noqa: S301 - our own
    assert again.operands == failure.operands
    assert again.operands.expression == "x / 0"
