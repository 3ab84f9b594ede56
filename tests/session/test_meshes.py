"""Collectives over the axes of a mesh, and among workers that are named."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError

SHAPE = (2, 3)


def over(axes, values):
    """`values`, one per worker, summed over axes of the mesh as NumPy does it: what every worker gets."""
    whole = np.array(values).reshape(SHAPE)
    return np.broadcast_to(whole.sum(axis=axes, keepdims=True), SHAPE).ravel().tolist()


# --- who takes part --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "axes"), [("'dp'", 0), ("'tp'", 1), ("['tp']", 1), ("('dp', 'tp')", (0, 1))]
)
def test_a_reduction_goes_over_the_axes_that_it_names(grid, named, axes):
    values = [3, 1, 4, 1, 5, 9]
    got = grid.run(f"int(allreduce({values}[worker_id], over={named}))").values
    assert got == over(axes, values)


def test_without_an_axis_a_mesh_changes_nothing(grid):
    assert grid.run("int(allreduce(worker_id))").values == [15] * 6


def test_ranks_go_by_ids_whatever_the_order_of_the_axes_is(grid):
    for named in ("('dp', 'tp')", "('tp', 'dp')"):
        assert grid.run(f"allgather(worker_id, over={named}).tolist()").values == [[0, 1, 2, 3, 4, 5]] * 6
    assert grid.run("int(broadcast(worker_id, root=1, over='dp'))").values == [3, 4, 5, 3, 4, 5]


VERBS = {
    "allreduce(x, over='tp')": lambda xs, me: sum(xs),
    "reduce(x, root=1, over='tp')": lambda xs, me: sum(xs) if me == 1 else None,
    "allgather(x, over='tp')": lambda xs, me: np.concatenate(xs),
    "gather(x, root=2, over='tp')": lambda xs, me: np.concatenate(xs) if me == 2 else None,
    "reduce_scatter(x, over='tp')": lambda xs, me: sum(xs)[2 * me : 2 * me + 2],
    "broadcast(x, root=2, over='tp')": lambda xs, me: xs[2],
    "scatter(x, root=2, over='tp')": lambda xs, me: xs[2][2 * me : 2 * me + 2],
    "alltoall(x, over='tp')": lambda xs, me: np.concatenate([x[2 * me : 2 * me + 2] for x in xs]),
    "barrier(over='tp')": lambda xs, me: None,
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_goes_over_an_axis(grid, verb):
    got = grid.run(f"x = np.arange(6) * (worker_id + 1)\n{verb}").values
    for worker, value in enumerate(got):
        row = [np.arange(6) * (each + 1) for each in range(6)][worker // 3 * 3 : worker // 3 * 3 + 3]
        assert np.array_equal(value, VERBS[verb](row, worker % 3)), (verb, worker)


def test_workers_may_be_named(grid):
    cell = "int(allreduce(worker_id, over=[4, 1])) if worker_id in (1, 4) else None"
    assert grid.run(cell).values == [None, 5, None, None, 5, None]


def test_two_groups_that_are_named_work_side_by_side(grid):
    cell = "allgather(worker_id, over=[0, 5] if worker_id in (0, 5) else [1, 2, 3, 4]).tolist()"
    assert grid.run(cell).values == [[0, 5], *[[1, 2, 3, 4]] * 4, [0, 5]]


def test_who_has_no_mesh_is_told_so_by_every_call(session):
    s = session(2)
    for call in ("allreduce(1, over='dp')", "worker.rank(over='dp')", "worker.at(dp=0)"):
        with pytest.raises(CellError, match="this session has no mesh: start it with one"):
            s.run(call)


def test_a_mistake_in_over_is_told_at_the_user_s_line_alone(grid):
    with pytest.raises(CellError) as caught:
        grid.run("def f():\n    allreduce(1, over='tpp')\nf()")
    text = caught.value.origin.traceback_text
    assert "contextlib" not in text
    assert text.count("  File ") == 2, text


def test_named_workers_need_no_mesh():
    with disco.ThreadedSession(3) as session:
        cell = "int(allreduce(worker_id, over=[0, 2])) if worker_id != 1 else 'alone'"
        assert session.run(cell).values == [2, "alone", 2]


def test_a_mesh_and_groups_have_nothing_to_do_with_each_other():
    with disco.ThreadedSession(num_groups=3, mesh="dp=2,tp=3") as session:
        assert session.run("int(allreduce(worker_id)), int(allreduce(worker_id, over='dp'))").values == [
            (1, 3),
            (1, 5),
            (5, 7),
            (5, 3),
            (9, 5),
            (9, 7),
        ]


def test_two_of_three_axes_are_strided_and_right():
    with disco.ThreadedSession(mesh={"pp": 2, "dp": 2, "tp": 2}) as session:
        whole = np.arange(8).reshape(2, 2, 2)
        for named, axes in [(("pp", "tp"), (0, 2)), (("pp", "dp"), (0, 1)), (("dp", "tp"), (1, 2))]:
            wanted = np.broadcast_to(whole.sum(axis=axes, keepdims=True), whole.shape).ravel().tolist()
            assert session.run(f"int(allreduce(worker_id, over={named}))").values == wanted
        ranks = session.run("worker.rank(over=('pp', 'tp')), worker.rank(over='dp'), worker.rank()").values
        assert ranks == [(2 * (w // 4) + w % 2, w // 2 % 2, w) for w in range(8)]


def test_sets_of_workers_that_overlap_work_one_after_the_other():
    with disco.ThreadedSession(3) as session:
        cell = """
