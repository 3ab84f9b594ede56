from __future__ import annotations

import numpy as np
import pytest

from disco_magic.callers import sites
from disco_magic.core.seat import Seat
from disco_magic.planes.calls import Call
from disco_magic.planes.checks import astray, verdict
from disco_magic.planes.layout import Expected
from disco_magic.planes.memory import HOST
from disco_magic.planes.outs import check_out_fits
from disco_magic.planes.reductions import reduction

sites.label("<cell 7>", "Cell In[7]")
X = np.zeros((4, 6), "f4")


def spot(line):
    code = compile("\n" * (line - 1) + "pass", "<cell 7>", "exec")
    return code, 2 * [place[0] for place in code.co_positions()].index(line)


def calls(*each, line=4):
    members = tuple(range(len(each)))
    return [
        Call(kind, Seat(worker, members, 1), spot(line + worker), HOST, **with_rule(kind, facts))
        for worker, (kind, facts) in enumerate(each)
    ]


def with_rule(kind, facts):
    if "op" not in facts:
        return facts
    return {**facts, "rule": reduction(kind, facts["op"], facts["array"].dtype)}


def alike(size, kind, **facts):
    return [(kind, dict(facts)) for _ in range(size)]


def sentence(*each):
    text = verdict(calls(*each))
    return None if text is None else text.splitlines()[0]


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("barrier", {}),
        ("allreduce", {"array": X, "op": "sum"}),
        ("reduce", {"array": X, "op": "sum", "root": 1}),
        ("allgather", {"array": X, "axis": 1}),
        ("gather", {"array": X, "axis": 0, "root": 0}),
        ("reduce_scatter", {"array": X, "op": "avg", "axis": 0}),
        ("broadcast", {"array": X, "root": 1}),
        ("scatter", {"array": X, "root": 0, "axis": 1}),
        ("alltoall", {"array": X, "axis": 0}),
    ],
)
def test_equal_calls_fit(kind, facts):
    assert sentence(*alike(2, kind, **facts)) is None


def test_different_verbs_name_workers_and_places_of_both():
    allreduce = ("allreduce", {"array": X, "op": "sum"})
    assert sentence(allreduce, allreduce, ("allgather", {"array": X, "axis": 0}), allreduce) == (
        "worker 2 called allgather at Cell In[7], line 6 while workers [0-1,3] called allreduce at"
        " Cell In[7], line 4 and elsewhere - members have to make the same collective calls in the same order"
    )


def test_the_table_lists_every_call_and_groups_equal_ones():
    each = [("allreduce", {"array": X, "op": "sum"}), ("allreduce", {"array": X, "op": "max"})]
    text = verdict(calls(*each))
    assert text.splitlines()[1:] == [
        "  [0] allreduce(float32 (4, 6), op=sum) at Cell In[7], line 4",
        "  [1] allreduce(float32 (4, 6), op=max) at Cell In[7], line 5",
    ]
    same_line = calls(*alike(3, "allreduce", array=X, op="sum"), ("barrier", {}))
    for call in same_line:
        call.spot = spot(9)
    assert "  [0-2] allreduce(float32 (4, 6), op=sum) at Cell In[7], line 9" in verdict(same_line)


