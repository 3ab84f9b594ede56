"""`docs/coming_from.md` says what is so: its code runs in a real shell, what it names is there."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from disco_magic.errors import CellError
from disco_magic.notebook.cell_options import cell_parser
from disco_magic.notebook.commands.table import command_of
from disco_magic.session.current import session
from tests.notebook.conftest import bare, shell  # noqa: F401 - fixtures

PAGE = Path(__file__).parents[1] / "docs" / "coming_from.md"
TEXT = PAGE.read_text(encoding="utf-8")
SPAN = re.compile(r"`+(.+?)`+")


class Block(NamedTuple):
    """A fenced cell, and the output that stands below it."""

    code: str
    output: str


class Row(NamedTuple):
    """A row of a table."""

    where: str
    there: list[str]
    here: list[str]


def parts_of(text):
    """Blocks and rows, in order."""
    found = re.finditer(
        r"```python\n(.*?)```(?:\n```text\n(.*?)```)?|((?:^\|[^\n]*\n)+)", text, re.DOTALL | re.MULTILINE
    )
    parts = []
    for code, output, table in (match.groups() for match in found):
        parts += rows_of(table) if table else [Block(code, output or "")]
    return parts


def rows_of(table):
    head, _, *lines = [re.split(r" *(?<!\\)\| *", line.strip())[1:-1] for line in table.splitlines()]
    assert head[1] in ("here, in a cell", "here, in the notebook")
    assert head[2] == "what differs, and why"
    return [Row(head[1], SPAN.findall(there), SPAN.findall(here)) for there, here, _ in lines]


SECTIONS = {part.partition("\n")[0]: parts_of(part) for part in TEXT.split("\n## ")[1:]}
NOTEBOOK = """
import disco_magic
from pathlib import Path
session = disco_magic.session()
a, seq, objs = 1, [1, 2, 3, 4, 5], [{"lr": 0.1}] * 3
def f(value):
    return value
"""
WORKERS = """%%disco
x = np.arange(8.0).reshape(4, 2) + worker_id
t, g = x.copy(), x.copy()
ts = [t, g]
y, obj = worker_id, {"worker": worker_id}
import functools
def f(a, b):
    return max(a, b, key=str)