got = []
for pair in ([0, 1], [1, 2], [0, 2]) * 5:
    if worker_id in pair:
        got.append(int(allreduce(worker_id, over=pair)))
sum(got)
"""
        assert session.run(cell).values == [5 * (1 + 2), 5 * (1 + 3), 5 * (3 + 2)]
        turned = "for pair in {0: ([0, 1], [0, 2]), 1: ([1, 2], [0, 1]), 2: ([0, 2], [1, 2])}[worker_id]:\n"
        with pytest.raises(CellError, match="wait for each other in a circle"):
            session.run(f"{turned}    allreduce(worker_id, over=pair)")
        assert session.run("int(allreduce(worker_id))").values == [3] * 3


def test_numpy_s_numbers_are_coordinates(grid):
    assert grid.run("worker.at(dp=allreduce(1) - 6, tp=np.int8(2))").values == [2] * 6


def test_an_axis_may_have_any_name_of_a_variable():
    with disco.ThreadedSession(mesh={"self": 2, "x": 2}) as session:
        assert session.run("worker.at(self=0), int(allreduce(worker_id, over='self'))").values == [
            (0, 2),
            (1, 4),
            (0, 2),
            (1, 4),
        ]


def test_a_cell_for_one_row_can_work_along_it(grid):
    result = grid.run("int(allreduce(worker_id, over='tp'))", workers=grid.mesh.workers(dp=1))
    assert [result[worker] for worker in (3, 4, 5)] == [12, 12, 12]
    with pytest.raises(
        CellError, match=r"it needs workers \[0,3\], but this command was sent to workers \[3-5\] only"
    ):
        grid.run("allreduce(worker_id, over='dp')", workers=(3, 4, 5))


def test_an_axis_of_one_worker_is_no_wait():
    with disco.ThreadedSession(mesh={"pp": 1, "tp": 2}) as session:
        assert session.run("int(allreduce(worker_id + 1, over='pp'))").values == [1, 2]


# --- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("allreduce(1, over='tpp')", "UnknownName: allreduce: there is no axis 'tpp'; did you mean 'tp'?"),
        ("barrier(over=7)", "barrier: over is 7, expected the name of an axis, 'tp', several"),
        ("allreduce(1, over='tp', in_group=False)", "over='tp' says who takes part; leave in_group out"),
        ("allreduce(1, over=[0, 1])", "over=[0, 1] leaves out worker 2, which makes the call"),
        ("allreduce(1, over='dp,tp')", "allreduce: over is 'dp,tp'; several axes are a tuple, ('dp', 'tp')"),
        (
            "broadcast(1, root=3, over=[0, 3]) if worker_id in (0, 3) else None",
            "a rank of a communicator of 2, within which root counts; expected 0 to 1; worker 3 has rank 1",
        ),
        ("worker.at(dp=2)", "no worker has dp=2; dp goes from 0 to 1"),
        ("allreduce(1, in_group='tp')", "allreduce: in_group is 'tp'; pass axes of the mesh as over="),
        ("worker.members(in_group=['tp'])", "members: in_group is ['tp']; pass axes of the mesh as"),
        ("worker.rank(over=[7])", "rank: over=[7] names a worker that does not exist"),
        ("allreduce(1, over=worker.coordinates)", "allreduce: over is {'dp': 0, 'tp': 0}, expected the name"),
        ("worker.replicated(np.ones(2), over='pt')", "there is no axis 'pt'"),
        ("worker.replicated(np.ones(2), over=[1])", "over is [1], expected an axis of the mesh"),
    ],
)
def test_a_mistake_is_told_and_the_session_goes_on(grid, call, told):
    with pytest.raises(CellError) as caught:
        grid.run(call)
    assert told in str(caught.value)
    assert grid.run("int(allreduce(1, over='dp'))").values == [2] * 6


def test_calls_over_other_axes_do_not_meet_and_say_over_which(grid):
    with pytest.raises(CellError) as caught:
        grid.run("allreduce(1.0, over='tp' if worker_id else 'dp')")
    told = str(caught.value)
    assert "allreduce(float64 (), op=sum, over=dp)" in told
    assert "over=tp)" in told


def test_the_record_says_over_which_axes(grid):
    spans = grid.run("barrier(over='tp'); allreduce(1, over=[0, 3]) if worker_id in (0, 3) else None")
    assert spans.errors == {}
    words = {span.label for span in grid.timeline().spans if span.kind == "collective"}
    assert words == {"barrier(over=tp)", "allreduce(int, op=sum, over=[0,3])"}


# --- who a worker is -------------------------------------------------------------------------------


def test_a_worker_knows_where_it_is(grid):
    assert grid.run("worker.coordinates").values == [
        {"dp": dp, "tp": tp} for dp in range(2) for tp in range(3)
    ]
    assert grid.run("worker.mesh['tp'], worker.at(dp=0), worker.at()").values == [
        (3, worker % 3, worker) for worker in range(6)
    ]
    assert grid.run("worker.members(over='dp'), worker.members(), worker.members(in_group=False)")[4] == (
        (1, 4),
        tuple(range(6)),
        tuple(range(6)),
    )
    assert repr(grid.run("worker")[4]) == "<worker 4 of 6, dp=1, tp=1 on cpu>"


def test_what_a_worker_is_told_of_its_coordinates_is_its_own(grid):
    assert grid.run("worker.coordinates['dp'] = 7\nworker.at()").values == list(range(6))


def test_without_a_mesh_there_are_no_coordinates():
    with disco.ThreadedSession(2) as session:
        with pytest.raises(CellError, match="this session has no mesh: start it with one"):
            session.run("worker.at()")
        assert session.run("worker.coordinates, bool(worker.mesh)").values == [({}, False)] * 2
        assert not session.mesh


def test_a_pipeline_sends_to_the_next_stage():
    with disco.ThreadedSession(mesh={"pp": 3, "tp": 2}) as session:
        got = session.run(
            "stage = worker.coordinates['pp']\n"
            "x = recv(worker.at(pp=stage - 1)) if stage else np.array([worker_id])\n"
            "if stage < 2:\n"
            "    send(x + 10, worker.at(pp=stage + 1))\n"
            "x.tolist()"
        )
        assert got.values == [[0], [1], [10], [11], [20], [21]]


@pytest.mark.parametrize(
    "call",
    [
        "allreduce(1.0, 'tp')",
        "allgather(np.ones(2), 'tp')",
        "scatter(1, 'tp')",
        "broadcast(1, 'tp')",
        "allreduce_tree([1.0], 'tp')",
    ],
)
def test_an_axis_in_the_place_of_another_argument_is_told_of(session, call):
    s = session(4, mesh={"dp": 2, "tp": 2})
    with pytest.raises(disco.WorkerError, match=r"; 'tp' is an axis of the mesh: over='tp'"):
        s.run(call)
    with pytest.raises(disco.WorkerError) as caught:
        s.run(call.replace("'tp'", "'pp'"))
    assert "axis of the mesh" not in str(caught.value)
    with pytest.raises(disco.WorkerError) as caught:
        s.run("allreduce(1.0, 'tp', over='tp')")
    assert "axis of the mesh" not in str(caught.value)
    assert s.run("allreduce(1, over='tp')").values == [2, 2, 2, 2]


@pytest.mark.parametrize("call", ["send(1.0, 'tp')", "recv('tp')"])
def test_of_a_message_to_an_axis_is_told_how_a_worker_on_it_is_named(session, call):
    s = session(4, mesh={"dp": 2, "tp": 2})
    told = r"; 'tp' is an axis of the mesh: worker\.at\(tp=0\) is a worker"
    with pytest.raises(disco.WorkerError, match=told):
        s.run(call)
    assert s.run("worker.at(tp=0)").values == [0, 0, 2, 2]


def test_a_mesh_s_axis_as_an_attribute_is_told_of(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    told = r"mesh\['tp'\] is the length of that axis, worker\.coordinates\['tp'\] where a worker is on it"
    with pytest.raises(disco.WorkerError, match=told):
        s.run("worker.mesh.tp")
    with pytest.raises(AttributeError, match="'Mesh' object has no attribute 'pp'"):
        _ = s.mesh.pp
    with pytest.raises(AttributeError, match="_lengths"):
        _ = disco.Mesh.__new__(disco.Mesh)._lengths
