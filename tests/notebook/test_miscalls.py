"""Calls of what every cell is given that Python refuses: below its words stands how it is called."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError


@pytest.fixture
def mesh(four):
    four.run("%disco stop")
    four.run("%disco start --mesh dp=2,tp=2")
    return four


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("allreduce(1.0, 'sum', 'tp')", "it is allreduce(x, op='sum', *, {}); over='tp' for the axis"),
        ("allreduce(1.0, axis='dp')", "it is allreduce(x, op='sum', *, {})"),
        (
            "allreduce(1.0, group=3)",
            "it is allreduce(x, op='sum', *, {}); over='axis' or over=[0",
        ),
        ("allreduce(1.0, async_op=True)", "it is allreduce(x, op='sum', *, {}); collectives wait; a whole"),
        ("broadcast(1.0, src=1)", "it is broadcast(x=None, root=0, *, {}); root= is the rank that has it"),
        ("worker.reduce()", "it is worker.reduce(x, op='sum', root=0, *, {})"),
        ("barrier('tp')", "it is barrier(*, in_group=True, over=None); over='tp' for the axis"),
        ("worker.rank('tp')", "it is worker.rank(*, in_group=True, over=None); over='tp' for the axis"),
        (
            "broadcast_object({'dp': 1}, 0, 3)",
            "it is broadcast_object(x=None, root=0, *, in_group=True, over=None)",
        ),
        ("worker.at(3)", "it is worker.at(dp=..., tp=...)"),
        (
            "reduce_scatter(1.0, recvcounts=[1])",
            "it is reduce_scatter(x, op='sum', axis=0, *, counts=None, {}); counts= has the lengths of the",
        ),
        (
            "allgather(1.0, recvcounts=[1])",
            "it is allgather(x, axis=0, *, {}); lengths may differ, and need no counts",
        ),
        ("recv(tags=3)", "it is recv(source='any', out=None, *, tag=0, timeout=None)"),
        (
            "recv(src=1)",
            "it is recv(source='any', out=None, *, tag=0, timeout=None); source= is the worker that",
        ),
        (
            "recv(over='dp')",
            "it is recv(source='any', out=None, *, tag=0, timeout=None); along an axis: recv(worker.at(",
        ),
        (
            "send(1.0, 1, over='dp')",
            "it is send(x, to, *, tag=0); along an axis: send(x, worker.at(",
        ),
        ("send(1.0, dest=1)", "it is send(x, to, *, tag=0); to= is the worker that gets it"),
        ("send_object(1, dst=1)", "it is send_object(x, to, *, tag=0); to= is the worker that gets it"),
        (
            "probe(source=1)",
            "it is probe(sources='any', *, tag=0, timeout=None); sources= are the workers that may",
        ),
        ("worker.coordinates.tp", "it is worker.coordinates['tp']"),
        ("worker.coordinates['pp']", "the axes of this session's mesh are dp, tp"),
        ("worker.size", "the number of workers is num_workers here"),
        ("barrier(timeout=3)", "it is barrier(*, in_group=True, over=None); a timeout is the cell's"),
        ("worker.coordinate", "did you mean 'coordinates'?"),
        ("worker.Get_size()", "the number of workers is num_workers here"),
        ("worker.Abort()", "an error ends the cell on all workers that wait for this one: raise one"),
        ("worker.split(1)", "it is over=[0, 2], or a mesh and over='axis' here"),
        ("worker.local_rank", "a worker's number is worker_id here"),
    ],
)
def test_how_it_is_called_is_said(mesh, call, said):
    mesh.fail(f"%%disco\n{call}", CellError)
    expected = said.format("out=None, in_group=True, over=None")
    assert mesh.shown[-1].startswith(expected)
    assert "'dp'" not in call or "; over" not in mesh.shown[-1] or "axis='dp'" in call
    mesh.run("%%disco\nint(allreduce(1, over='tp'))")
    assert mesh.lines == ["[0-3] 2"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("comm = worker\ncomm.Get_rank()", "a worker's number is worker_id here"),
        ("import disco_magic\ncomm = disco_magic.worker()\ncomm.bcast(1)", "it is broadcast(x) here"),
        (
            "def f(comm):\n    comm.send(1.0, dest=1)\nf(worker)",
            "it is comm.send(x, to, *, tag=0); to= is the",
        ),
        ("comm = 3\ncomm.Get_rank()", "[0-3] AttributeError: 'int' object has no attribute 'Get_rank'"),
    ],
)
def test_it_is_said_whatever_the_worker_is_called(four, call, said):
    four.fail(f"%%disco\n{call}", CellError)
    assert four.shown[-1].startswith(said)


def test_an_axis_that_jax_does_not_know_is_told_whose_collectives_there_are(four):
    four.fail("%%disco\nraise NameError('unbound axis name: tp')", CellError)
    assert four.shown[-1].startswith(
        "JAX's own collectives work inside shard_map only; those between workers"
    )


def test_an_axis_that_is_no_name_of_the_mesh_is_not_told_of(four):
    four.fail("%%disco\nallreduce(1.0, 'sum', 'tp')", CellError)
    assert four.shown[-1] == "it is allreduce(x, op='sum', *, out=None, in_group=True, over=None)"
    four.fail("%%disco\nworker.at(3)", CellError)
    assert four.shown[-1] == "it is worker.at(**coordinates)"


def test_a_place_without_a_mesh_is_told_how_to_start_one(four):
    four.fail("%%disco\nworker.coordinates['tp']", CellError)
    assert four.shown[-1].startswith("this session has no mesh: %disco start --mesh dp=2,tp=2")


def test_a_module_that_keeps_what_an_earlier_run_has_left_is_told_of(four):
    four.fail("%%disco\nassert False, 'tensor model parallel group is already initialized'", CellError)
    assert four.shown[-1].startswith(
        "if an earlier run of a program has left it in a module: %disco run --reload"
    )


@pytest.mark.parametrize(
    ("told", "helps"),
    [
        (
            "Default process group has not been initialized, please make sure to call init_process_group.",
            "dist.init_process_group() makes one of all workers; without any there are allreduce(x), ",
        ),
        (
            "trying to initialize the default process group twice!",
            "an earlier cell or program has made it: if not dist.is_initialized(): dist.init_process_group()",
        ),
        (
            '!unmarked_param_indices.empty() INTERNAL ASSERT FAILED at "reducer.cpp":2121, please report it',
            "a backward pass of this DDP has not ended on all workers, and it begins no other one: wrap",
        ),
        (
            "Expected to have finished reduction in the prior iteration before starting a new one.",
            "if the step before failed: a backward pass of this DDP has not ended on all workers",
        ),
        (
            "[Stage 2] failed to run forward:",
            "a schedule whose step has failed or was stopped keeps parts of it",
        ),
        (
            "Expected to mark a variable ready only once. This error is caused by one of these reasons",
            "a backward pass of this DDP has not ended on all workers",
        ),
        (
            "\n        Failed to run stage backward:\n        Stage output: ...",
            "a schedule whose step has failed or was stopped keeps parts of it",
        ),
    ],
)
def test_who_has_no_process_group_or_makes_it_again_is_told_what_helps(four, told, helps):
    for kind in ("ValueError", "RuntimeError"):
        four.fail(f"%%disco\nraise {kind}({told!r})", CellError)
        assert four.shown[-1].startswith(helps)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("RANK", "worker_id"),
        ("LOCAL_RANK", "worker_id, and worker.device says which GPU"),
        ("WORLD_SIZE", "num_workers"),
        ("LOCAL_WORLD_SIZE", "num_workers"),
    ],
)
def test_who_looks_for_a_rank_in_the_environment_is_told_where_it_is(four, name, instead):
    four.fail(f"%%disco\nimport os\nos.environ[{name!r}]", CellError)
    assert four.shown[-1] == f"it is {instead}; programs that %disco run executes find {name} in os.environ"
    four.fail(f"%%disco\n{{}}[{name!r}]", CellError)
    assert "it is" not in four.shown[-1]


@pytest.mark.parametrize(
    "cell",
    [
        "def reduce(x):\n    return x\nreduce()",
        "def f(recv):\n    return recv()\nf(lambda x: x)",
        "class worker:\n    rank = staticmethod(lambda x: x)\nworker.rank()",
        "print(sep=1)",
        "allreduce(1 + '1')",
        "worker.zzzzzz",
        "allreduce.over",
        "'text'.coordinates.tp",
        "{}.tp",
        "{}['tp']",
        "worker.at['tp']",
    ],
)
def test_other_mistakes_are_left_to_python(mesh, cell):
    mesh.fail(f"%%disco\n{cell}", CellError)
    assert "Error: " in mesh.shown[-1]