@pytest.mark.parametrize(
    ("kind", "common", "one", "other", "expected"),
    [
        ("allreduce", {"array": X}, {"op": "max"}, {"op": "sum"}, "disagree on op: worker 2 gave op=max"),
        ("broadcast", {"array": X}, {"root": 2}, {"root": 0}, "disagree on root: worker 2 gave root=2"),
        ("alltoall", {"array": X}, {"axis": 1}, {"axis": 0}, "disagree on axis: worker 2 gave axis=1"),
        (
            "allreduce",
            {"op": "sum"},
            {"array": X.astype("f8")},
            {"array": X},
            "disagree on dtype: worker 2 gave dtype=float64, workers [0-1] gave dtype=float32",
        ),
        (
            "allreduce",
            {"op": "sum"},
            {"array": X[1:]},
            {"array": X},
            "disagree on shape: worker 2 gave (3, 6), workers [0-1] gave (4, 6)",
        ),
        (
            "allgather",
            {"axis": 0},
            {"array": X[:, 1:]},
            {"array": X},
            "worker 2 gave (4, 5) (only axis 0 may differ)",
        ),
        ("allgather", {"axis": 0}, {"array": X[0]}, {"array": X}, "need the same number of dimensions"),
        (
            "alltoall",
            {"axis": 0},
            {"array": X[1:]},
            {"array": X},
            "make the shapes equal, or pass counts=[...] with the length of each part",
        ),
        (
            "alltoall",
            {"axis": 0, "array": X},
            {},
            {"counts": (2, 2, 0)},
            "disagree on counts: worker 2 gave no counts, workers [0-1] gave counts - pass counts everywhere",
        ),
        (
            "alltoall",
            {"axis": 0, "counts": (2, 1, 1)},
            {"array": X[:, 1:]},
            {"array": X},
            "worker 2 gave (4, 5) (only axis 0 may differ)",
        ),
    ],
)
def test_the_odd_one_out_is_named(kind, common, one, other, expected):
    each = [(kind, {**common, **other})] * 2 + [(kind, {**common, **one})]
    assert expected in sentence(*each)


def test_gathered_arrays_may_differ_along_the_axis():
    assert (
        sentence(("allgather", {"array": X, "axis": 0}), ("allgather", {"array": X[1:], "axis": 0})) is None
    )


def test_parts_of_an_alltoall_may_differ_in_length_where_counts_say_so():
    one, other = {"array": X, "axis": 0, "counts": (1, 3)}, {"array": X[1:], "axis": 0, "counts": (3, 0)}
    assert sentence(("alltoall", one), ("alltoall", other)) is None
    out = {"out": np.empty((3, 6), X.dtype)}
    fits = {"out": np.empty((4, 6), X.dtype)}
    assert sentence(("alltoall", one | fits), ("alltoall", other | out)) is None
    assert "the result is" in sentence(("alltoall", one | out), ("alltoall", other | out))


def test_a_receiver_of_a_broadcast_may_bring_nothing_or_what_fits():
    root = ("broadcast", {"array": X, "root": 0})
    assert sentence(root, ("broadcast", {"root": 0}), ("broadcast", {"array": X, "root": 0})) is None
    assert "disagree on shape" in sentence(root, ("broadcast", {"array": X[0], "root": 0}))


def test_a_scatters_negative_axis_means_the_roots_axis():
    root = ("scatter", {"array": X, "root": 0, "axis": 1})
    assert sentence(root, ("scatter", {"root": 0, "axis": -1})) is None
    assert "disagree on axis" in sentence(root, ("scatter", {"root": 0, "axis": -2}))
    assert "disagree on axis" in sentence(root, ("scatter", {"root": 0, "axis": 5}))


def test_counts_of_a_scatter_are_the_roots_and_others_may_repeat_them():
    root = ("scatter", {"array": X, "root": 0, "axis": 0, "counts": (1, 3)})
    assert sentence(root, ("scatter", {"root": 0, "axis": 0})) is None
    assert sentence(root, ("scatter", {"array": X, "root": 0, "axis": 0, "counts": (1, 3)})) is None
    assert sentence(root, ("scatter", {"root": 0, "axis": 0, "counts": (3, 1)})).startswith(
        "scatter: the members disagree on counts: worker 0 gave counts=(1, 3), worker 1 gave counts=(3, 1) - "
        "those of the root are enough"
    )
    bare = ("scatter", {"array": X, "root": 0, "axis": 0})
    said = sentence(bare, ("scatter", {"root": 0, "axis": 0, "counts": (3, 1)}))
    assert " - the root, worker 0, has to pass them" in said


