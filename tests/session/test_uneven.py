"""Parts of any length: alltoall and reduce_scatter with counts, as cells and the session call them."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import CellError, UsageMistake, WorkerError

TOKENS = """
rng = np.random.default_rng(worker_id)
tokens, expert = rng.standard_normal((40, 2)), rng.integers(num_workers, size=40)
order = np.argsort(expert, kind="stable")
counts = np.bincount(expert, minlength=num_workers)
mine = alltoall(tokens[order], counts=counts)
back = np.empty_like(tokens)
back[order] = alltoall(mine * (worker_id + 1), counts=alltoall(counts))
"""


def test_tokens_go_to_the_workers_with_their_experts_and_back(session):
    s = session(4)
    s.run(TOKENS)
    assert sum(map(len, s["mine"].get_all())) == 160
    assert s.run("bool((back == tokens * (expert + 1)[:, None]).all())").values == [True] * 4
    tokens, expert = s["tokens"].get_all(), s["expert"].get_all()
    expected = np.concatenate([each[where == 2] for each, where in zip(tokens, expert, strict=True)])
    assert np.array_equal(s["mine"].get(2), expected)


@pytest.mark.parametrize("over", ["'tp'", "[0, 1] if worker_id < 2 else [2, 3]"])
def test_counts_are_by_rank_among_the_members(session, over):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(f"y = alltoall(np.full(3, worker_id), counts=[1, 2], over={over})")
    assert [each.tolist() for each in s["y"].get_all()] == [[0, 1], [0, 0, 1, 1], [2, 3], [2, 2, 3, 3]]


def test_a_sum_is_split_by_counts(session):
    s = session(3)
    s.run("y = reduce_scatter(np.arange(4) + worker_id, counts=[1, 0, 3])")
    assert [each.tolist() for each in s["y"].get_all()] == [[3], [], [6, 9, 12]]


@pytest.mark.parametrize(
    "counts", ["[0, 2]", "(0, 2)", "np.array([0, 2])", "np.uint8([0, 2])", "range(0, 3, 2)"]
)
def test_counts_may_be_anything_that_holds_whole_numbers(session, counts):
    s = session(2)
    s.run(f"y = alltoall(np.full(2, worker_id), counts={counts}, out=np.empty(4 * worker_id, int))")
    assert [each.tolist() for each in s["y"].get_all()] == [[], [0, 0, 1, 1]]


@pytest.mark.parametrize(
    "counts",
    [
        "2.5",
        "[1.0, 1]",
        "'ab'",
        "b'ab'",
        "[True, True]",
        "[[1, 1]]",
        "np.ones(2)",
        "np.ones((400, 400))",
        "{0: 1, 1: 1}",
        "{0, 2}",
        "iter([1, 1])",
        "[10**5000, 0]",
    ],
)
def test_counts_that_are_no_whole_numbers_are_refused_before_anybody_is_waited_for(session, counts):
    s = session(2)
    with pytest.raises(CellError, match=r"counts=.* - expected a list of whole numbers, one per member"):
        s.run(f"if worker_id == 0: alltoall(np.ones(2), counts={counts})")


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ("[2]", r"counts=\[2\] - these are 1, expected 2 of them, none below 0"),
        ("[3, -1]", r"counts=\[3, -1\] - expected 2 of them, none below 0"),
        ("[]", r"counts=\[\] - these are 0, expected 2 of them, none below 0"),
        ("[1, 2]", r"counts=\[1, 2\] - they are 3 in all, axis 0 has length 2"),
        ("[1] * 1000", r"counts=\[1, 1, 1, 1, 1, 1, \.\.\.\] - these are 1000, expected 2 of them"),
    ],
)
def test_counts_that_do_not_fit_the_array_are_refused(session, counts, told):
    with pytest.raises(CellError, match=told):
        session(2).run(f"if worker_id == 0: alltoall(np.ones(2), counts={counts})")


def test_the_timeline_says_how_a_call_was_split(session):
    s = session(2)
    s.run("alltoall(np.ones((2, 4)), axis=1, counts=[1, 3])\nalltoall(np.ones(4))")
    labels = {span.label for span in s.timeline().lane(0) if span.kind == "collective"}
    assert labels == {"alltoall(float64 (2, 4), axis=1, counts=(1, 3))", "alltoall(float64 (4,), axis=0)"}


# --- the session's own verbs -----------------------------------------------------------------------


def test_the_sessions_sum_is_split_by_counts(session):
    s = session(3)
    s.run("x = np.arange(8).reshape(4, 2) + worker_id")
    parts = s.reduce_scatter(s["x"], counts=[1, 0, 3]).get_all()
    assert [each.tolist() for each in parts] == [[[3, 6]], [], [[9, 12], [15, 18], [21, 24]]]


def test_the_sessions_alltoall_takes_the_same_counts_on_all_workers(session):
    s = session(2)
    s.run("x = 10 * worker_id + np.arange(3)")
    assert [each.tolist() for each in s.alltoall(s["x"], counts=(1, 2)).get_all()] == [
        [0, 10],
        [1, 2, 11, 12],
    ]


def test_the_sessions_alltoall_takes_each_workers_own_counts_from_a_register(session):
    s = session(4)
    s.run(TOKENS)
    s.run("sent = tokens[order]")
    mine = s.alltoall(s["sent"], counts=s["counts"])
    back = s.alltoall(mine, counts=s.alltoall(s["counts"]))
    for found, expected in ((mine, s["mine"]), (back, s["sent"])):
        for one, other in zip(found.get_all(), expected.get_all(), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("among", [{"in_group": True}, {"over": "tp"}])
def test_the_sessions_counts_are_by_rank_among_those_that_take_part(session, among):
    s = session(4, num_groups=2) if "in_group" in among else session(4, mesh={"dp": 2, "tp": 2})
    s.run("x = np.full(3, worker_id)")
    moved = [each.tolist() for each in s.alltoall(s["x"], counts=[1, 2], **among).get_all()]
    assert moved == [[0, 1], [0, 0, 1, 1], [2, 3], [2, 2, 3, 3]]
    assert list(map(len, s.reduce_scatter(s["x"], counts=[1, 2], **among).get_all())) == [1, 2, 1, 2]


def test_the_sessions_counts_may_come_with_destinations(session):
    s = session(2)
    s.run("x = np.arange(3.0); part = np.empty(1 + worker_id); parts = np.empty(2 + 2 * worker_id)")
    s.reduce_scatter(s["x"], s["part"], counts=[1, 2])
    s.alltoall(s["x"], s["parts"], counts=[1, 2])
    assert [each.tolist() for each in s["part"].get_all()] == [[0.0], [2.0, 4.0]]
    assert [each.tolist() for each in s["parts"].get_all()] == [[0.0, 0.0], [1.0, 2.0, 1.0, 2.0]]


@pytest.mark.parametrize("verb", ["reduce_scatter", "alltoall"])
@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ("counts", "counts='counts' - expected a list of whole numbers, one per member"),
        ([1.0, 1], r"counts=\[1.0, 1\] - expected a list of whole numbers, one per member"),
        ([2], r"counts=\[2\] - these are 1, expected 2 of them, none below 0"),
        ([3, -1], r"counts=\[3, -1\] - expected 2 of them, none below 0"),
    ],
)
def test_the_session_refuses_impossible_counts_before_it_sends_anything(session, verb, counts, told):
    s = session(2)
    x = s.call_packed(np.ones, 2)
    before = s.ledger.seq
    with pytest.raises(UsageMistake, match=f"^{verb}: {told}"):
        getattr(s, verb)(x, counts=counts)
    assert s.ledger.seq == before


@pytest.mark.parametrize("verb", ["reduce_scatter", "alltoall"])
def test_counts_of_the_session_that_do_not_fit_the_array_are_an_error_as_in_cells(session, verb):
    s = session(2)
    s.run("x = np.ones(2)")
    getattr(s, verb)(s["x"], counts=[1, 2])
    told = rf"UsageMistake: {verb}: counts=\[1, 2\] - they are 3 in all, axis 0 has length 2"
    with pytest.raises(WorkerError, match=told):
        s.sync_all()


def test_counts_in_registers_that_disagree_are_an_error_as_in_cells(session):
    s = session(2)
    s.run("x = np.ones(2); counts = [worker_id, 2 - worker_id]")
    s.reduce_scatter(s["x"], counts=s["counts"])
    with pytest.raises(WorkerError, match=r"PlaneMismatch(?s:.*)pass the same counts everywhere, or nowhere"):
        s.sync_all()