"""


def sum_of(xs):
    return [sum(xs)] * 4


def joined(xs):
    return [np.concatenate(xs)] * 4


def on(root, values):
    return [value if worker == root else None for worker, value in enumerate(values)]


# What the verbs of the page give, if the workers hold `xs`.
GIVES = {
    "allreduce(x)": sum_of,
    'allreduce(x, "max", out=x)': lambda xs: [np.maximum.reduce(xs)] * 4,
    'allreduce(x, over="tp")': lambda xs: [xs[0] + xs[1]] * 2 + [xs[2] + xs[3]] * 2,
    'allreduce(x, "avg")': lambda xs: [sum(xs) / 4] * 4,
    "reduce(x, root=1)": lambda xs: on(1, sum_of(xs)),
    "broadcast(x, root=1)": lambda xs: [xs[1]] * 4,
    "broadcast(x, root=0)": lambda xs: [xs[0]] * 4,
    "scatter(x, root=0)": lambda xs: np.split(xs[0], 4),
    "scatter(x, counts=[len(x), *[0] * (num_workers - 1)])": lambda xs: np.split(xs[0], [4, 4, 4]),
    "gather(x, root=0)": lambda xs: on(0, joined(xs)),
    "allgather(x)": joined,
    'allreduce(x, "avg", over="tp")': lambda xs: [(xs[0] + xs[1]) / 2] * 2 + [(xs[2] + xs[3]) / 2] * 2,
    'allreduce(x, over=("dp", "tp"))': sum_of,
    'allgather(x, over="tp")': lambda xs: [np.concatenate(xs[:2])] * 2 + [np.concatenate(xs[2:])] * 2,
    'reduce_scatter(x, over="tp")': lambda xs: [
        part for pair in (xs[:2], xs[2:]) for part in np.split(sum(pair), 2)
    ],
    'alltoall(x, over="tp")': lambda xs: [
        np.concatenate([x[2 * at : 2 * at + 2] for x in pair]) for pair in (xs[:2], xs[2:]) for at in range(2)
    ],
    'recv(worker.at(tp=1 - worker.coordinates["tp"]))': lambda xs: [xs[1], xs[0], xs[3], xs[2]],
    "reduce_scatter(x, counts=[1, 0, 2, 1])": lambda xs: np.split(sum(xs), [1, 1, 3]),
    "reduce_scatter(x)": lambda xs: np.split(sum(xs), 4),
    "alltoall(x)": lambda xs: [np.concatenate([x[w : w + 1] for x in xs]) for w in range(4)],
    "broadcast_object(obj)": lambda xs: [{"worker": 0}] * 4,
    "allgather_objects(obj)": lambda xs: [[{"worker": worker} for worker in range(4)]] * 4,
    "allreduce_tree(ts)": lambda xs: [[sum(xs)] * 2] * 4,
    "recv((worker_id - 1) % num_workers)": lambda xs: [xs[-1], *xs[:-1]],
    "recv((worker_id - 1) % num_workers, tag=1)": lambda xs: [{"worker": w} for w in (3, 0, 1, 2)],
    "recv(probe())": lambda xs: [{"worker": w} for w in (3, 0, 1, 2)],
}


@pytest.fixture
def four(shell, tmp_path, monkeypatch):  # noqa: F811 - the fixture
    """A shell with four workers and what the page's code takes for granted."""
    monkeypatch.chdir(tmp_path)
    for name in ("program.py", "train.py"):
        Path(name).write_text("total = allreduce(worker_id)\n")
    Path("shop").mkdir()
    Path("shop/train.py").write_text("from . import __name__\ntotal = allreduce(worker_id)\n")
    shell.run("%disco start --mesh dp=2,tp=2")
    shell.run(NOTEBOOK)
    yield shell
    sys.modules.pop("shop", None)
    if hasattr(json, "found_by"):
        del json.found_by


def execute(four, row):
    if row.where == "here, in the notebook":
        for code in row.here:
            four.run(f"{code}\ny = 1" if code.startswith("%%disco") else code)
        return
    four.run("%%disco\n" + "\n".join(row.here))
    for code in row.here:
        name, verb = given_by(code)
        if name is not None:
            xs = [np.arange(8.0).reshape(4, 2) + worker for worker in range(4)]
            values = session()[name].get_all()
            for value, expected in zip(values, GIVES[verb](xs), strict=True):
                assert np.array_equal(value, expected), code


def given_by(code):
    """The register that a line fills, and the call that does it; of the arrays' names only `x` is left."""
    found = re.fullmatch(r"(?:(\w+) = )?(\w+\(.*\))", code)
    if found is None or found[2].startswith(("send(", "send_object(", "barrier(")) or "in_group" in code:
        return None, ""
    return found[1] or "x", re.sub(r"\((?:t|g)\b", "(x", found[2])


@pytest.mark.parametrize("section", [name for name, parts in SECTIONS.items() if parts])
def test_the_code_of_a_section_runs_from_top_to_bottom(four, section):
    for part in SECTIONS[section]:
        if isinstance(part, Block):
            four.run(part.code)
            if part.output:
                assert sorted(four.lines) == sorted(part.output.splitlines())
        elif part.here:
            if part.where == "here, in a cell" or "y" not in session().names():
                four.run(WORKERS)
            execute(four, part)


def test_every_section_has_something_to_run_but_the_last():
    *sections, last = SECTIONS.values()
    assert all(sections)
    assert not last
    assert sum(bool(row.here) for parts in sections for row in parts if isinstance(row, Row)) > 40


@pytest.mark.parametrize("line", sorted({line for line in SPAN.findall(TEXT) if re.match("%%?disco", line)}))
def test_magics_that_the_page_names_are_there(line):
    name, *words = line.split(maxsplit=1)
    options = words[0] if words else ""
    if name == "%disco":
        command, _, options = options.partition(" ")
        command_of(command).parser.read(options)
    elif options != "-h":
        cell_parser().read(options)


