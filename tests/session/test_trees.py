"""allreduce_tree: dicts, lists and tuples of arrays, on the host and on GPUs."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, PlaneMismatch, UsageMistake
from disco_magic.functions import leaves
from disco_magic.functions.calling import Calling
from disco_magic.testing.gpu import SimulatedGpus
from tests.gpus import found, streams
from tests.sampled import in_turn
from tests.session.conftest import until

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
def told(x): return each(lambda v: (type(v).__name__, v.dtype.str, v.shape, v.tobytes()), x)
"""


@pytest.mark.parametrize(("op", "over"), in_turn(["sum", "avg", "max"], ["None", "'tp'"]))
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


SHARED = {
    "the same twice": "w = xp.ones((200, 200)); x = {'a': w, 'b': w, 'c': w[:]}",
    "transposed twice": "w = xp.ones((200, 100)); x = {'a': w.T, 'b': w.T, 'c': w[::2].T, 'd': w[::2].T}",
    "transposed": "w = xp.ones((200, 200)); x = {'a': w, 'b': w.T}",
    "of another shape": "w = xp.ones((200, 200)); x = {'a': w, 'b': w.reshape(-1)}",
    "parts of one": "w = xp.ones(20_000); x = {'a': w, 'b': w[:10_000], 'c': w[10_000:]}",
    "a small part": "w = xp.ones(20_000); x = {'a': w[:10], 'b': w}",
    "small and twice": "w = xp.ones(3); x = {'a': w, 'b': w, 'other': xp.ones(3, 'f4')}",
}


@pytest.mark.parametrize("made", SHARED.values(), ids=SHARED)
def test_in_place_memory_that_is_in_a_tree_twice_is_reduced_once(four, made):
    four.run(f"{made}\nkeys = sorted(x, reverse=worker_id % 2)\nx = {{k: x[k] for k in keys}}")
    four.run("allreduce_tree(x, out=x)\nright = bool((w == 4).all())")
    assert four["right"].get_all() == [True] * 4


@pytest.mark.parametrize("n", [10, 10_000])
def test_what_one_part_reads_another_may_fill(four, n):
    four.run(f"a, b = xp.full({n}, 1.), xp.full({n}, 10.)")
    four.run("allreduce_tree({'a': a, 'b': b}, out={'a': b, 'b': a})\nright = float(a[-1]), float(b[-1])")
    assert four["right"].get_all() == [(40.0, 4.0)] * 4
    with pytest.raises(CellError, match=r"out\['a'\] and out\['b'\] share memory and get different results"):
        four.run("allreduce_tree({'a': a, 'b': b}, out={'a': a, 'b': a})")


def test_numbers_and_their_parts_may_be_in_one_tree(session):
    s = session(3)
    s.run("z = np.full(3, 1 + 1j); x = {'all': z, 'real': z.real}; allreduce_tree(x, out=x)")
    assert s.run("z.tolist()").values == [[3 + 3j] * 3] * 3


def test_nothing_is_written_if_one_part_cannot_be_reduced(session):
    s = session(2)
    for bad in ("np.array(['2020'], 'M8[D]')", "np.zeros(2, [('a', 'f4')])", "np.array([None])", "'text'"):
        s.run(f"x = {{'a': np.ones(3), 'b': np.ones(20_000), 'z': {bad}}}")
        with pytest.raises(CellError, match=r"allreduce_tree: x\['z'\]: ") as caught:
            s.run("allreduce_tree(x, out=x)")
        assert isinstance(caught.value.origin.exception, UsageMistake)
        assert s.run("float(x['a'].sum() + x['b'].sum())").values == [20_003.0] * 2


def test_who_was_refused_may_call_again(session):
    s = session(3)
    s.run(
        "x = [np.ones(2)]\nif worker_id == 0:\n"
        "    try: allreduce_tree(x, 'mean')\n    except ValueError: pass\n"
        "y = allreduce_tree(x)[0].tolist()"
    )
    assert s["y"].get_all() == [[3.0, 3.0]] * 3


