"""Sessions in a mesh, from the notebook: starting them, naming who is where, values along an axis."""

from __future__ import annotations

import numpy as np
import pytest
from IPython.core.error import UsageError

from disco_magic.errors import CellError, Divergence, UnknownName, UsageMistake
from disco_magic.session.current import session


@pytest.fixture
def grid(shell):
    """A shell with six workers, dp=2 and tp=3."""
    shell.keep_silent()
    shell.run("%disco start --mesh dp=2,tp=3")
    return shell


def started(shell):
    """How many workers there are, and in which mesh."""
    return session().num_workers, session().mesh.words


# --- start -----------------------------------------------------------------------------------------


def test_start_takes_as_many_workers_as_the_mesh_has_and_says_so(grid):
    assert "6 workers \u00b7 mesh dp=2 tp=3 \u00b7 threads \u00b7 cpu" in grid.out
    grid.run("%disco status")
    assert grid.lines[1:4] == ["      tp=0  tp=1  tp=2", "dp=0     0     1     2", "dp=1     3     4     5"]


@pytest.mark.parametrize(
    ("configured", "line", "wanted"),
    [
        ({"mesh": "dp=2,tp=2"}, "", (4, "dp=2 tp=2")),
        ({"mesh": "dp=2,tp=3"}, "", (6, "dp=2 tp=3")),
        ({"mesh": "dp=2,tp=3"}, "--mesh tp=2", (2, "tp=2")),
        ({"mesh": "dp=2,tp=3"}, "-n 6", (6, "dp=2 tp=3")),
        ({"mesh": "dp=2,tp=3"}, "-n 3", (3, "")),
        ({"workers": 3}, "--mesh dp=2", (2, "dp=2")),
        ({"workers": 6, "mesh": "dp=2,tp=3"}, "", (6, "dp=2 tp=3")),
        ({}, "--mesh dp=2,tp=2 --groups 2", (4, "dp=2 tp=2")),
        ({"mesh": "dp=2,tp=3"}, "--mesh none", (4, "")),
        ({"mesh": "none"}, "", (4, "")),
    ],
)
def test_what_a_line_says_outweighs_what_is_configured(shell, configured, line, wanted):
    for name, value in configured.items():
        shell.run(f"%config DiscoMagics.{name} = {value!r}")
    shell.run(f"%disco start {line}")
    assert started(shell) == wanted


def test_a_number_and_a_mesh_that_contradict_each_other_start_nothing(shell):
    told = "a mesh dp=2 needs 2 workers, but 3 were asked for"
    assert told in str(shell.fail("%disco start -n 3 --mesh dp=2", UsageMistake))
    shell.run("%config DiscoMagics.workers = 3")
    shell.run("%config DiscoMagics.mesh = 'dp=2'")
    assert told in str(shell.fail("%disco start", UsageMistake))
    assert "no session is running" in str(shell.fail("%disco sync", UsageMistake))


def test_values_may_be_quoted(shell):
    shell.run("%disco start --mesh 'dp=2, tp=2'")
    assert started(shell) == (4, "dp=2 tp=2")
    shell.run('%%disco -w "dp=1"\nworker_id')
    assert shell.lines == ["[2] 2", "[3] 3"]
    shell.run("data = [1, 2]")
    shell.run('%disco scatter data --over "tp"')
    assert session()["data"].get_all() == [[1], [2]] * 2


@pytest.mark.parametrize("mesh", ["dp", "dp=0", "dp=2,dp=2", "class=2"])
def test_a_mesh_that_cannot_be_is_a_mistake_of_the_line(shell, mesh):
    assert "argument --mesh: " in str(shell.fail(f"%disco start --mesh {mesh}", UsageError))


def test_another_mesh_than_that_of_the_session_is_refused(grid):
    told = str(grid.fail("%disco start --mesh dp=3,tp=2", UsageMistake))
    assert "for --mesh dp=3,tp=2 end it first, with %disco stop" in told
    grid.run("%disco start --mesh dp=2,tp=3")
    assert "is running already" in grid.out


@pytest.mark.parametrize(("mesh", "number"), [("dp=2,tp=3", "6 workers"), ("none", "4 workers")])
def test_without_a_session_status_says_how_many_workers_one_would_have(shell, mesh, number):
    shell.run(f"%config DiscoMagics.mesh = {mesh!r}")
    shell.run("%disco status")
    assert f"%disco start makes one of {number}" in shell.out


def test_the_environment_may_name_a_mesh(bare, monkeypatch):
    monkeypatch.setenv("DISCO_MESH", "dp=2,tp=2")
    bare.run("%load_ext disco_magic")
    bare.run("%disco start")
    assert started(bare) == (4, "dp=2 tp=2")


# --- cells -----------------------------------------------------------------------------------------


def test_a_cell_works_over_axes_and_can_run_on_a_part_of_the_mesh(grid):
    grid.run("%%disco\nint(allreduce(worker_id, over='tp'))")
    assert grid.lines == ["[0-2] 3", "[3-5] 12"]
    grid.run("%%disco -w dp=1\nint(allreduce(worker_id, over='tp'))")
    assert grid.lines == ["[3-5] 12"]
    grid.run("%%disco -w tp=1:,dp=0 --show tp=2\nprint(worker_id)")
    assert grid.lines == ["[2] 2"]


