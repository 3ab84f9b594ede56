"""allreduce_tree: dicts, lists and tuples of arrays, on the host and on GPUs."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, PlaneMismatch, UsageMistake
from disco_magic.functions import leaves
from disco_magic.functions.calling import Calling

GRADIENTS = """
from collections import namedtuple
Pair = namedtuple("Pair", "w b")
rng = np.random.default_rng(worker_id)
def draw(*shape, dtype="f4"): return xp.asarray(rng.standard_normal(shape).astype(dtype))
g = {
    "layers": [Pair(draw(3, 5), draw(5)), Pair(draw(5, 2).T, None)],
    "scale": draw(), "half": (draw(7, dtype="f2"),), "none": {}, "empty": draw(0, 3),
    "large": draw(200, 300), "count": worker_id, "on the host": rng.integers(9, size=4),
}
def each(f, x):
    if isinstance(x, dict): return {k: each(f, v) for k, v in x.items()}
    if isinstance(x, Pair): return Pair(*(each(f, v) for v in x))
    if isinstance(x, (list, tuple)): return type(x)(each(f, v) for v in x)
    return None if x is None else f(x)
def told(x): return each(lambda v: (type(v).__name__, v.dtype.str, v.shape, v.tolist()), x)
"""


@pytest.mark.parametrize("op", ["sum", "avg", "max"])
@pytest.mark.parametrize("over", ["None", "'tp'"])
def test_each_array_is_reduced_as_allreduce_would(four, op, over):
    four.run(GRADIENTS)
    four.run(f"one_by_one = told(each(lambda v: allreduce(v, {op!r}, over={over}), g))")
    four.run(f"y = allreduce_tree(g, {op!r}, over={over})\nin_few_calls = told(y)")
    for one_by_one, in_few_calls in zip(
        four["one_by_one"].get_all(), four["in_few_calls"].get_all(), strict=True
    ):
        assert in_few_calls == one_by_one
    kinds = "type(y['layers'][0]) is Pair, type(y['half']), y['none'], y['layers'][1].b"
    assert four.run(kinds).values == [(True, tuple, {}, None)] * 4


def test_results_are_arrays_of_their_own(four):
    four.run(
        "x = {'a': xp.ones(2), 'b': xp.ones(3)}\ny = allreduce_tree(x)\nwas = y['b'].copy()\ny['a'] += 1\n"
        "apart = bool((y['b'] == was).all() and (x['a'] == 1).all() and y['a'].base is None)"
    )
    assert four["apart"].get_all() == [True] * 4


def test_small_arrays_travel_together_and_large_ones_alone(four, monkeypatch):
    sent, as_it_is = [], Calling._call

    def noted(self, verb, x, *others, **where):
        if self.id == 1 and verb == "allreduce":
            sent.append((x.dtype, x.size))
        return as_it_is(self, verb, x, *others, **where)

    four.run("x = [xp.ones(2, 'f4')] * 50 + [xp.ones(3, 'f8')] * 50 + [xp.ones(1 << 16, 'f4')] * 2")
    monkeypatch.setattr(Calling, "_call", noted)
    four.run("y = allreduce_tree(x)")
    assert sorted(sent) == [("f4", 100), ("f4", 1 << 16), ("f4", 1 << 16), ("f8", 150)]


def test_many_small_arrays_are_sent_in_pieces(four, monkeypatch):
    monkeypatch.setattr(leaves, "_TOGETHER_NBYTES", 64)
    four.run(
        "y = allreduce_tree([xp.full(3, k + worker_id) for k in range(10)])\ny = [v.tolist() for v in y]"
    )
    assert four["y"].get_all() == [[[4 * k + 6] * 3 for k in range(10)]] * 4


def test_in_place(four):
    four.run(
        "x = {'w': xp.full((2, 2), 1. + worker_id), 'large': xp.full(1 << 15, 1. + worker_id), 'n': [None]}\n"
        "x['view'] = xp.full((4, 4), 1. + worker_id)[1:3, ::2]\nw = x['w']\n"
        "y = allreduce_tree(x, 'avg', out=x)\nsame = y is x and y['w'] is w and x['n'] == [None]\n"
        "right = [bool((x[k] == 2.5).all()) for k in ('w', 'large', 'view')]"
    )
    assert four["same"].get_all() == [True] * 4
    assert four["right"].get_all() == [[True] * 3] * 4


def test_in_place_what_is_in_a_tree_twice_is_reduced_once(four):
    four.run(
        "w, b = xp.ones((200, 200)), xp.ones(3)\n"
        "x = {'embedding': w, 'head': w[:], 'b': b, 'c': b, 'empty': [xp.ones(0)] * 2}\n"
        "allreduce_tree(x, out=x)\nright = bool((w == 4).all() and (b == 4).all())"
    )
    assert four["right"].get_all() == [True] * 4
    with pytest.raises(
        CellError, match=r"x\['c'\]: worker 0 gave .* \(3,\), the memory of x\['b'\]|, workers"
    ):
        four.run("x = {'b': b, 'c': b if worker_id == 0 else b.copy()}\nallreduce_tree(x, out=x)")


def test_keys_may_come_in_any_order(four):
    four.run("keys = list('abcd')[worker_id:] + list('abcd')[:worker_id]")
    four.run(
        "y = allreduce_tree({k: xp.full(2, ord(k)) for k in keys})\ny = {k: v.tolist() for k, v in y.items()}"
    )
    for worker, y in enumerate(four["y"].get_all()):
        assert y == {key: [4 * ord(key)] * 2 for key in "abcd"}
        assert "".join(y) == "abcdabc"[worker : worker + 4]


def test_a_tree_may_be_a_number_an_array_or_nothing(session):
    s = session(2)
    assert (
        s.run("allreduce_tree(3), allreduce_tree(np.ones(1)).tolist(), allreduce_tree(None)").values
        == [(6, [2.0], None)] * 2
    )
    assert s.run("allreduce_tree({}), allreduce_tree([]), allreduce_tree(())").values == [({}, [], ())] * 2
    assert (
        s.run("type(allreduce_tree([1.5, 2])[0]).__name__, type(allreduce(1.5)).__name__").values
        == [("float64", "float64")] * 2
    )


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        (
            "{'w': xp.ones(2)}",
            r"x\['b'\]: workers \[0-1,3\] gave float64 \(3,\)( on cuda)?, worker 2 gave no such part - ",
        ),
        ("{'w': xp.ones(2), 'b': None}", r"x\['b'\]: .*, worker 2 gave None - "),
        ("{'w': xp.ones(2), 'b': xp.ones(4)}", r"x\['b'\]: .*, worker 2 gave float64 \(4,\)( on cuda)? - "),
        (
            "{'w': xp.ones(2, 'f4'), 'b': xp.ones(3)}",
            r"x\['w'\]: .*, worker 2 gave float32 \(2,\)( on cuda)? - ",
        ),
        ("[xp.ones(2), xp.ones(3)]", r"x\['b'\]: .*, worker 2 gave no such part - "),
    ],
)
def test_trees_that_differ_are_told_apart_before_anything_is_written(four, theirs, told):
    four.run(f"x = {theirs} if worker_id == 2 else {{'w': xp.ones(2), 'b': xp.ones(3)}}")
    with pytest.raises(CellError, match=f"allreduce_tree: the members disagree on {told}") as caught:
        four.run("allreduce_tree(x, out=x)")
    assert type(caught.value.origin.exception) is PlaneMismatch
    assert four.run("w = x['w'] if isinstance(x, dict) else x[0]\nfloat(w.sum())").values == [2.0] * 4
    assert four.run("allreduce(1)").values == [4] * 4


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("allreduce_tree({'a': [1, 'text']})", r"x\['a'\]\[1\]: a str is no number"),
        (
            "allreduce_tree({'a': np.ma.array([1, 2], mask=[0, 1])})",
            r"x\['a'\]: masked arrays are not carried",
        ),
        ("allreduce_tree([1, {2}])", r"x\[1\]: a set is no number"),
        ("allreduce_tree(l)", "allreduce_tree: x, a list, contains itself, or is nested too deep"),
        ("allreduce_tree({Key(): 1, Key(): 2})", r"two keys are both written x\[key\]"),
        ("allreduce_tree([1, 2], out=[np.zeros((), int)])", r"x\[1\] has no counterpart in out"),
        ("allreduce_tree([1], out={'a': np.zeros((), int)})", r"out\['a'\] has no counterpart in x"),
        ("allreduce_tree([], out=[np.zeros(1)])", r"out\[0\] has no counterpart in x"),
        ("allreduce_tree([1], out=[None])", r"out\[0\] is None, the result is int64 \(\)"),
        ("allreduce_tree([None], out=[np.zeros(1)])", r"out\[0\] is float64 \(1,\), the result is None"),
        ("allreduce_tree([1], out=[1])", r"out\[0\] is a int, the result is int64 \(\)"),
        (
            "allreduce_tree([np.ones(2)], out=[np.ones(3)])",
            r"out\[0\] is float64 \(3,\), the result is float64 \(2,\)",
        ),
        (
            "r = np.zeros(2); r.flags.writeable = False; allreduce_tree([r], out=[r])",
            r"out\[0\] is read-only",
        ),
        (
            "allreduce_tree([1], 'avg', out=[np.zeros((), int)])",
            r"out\[0\] is int64 \(\), the result is float64 \(\)",
        ),
        ("allreduce_tree([1], 'mean')", "there is no reduction 'mean'"),
        ("allreduce_tree([1], over='pp')", "allreduce_tree: there is no axis 'pp'"),
    ],
)
def test_what_cannot_be_is_said(session, call, told):
    s = session(2, mesh={"dp": 2})
    s.run("l = [1]; l.append(l)\nclass Key:\n    def __repr__(self): return 'key'")
    with pytest.raises(CellError, match=told) as caught:
        s.run(call)
    assert isinstance(caught.value.origin.exception, UsageMistake)
    assert s.run("allreduce_tree([1])").values == [[2]] * 2


def test_an_error_names_the_verb_that_was_called(session):
    s = session(3)
    with pytest.raises(
        CellError, match=r"worker 0 called allreduce at .* while workers \[1-2\] called allreduce_tree"
    ):
        s.run("allreduce(1) if worker_id == 0 else allreduce_tree([1])")
    with pytest.raises(CellError, match=r"finished without joining allreduce_tree's allgather\(.*line 1"):
        s.run("allreduce_tree([1]) if worker_id else None")


def test_it_is_told_from_a_call_that_looks_the_same(session):
    s = session(2)
    with pytest.raises(
        CellError, match=r"worker 0 called broadcast_object at .* while worker 1 called broadcast at"
    ):
        s.run("broadcast_object(b'abc') if worker_id == 0 else broadcast(np.zeros(8, 'u1'))")


def test_the_record_tells_the_user_s_line(session):
    s = session(2)
    s.run("x = [1]\ny = allreduce_tree(x)")
    sites = {span.site for span in s.timeline().spans if span.label.startswith(("allreduce", "allgather"))}
    assert len(sites) == 1
    assert "line 2" in sites.pop()