def test_a_tree_is_looked_at_once(session):
    s = session(2)
    s.run(
        """
import collections.abc
class Whim(collections.abc.Mapping):
    keys_of_a_look = [["a", "b"], ["b", "a"], ["a"]]
    def __iter__(self): return iter(self.keys_of_a_look.pop(0) if worker_id < 9 else ())
    def __len__(self): return 2
    def __getitem__(self, key): return {"a": 1, "b": 10}[key]
class Lazy:
    reads = 0
    def __array__(self, *args, **kwargs):
        self.reads += 1
        return np.ones(self.reads)
y = allreduce_tree(Whim())
z = allreduce_tree({"p": Lazy()})["p"].tolist(), allreduce_tree([Lazy(), Lazy()])[1].tolist()
"""
    )
    assert s["y"].get_all() == [{"a": 2, "b": 20}] * 2
    assert s["z"].get_all() == [([2.0], [2.0])] * 2


def test_named_tuples_of_any_make_and_deep_trees(session):
    s = session(2)
    s.run(
        """
import collections
class Made(collections.namedtuple("Made", "a b")):
    def __new__(cls, both): return super().__new__(cls, both, both)
class Odd(tuple): _fields = ("only",)
y = allreduce_tree((Made(3), Odd((1, 2))))
kinds = type(y[0]) is Made, [*y[0]], [*y[1]]
deep = 1
for _ in range(190): deep = [deep]
z = allreduce_tree(deep)
for _ in range(190): [z] = z
"""
    )
    assert s.run("kinds, int(z)").values == [((True, [6, 6], [2, 4]), 2)] * 2