def test_counts_of_a_reduce_scatter_are_the_same_everywhere():
    def given(counts):
        return "reduce_scatter", {"array": X, "op": "sum", "axis": 0, "counts": counts}

    assert sentence(given((1, 3)), given((1, 3))) is None
    assert sentence(given((1, 3)), given((3, 1))).startswith(
        "reduce_scatter: the members disagree on counts: worker 0 gave counts=(1, 3), "
        "worker 1 gave counts=(3, 1) - pass the same counts everywhere, or nowhere"
    )
    assert "worker 0 gave no counts, worker 1 gave counts=(3, 1) - " in sentence(given(None), given((3, 1)))


@pytest.mark.parametrize("kind", ["reduce_scatter", "alltoall", "scatter"])
def test_an_uneven_split_names_length_members_and_a_way_out(kind):
    facts = {"array": X, "axis": 0}
    if kind == "reduce_scatter":
        facts["op"] = "sum"
    if kind == "scatter":
        facts["root"] = 0
    assert sentence(*alike(3, kind, **facts)) == (
        f"{kind}: axis 0 has length 4, which 3 members cannot share evenly - pad it to 6,"
        " or split another axis, or pass counts=[...] with the length of each part"
    )


def test_calls_that_differ_from_other_lines_may_be_no_match_at_all():
    both = (("allreduce", {"array": X, "op": "sum"}), ("allreduce", {"array": X[0], "op": "sum"}))
    same = [
        Call(kind, Seat(worker, (0, 1), 1), spot(4), HOST, **with_rule(kind, facts))
        for worker, (kind, facts) in enumerate(both)
    ]
    assert verdict(same).splitlines()[0].endswith("- all arrays need the same number of dimensions")
    assert sentence(*both).endswith(
        "; or, if these lines are not meant to meet, one worker has made a call more or less: "
        "members have to make the same collective calls in the same order"
    )


def with_outs(*outs, kind="allreduce", array=X, **facts):
    if kind in {"allreduce", "reduce"}:
        facts.setdefault("op", "sum")
    return sentence(*[(kind, {"array": array, "out": out, **facts}) for out in outs])


def test_an_out_that_does_not_fit_names_both_shapes_and_the_remedy():
    assert with_outs(np.empty((4, 6), "f4"), np.empty((4, 6), "i4")) == (
        "allreduce: out of worker 1 is int32 (4, 6), the result is float32 (4, 6)"
        " - pass np.empty((4, 6), 'float32'), or no out"
    )


def test_the_average_of_integers_needs_a_float64_out():
    array = np.zeros(3, "i4")
    assert "the result is float64 (3,)" in with_outs(array, None, array=array, op="avg")
    assert with_outs(np.empty(3), None, array=array, op="avg") is None


def test_a_read_only_out_is_refused():
    frozen = np.empty((4, 6), "f4")
    frozen.flags.writeable = False
    assert "out of worker 1 is read-only" in with_outs(None, frozen)


@pytest.mark.parametrize(
    ("shape", "strides", "overlaps"),
    [
        ((2, 3), (0, 8), True),
        ((2, 3), (8, 8), True),
        ((2, 3), (16, 8), True),
        ((2, 3), (24, 8), False),
        ((2, 3), (8, 16), False),
        ((2, 3), (-24, -8), False),
        ((1, 3), (0, 8), False),
        ((0, 3), (0, 0), False),
        ((2, 2, 2), (32, 16, 8), False),
        ((2, 2, 2), (24, 16, 8), True),
    ],
)
def test_an_out_whose_elements_share_memory_is_refused(shape, strides, overlaps):
    memory = np.zeros(64)
    out = np.lib.stride_tricks.as_strided(memory[20:], shape, strides)
    expected = Expected(shape, memory.dtype)
    sentence = check_out_fits("allreduce", "out of worker 1", out, expected, HOST)
    assert (sentence is not None and "share memory with each other" in sentence) is overlaps