@pytest.mark.parametrize(
    ("line", "kind", "told"),
    [
        ("-w xp=1", UnknownName, "there is no axis 'xp'"),
        ("-w dp=5", UsageMistake, "'dp=5' names nobody: dp goes from 0 to 1"),
        ("-w dp=0,2", UsageMistake, "write each axis of the mesh once"),
    ],
)
def test_a_place_that_is_not_there_runs_nothing(grid, line, kind, told):
    assert told in str(grid.fail(f"%%disco {line}\nx = 1", kind))
    assert session().names() == ()


def test_every_line_that_takes_workers_takes_places(grid):
    grid.run("%%disco -w dp=1\nx = 1")
    grid.run("%disco who -w dp=1")
    assert "x" in grid.out
    grid.run("%disco interrupt -w tp=0")
    grid.fail("%%disco\n1 / (worker_id != 4)", CellError)
    grid.run("%disco debug -w dp=1,tp=1 -c 'p worker_id'")
    assert grid.lines[-1].endswith("4")
    several = grid.fail("%disco debug -w dp=1", UsageMistake)
    assert "%disco debug looks at one worker at a time, 'dp=1' names 3" in str(several)


def test_replicas_that_drift_are_told_with_their_place(grid):
    cell = "%%disco --check values\nw = worker.replicated(np.full(2, worker.coordinates['tp']), over='dp')"
    grid.run(cell)
    told = str(grid.fail(f"{cell}\nw[0] -= worker_id == 5", Divergence))
    assert "'w' differs at tp=2: int64 (2,) [2 2] on worker 2, int64 (2,) [1 2] on worker 5" in told


def test_everywhere_that_registers_are_listed_replicas_are_compared(grid, offered):
    grid.run("%%disco\nj = worker.coordinates['tp']\nshard = worker.replicated(np.full(2, j), over='dp')")
    grid.run("%%disco\nown = worker_id * 1.5")
    grid.run("%disco who")
    assert "shard  " in f"{grid.out} ".replace("\n", "  ")
    assert "own\u2260" in grid.out
    grid.run("%disco who -w 0,3")
    assert "shard\u2260" not in grid.out
    assert offered("%disco get sha") == {"%disco get shard": "register"}
    grid.run("%%disco\nif worker_id == 3: shard = np.zeros(3)")
    grid.run("%disco who")
    assert "shard\u2260" in grid.out
    grid.run("%disco who -w 1,4")
    assert "shard\u2260" not in grid.out
    assert offered("%disco get sha") == {"%disco get shard": "register\u00a0\u2260"}


# --- values ----------------------------------------------------------------------------------------


def test_scatter_and_gather_go_along_an_axis(grid):
    grid.run("data = __import__('numpy').arange(6).reshape(3, 2)")
    grid.run("%disco scatter data --over tp")
    grid.run("%%disco\ndata.ravel().tolist()")
    assert grid.lines == ["[0,3] [0, 1]", "[1,4] [2, 3]", "[2,5] [4, 5]"]
    grid.run("%%disco\ndata += 10 * (worker_id // 3)")
    grid.run("%disco gather data --over tp")
    assert np.array_equal(grid.ip.user_ns["data"], np.arange(6).reshape(3, 2))
    grid.run("%disco gather data --over dp")
    assert grid.ip.user_ns["data"].tolist() == [[0, 1], [10, 11]]
    grid.run("%disco gather data --over dp,tp")
    assert grid.ip.user_ns["data"].shape == (6, 2)


def test_a_list_is_scattered_along_an_axis_too(grid):
    grid.run("names = list('abcde')")
    grid.run("%disco scatter names --over tp")
    assert session()["names"].get_all() == [["a", "b"], ["c", "d"], ["e"]] * 2


def test_what_cannot_go_along_an_axis_stays(grid):
    grid.run("data = [1, 2]")
    grid.fail("%disco scatter data --over zz", UnknownName)
    assert session().names() == ()
    grid.run("%%disco\ndata = [1] if worker_id != 3 else 5")
    told = str(grid.fail("%disco gather data --over dp", UsageMistake))
    assert "list on worker 0; int on worker 3" in told
    assert grid.ip.user_ns["data"] == [1, 2]


def test_axes_and_places_complete(grid, offered):
    assert offered("%disco scatter x --over ") == {
        "%disco scatter x --over dp": "axis",
        "%disco scatter x --over tp": "axis",
    }
    places = {text.rsplit(" ", 1)[-1] for text, kind in offered("%%disco -w ").items() if kind == "place"}
    assert places == {"dp=0", "dp=1", "tp=0", "tp=1", "tp=2"}
    after = {text.rsplit(",", 1)[-1]: kind for text, kind in offered("%%disco -w dp=0,").items()}
    assert after == {"tp=0": "place", "tp=1": "place", "tp=2": "place"}


def test_a_part_that_has_drifted_is_shown_below_its_register(shell):
    shell.run("%disco start --mesh dp=2,tp=2")
    shell.run(
        "%%disco\nm = {'w': np.zeros(2), 'k': worker.coordinates['tp']}\n"
        "worker.replicated(m, over='dp'); worker.replicated(m['w']);\n"
        "m['w'] += worker.coordinates['tp']"
    )
    shell.run("%disco registers m")
    assert [line[:8].strip() for line in shell.lines if "float64" in line] == [
        "m['w']",
        "\u2260",
    ]
    html = shell.ip.display_formatter.format(session().registers())[0]["text/html"]
    assert "<code>m[&#x27;w&#x27;]</code>" in html