def test_options_that_the_page_names_alone_are_options_of_cells():
    theirs = {"--nnodes", "--rdzv-endpoint", "--max-restarts", "--ccl"}
    named = {shlex.split(line)[0] for line in SPAN.findall(TEXT) if re.match("--?[a-z]", line)}
    ours = {option for action in cell_parser()._actions for option in action.option_strings}
    assert named - theirs <= ours
    assert command_of("start").parser.read("--ccl nccl").ccl == "nccl"


def test_pages_that_the_page_links_to_are_there():
    links = re.findall(r"\]\((.*?)\)", TEXT)
    assert links
    assert all((PAGE.parent / link.partition("#")[0]).exists() for link in links)


def named(owners):
    """Attributes of others that the page names, as far as `owners` has them: name of the owner, attribute."""
    rows = [row for parts in SECTIONS.values() for row in parts if isinstance(row, Row)]
    code = " ".join(each for row in rows for each in row.there)
    return {found for found in re.findall(r"\b(\w+)\.(\w+)", code) if found[0] in owners}


def test_what_the_page_names_of_ipyparallel_is_there():
    ipp = pytest.importorskip("ipyparallel", reason="the extra 'bench' has it")
    owners = {
        "dv": ipp.DirectView,
        "rc": ipp.Client,
        "ar": ipp.AsyncResult,
        "cluster": ipp.Cluster,
        "ipp": ipp,
    }
    synchronous = {("cluster", name) for name in ("start_and_connect_sync", "restart_engines_sync")}
    synchronous |= {("cluster", "stop_cluster_sync")}  # made of the asynchronous ones, for instances
    missing = {(owner, name) for owner, name in named(owners) if not hasattr(owners[owner], name)}
    assert missing == synchronous
    assert all(hasattr(ipp.Cluster, name.removesuffix("_sync")) for _, name in synchronous)


def test_what_the_page_names_of_mpi4py_is_there():
    mpi = pytest.importorskip("mpi4py.MPI", reason="the extra 'bench' has it")
    owners = {"comm": mpi.Intracomm, "MPI": mpi}
    assert len(named(owners)) > 20
    assert [pair for pair in named(owners) if not hasattr(owners[pair[0]], pair[1])] == []


# --- what the third columns say --------------------------------------------------------------------


def test_a_function_goes_on_using_the_notebook_s_variables(four):
    four.run("factor = 2\ndef scaled(x):\n    return factor * x\nr = session.call_packed(scaled, 1)")
    assert four.run("r.get_all()") == [2] * 4
    four.run("factor = 3")
    assert four.run("session.call_packed(scaled, 1).get_all()") == [3] * 4


def test_collectives_of_some_workers_only_fail_at_once(four):
    assert "barrier" in str(four.fail("%%disco --targets 1:3\nbarrier()", CellError))
    four.run("%%disco\nbarrier()")


def test_a_worker_that_raises_releases_the_others_and_the_session_goes_on(four):
    error = four.fail(
        "%%disco\nkept = worker_id\nif worker_id == 2:\n    raise ValueError\nbarrier()", CellError
    )
    assert sorted(error.failures) == [0, 1, 2, 3]
    assert four.run("%%disco\nallgather(kept).tolist()").values == [[0, 1, 2, 3]] * 4


def test_groups_are_neighbours_and_verbs_work_inside_of_them(shell):  # noqa: F811 - the fixture
    shell.run("%disco start -n 4 --groups 2")
    shell.run(
        "%%disco\nsums = allreduce(worker_id), allreduce(1, in_group=False)\n"
        "worker.group, worker.group_rank, *map(int, sums)"
    )
    assert shell.lines == [f"[{w}] ({w // 2}, {w % 2}, {(1, 1, 5, 5)[w]}, 4)" for w in range(4)]


def test_what_is_read_as_numpy_reads_it_comes_back_as_an_array(four):
    four.run(
        "%%disco\nclass Tensor:\n    def __array__(self, dtype=None, copy=None):\n"
        "        return np.full(2, worker_id)\ntotal = allreduce(Tensor())"
    )
    assert all(
        type(value) is np.ndarray and value.tolist() == [6, 6] for value in session()["total"].get_all()
    )