def test_outs_of_two_members_may_not_share_memory():
    out = np.empty((4, 6), "f4")
    assert "out of workers 0 and 1 share memory" in with_outs(out, out)
    assert "out of workers 0 and 1 share memory" in with_outs(out, out[:])
    both = np.empty((6, 6), "f4")
    assert "out of workers 0 and 1 share memory" in with_outs(both[:4], both[2:])


def test_interleaved_outs_are_told_apart():
    both = np.empty((4, 12), "f4")
    assert with_outs(both[:, ::2], both[:, 1::2]) is None


def test_an_out_where_there_is_no_result_is_not_looked_at():
    assert with_outs(None, np.empty(1), kind="reduce", root=0) is None
    assert "out of worker 1" in with_outs(None, np.empty(1), kind="reduce", root=1)


def test_a_gathered_out_has_the_joined_length():
    outs = [np.empty((4, 12), "f4"), np.empty((4, 12), "f4")]
    assert with_outs(*outs, kind="allgather", axis=1) is None
    assert "the result is float32 (8, 6)" in with_outs(*outs, kind="allgather", axis=0)


def form(kind="allreduce", memory=HOST, **facts):
    return Call(kind, Seat(0, (0, 1), 1), None, memory, **with_rule(kind, facts)).form


def frozen(array):
    array.flags.writeable = False
    return array


def test_calls_that_fit_have_one_form_and_others_another():
    facts = {"array": X, "op": "sum"}
    assert form(**facts) is not None
    assert form(**facts) == form(**facts, out=np.empty((4, 6), "f4")) == form(**facts, scalar=True)
    assert form(array=X, op="avg") != form(**facts)
    assert form(array=X.astype("f8"), op="sum") != form(**facts)
    assert form(array=X[:2], op="sum") != form(**facts)
    assert form("reduce", **facts, root=0) not in {form(**facts), form("reduce", **facts, root=1)}
    assert form("broadcast", array=X, root=0) is not None
    elsewhere = object()
    assert form(**facts, memory=elsewhere) not in {None, form(**facts)}
    assert form(**facts, memory=elsewhere) == form(**facts, memory=elsewhere, out=np.empty((8, 6), "f4")[:4])


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("barrier", {}),
        ("broadcast", {"root": 1}),
        ("allgather", {"array": X, "axis": 0}),
        ("reduce_scatter", {"array": X, "op": "sum"}),
        ("allreduce", {"array": X, "op": "sum", "memory": object(), "out": np.empty((6, 4), "f4").T}),
        ("allreduce", {"array": X, "op": "sum", "out": np.empty((4, 5), "f4")}),
        ("allreduce", {"array": X, "op": "sum", "out": np.empty((4, 6), "f8")}),
        ("allreduce", {"array": X.astype("i4"), "op": "avg", "out": np.empty((4, 6), "i4")}),
        ("allreduce", {"array": X, "op": "sum", "out": np.empty((8, 6), "f4")[:4]}),
        ("allreduce", {"array": X, "op": "sum", "out": frozen(np.empty((4, 6), "f4"))}),
    ],
)
def test_a_call_that_has_to_be_looked_at_has_no_form(kind, facts):
    assert form(kind, **facts) is None


def test_calls_of_one_form_into_one_array_do_not_fit():
    out = np.empty((4, 6), "f4")
    assert form(array=X, op="sum", out=out) is not None
    assert "out of workers 0 and 1 share memory" in with_outs(out, out)


@pytest.mark.parametrize(
    ("ops", "worker"),
    [
        (["sum", "sum", "max"], 2),
        (["max", "sum", "sum"], 0),
        (["sum", "max"], None),
        (["sum", "sum", "max", "max"], None),
        (["sum", "max", "max", "min"], None),
        (["sum", "sum", "sum"], None),
    ],
)
def test_the_worker_that_calls_what_no_other_does_has_gone_astray(ops, worker):
    assert astray(calls(*(("allreduce", {"array": X, "op": op}) for op in ops))) == worker