def test_the_stream_that_is_current_is_that_of_the_call(monkeypatch, session):
    got = {}

    def program():
        me = disco.worker()
        with me.xp.cuda.Stream(non_blocking=True) as mine:
            x = [me.xp.full(100, 1.0, "f4"), me.xp.full(100, 2.0, "f4")]
            mine.synchronize()
            me.allreduce_tree(x, out=x)
            here = me.xp.cuda.get_current_stream().ptr == mine.ptr
            after = me.xp.full(200, 99.0, "f4")  # memory of what was used on the way
            mine.synchronize()
            got[me.id] = here, [float(each.get().max()) for each in (*x, after)]

    with SimulatedGpus(count=1) as machine:
        found(monkeypatch, machine, 1)
        s = session(2, devices=[0, 0])
        with contextlib.ExitStack() as held:  # nothing that it waits for may be queued on these
            for stream in streams(s):
                held.enter_context(machine.hold(stream))
            s.call_packed(program)
            until(lambda: len(got) == 2)
        s.sync_all()
    assert got == dict.fromkeys(range(2), (True, [2.0, 4.0, 99.0]))


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
        ("allreduce_tree({'a': [1, 'text']})", r"x\['a'\]\[1\]: a str is neither a number"),
        (
            "allreduce_tree({'a': np.ma.array([1, 2], mask=[0, 1])})",
            r"x\['a'\]: masked arrays would lose their masks",
        ),
        ("allreduce_tree([1, {2}])", r"x\[1\]: a set is neither a number"),
        ("allreduce_tree([1, 2**80])", r"x\[1\]: the integer does not fit into 64 bits"),
        pytest.param(
            "allreduce_tree([np.array(['a'], np.dtypes.StringDType())])",
            r"x\[0\]: a ndarray is neither a number",
            marks=pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has it"),
        ),
        ("allreduce_tree([np.array([None])])", r"x\[0\]: a ndarray is neither a number"),
        (
            "allreduce_tree([np.array(['2020'], 'M8[D]')])",
            r"x\[0\]: arrays of dtype datetime64\[D\] cannot be",
        ),
        ("allreduce_tree(l)", "allreduce_tree: x contains itself, or is nested more than 200 deep"),
        ("allreduce_tree([1], out=l)", "allreduce_tree: out contains itself"),
        ("allreduce_tree({Key(): 1, Key(): 2})", r"two keys have the same path, x\[key\]"),
        ("allreduce_tree([1, 2], out=[np.zeros((), int)])", r"x\[1\] has no counterpart in out"),
        ("allreduce_tree([1], out={'a': np.zeros((), int)})", r"out\['a'\] has no counterpart in x"),
        ("allreduce_tree([], out=[np.zeros(1)])", r"out\[0\] has no counterpart in x"),
        ("allreduce_tree([1], out=[None])", r"x\[0\] is there, out\[0\] is None"),
        ("allreduce_tree([None], out=[np.zeros(1)])", r"out\[0\] is there, x\[0\] is None"),
        ("allreduce_tree([1], out=[1])", r"x\[0\]: out must be a NumPy array, got int"),
        ("x = [np.ones(3), np.float64(1)]; allreduce_tree(x, out=x)", r"x\[1\]: out must be .*, got float64"),
        (
            "allreduce_tree([np.ones(2)], out=[np.ones(3)])",
            r"x\[0\]: out is float64 \(3,\), the result is float64 \(2,\)",
        ),
        (
            "r = np.zeros(2); r.flags.writeable = False; allreduce_tree([r], out=[r])",
            r"x\[0\]: out is read-only",
        ),
        (
            "r = np.ma.zeros(2); allreduce_tree([np.ones(2)], out=[r])",
            r"x\[0\]: out must be a NumPy array",
        ),
        (
            "r = np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,)); allreduce_tree([r], out=[r])",
            r"x\[0\]: elements of out share memory",
        ),
        (
            "allreduce_tree([1], 'avg', out=[np.zeros((), int)])",
            r"x\[0\]: out is int64 \(\), the result is float64",
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
        s.run("broadcast_object(1) if worker_id == 0 else broadcast(np.zeros(5, 'u1'))")


def test_the_record_tells_the_user_s_line(session):
    s = session(2)
    s.run("x = [1]\ny = allreduce_tree(x)")
    sites = {span.site for span in s.timeline().spans if span.label.startswith(("allreduce", "allgather"))}
    assert len(sites) == 1
    assert "line 2" in sites.pop()


def test_groups_and_axes_are_kept_in_every_call_it_makes(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    many = (
        "{'a': worker_id, 'b': worker_id * 1.0, 'c': np.full(2, worker_id), 'd': np.full(20_000, worker_id)}"
    )
    told = "y['a'], y['b'], y['c'].tolist(), y['d'][-1]"
    for over, sums in (
        ("'tp'", [1, 1, 5, 5]),
        ("'dp'", [2, 4, 2, 4]),
        ("[[0, 3], [1, 2]][worker_id in (1, 2)]", [3] * 4),
    ):
        s.run(f"y = allreduce_tree({many}, over={over})")
        assert s.run(told).values == [(each, each, [each] * 2, each) for each in sums]
    with pytest.raises(
        CellError, match=r"worker 2 gave float64 \(2,\), worker 3 gave float64 \(3,\)"
    ) as caught:
        s.run("y = allreduce_tree([np.ones(2 + (worker_id == 3)), 1], over='tp')")
    assert set(caught.value.failures) == {2, 3}
    grouped = session(4, num_groups=2)
    grouped.run(f"y = allreduce_tree({many})\nz = allreduce_tree({many}, in_group=False)")
    assert grouped.run(told).values == [(each, each, [each] * 2, each) for each in (1, 1, 5, 5)]
    assert grouped.run(told.replace("y", "z")).values == [(6, 6, [6] * 2, 6)] * 4


def test_byte_orders_and_strides_may_differ(session):
    s = session(2)
    s.run("x = {'a': np.ones((2, 3), '>f4' if worker_id else '<f4'), 'b': np.ones((3, 2), 'f4').T}")
    s.run("y = allreduce_tree(x)")
    assert (
        s.run("y['a'].dtype.str, y['a'].sum(), y['b'].shape, y['b'].flags.owndata").values
        == [("<f4", 12.0, (2, 3), True)] * 2
    )


def test_results_of_arrays_without_axes_are_what_allreduce_gives(session):
    s = session(2)
    s.run("class Own:\n    def __array__(self, *args, **kwargs): return np.array(3.0)")
    s.run("each = [3, 3.5, True, np.float32(2), np.array(2.0), Own()]")
    assert (
        s.run("[type(v).__name__ for v in allreduce_tree(each)]").values
        == s.run("[type(allreduce(v)).__name__ for v in each]").values
    )
