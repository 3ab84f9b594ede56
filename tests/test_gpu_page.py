"""`docs/gpu.md` says what is so: its code runs, its choices are made, its errors come, on a simulated GPU."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from disco_magic.devices import find, pinned, staging
from disco_magic.errors import CellError, UsageMistake
from disco_magic.planes.nccl_calls import wire
from disco_magic.planes.reductions import OPS
from disco_magic.session.equipment import MOST_SHARING, choose
from disco_magic.testing.gpu import SimulatedGpus
from tests.gpus import found

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")


def rows(head):
    """The cells of the rows of the first table with that column."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        first, _, *others = [
            [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()
        ]
        if head in first:
            return others
    raise LookupError(head)


@pytest.fixture(scope="module")
def machine():
    with SimulatedGpus(count=1) as made:
        yield made


@pytest.fixture
def gpu(machine, monkeypatch):
    if shutil.which("g++") is None:
        pytest.skip("no g++, which compiles the simulated GPU's kernels")
    found(monkeypatch, machine, 1, nccl=True)


# --- which session ---------------------------------------------------------------------------------


def arguments_of(call):
    """What `choose` is given for a `ThreadedSession(...)` as it is written."""
    node = ast.parse(call.strip("`"), mode="eval").body
    given = {each.arg: ast.literal_eval(each.value) for each in node.keywords}
    number = ast.literal_eval(node.args[0]) if node.args else None
    return given.pop("ccl", "auto"), given.pop("devices", None), number


@pytest.mark.parametrize("row", rows("asked for"), ids=lambda row: " ".join(row[:2]))
def test_a_session_gets_the_devices_and_the_plane_that_the_page_says(row, monkeypatch):
    call, count, where, plane = row
    monkeypatch.setattr(find, "count_gpus", lambda: int(count))
    monkeypatch.setattr(find, "has_nccl", lambda: True)
    monkeypatch.setattr(find, "load_cupy", lambda: None)
    monkeypatch.setattr(find, "gpu_kind", lambda _: "cuda")
    if where.startswith("refused: "):
        with pytest.raises(UsageMistake):
            choose(*arguments_of(call))
        return
    chosen = choose(*arguments_of(call))
    assert (" ".join(map(str, chosen.devices)) or "CPU", chosen.plane_name) == (where, plane)


def test_the_python_block_prints_what_its_comments_say(gpu, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "gpu.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\) +# (.*)", code)


# --- what it says of numbers, files and refusals ---------------------------------------------------


def test_numbers_on_the_page_are_those_of_the_code():
    assert f"| workers | up to {MOST_SHARING} |" in PAGE
    assert f"has two buffers of up to {staging.CHUNK_NBYTES >> 20} MiB" in PAGE
    assert pinned.BUFFERS == 2


@pytest.mark.parametrize("path", re.findall(r"`((?:planes|notebooks)/[\w.]+)`", PAGE))
def test_files_that_the_page_names_are_there(path):
    assert (ROOT / path).exists() or (ROOT / "disco_magic" / path).exists()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtypes", ["int16, uint16", "complex", "bool", "float16, bfloat16"])
def test_nccl_reduces_and_refuses_what_the_page_says(dtypes, op):
    (said,) = (row[2] for row in rows("one GPU each: `nccl`") if row[0] == dtypes)
    kinds = {"complex": ["complex64", "complex128"], "float16, bfloat16": ["float16"]}
    for name in kinds.get(dtypes, dtypes.split(", ")):
        if "refused" in said and f"`{op}`" not in said.partition(";")[0]:
            with pytest.raises(UsageMistake, match=r"allgather them|convert with"):
                wire("allreduce", op, np.dtype(name))
        else:
            assert wire("allreduce", op, np.dtype(name)).op >= 0


@pytest.mark.parametrize("row", rows("what happens"), ids=lambda row: row[0])
def test_a_cell_fails_as_the_page_says_and_the_session_goes_on(row, gpu, session):
    code, seen, _ = row
    four = session(4, devices="0,0,0,0")
    with pytest.raises(CellError) as caught:
        four.run(code.strip("`"))
    for words in re.findall(r"`(.+?)`", seen):
        assert words in str(caught.value)
    four.run("allreduce(xp.ones(1))")
