"""The notebook about GPUs: it does what it says on a simulated one, and says so where there is none."""

from __future__ import annotations

import copy
import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from disco_magic.devices import find
from disco_magic.functions.installed import has_package, visible_gpus
from tests.committed import COLOUR, ROOT, cell_of, check_portable, data_of, errors_of, execute, text_of
from tests.gpu.machine import lacking

nbclient = pytest.importorskip("nbclient", reason="the extra 'lab' has it")
nbformat = pytest.importorskip("nbformat", reason="the extra 'lab' has it")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nbformat import NotebookNode

NOTEBOOK = ROOT / "notebooks" / "04_gpu.ipynb"
SKIPPED = "skipped: no GPU\n"
# NumPy multiplies matrices of float16 element by element.
SMALL = "batch, sequence, heads, width = 2, 32, 8, 128"
# Executed by IPython before the first cell: the kernel finds a GPU where there is none.
SIMULATED = """
from disco_magic.devices import find
from disco_magic.testing.gpu import SimulatedGpus

_simulated = SimulatedGpus(count=1)
find.load_cupy = lambda: _simulated.cupy
find.count_gpus = lambda: 1
"""
# What the cells leave in the kernel, a part of it, asked for after the last of them. In short lines: nbclient
# looks for carriage returns in a time that grows with the square of a line's length, hours for a megabyte.
ASK = """
import json
print(json.dumps(indent=1, obj={
    "apart": [float(apart(*pair)) for pair in ((y, alone), (y, exact), (alone, exact))],
    "shape": [batch, sequence, heads, width],
    "dtypes": [str(each.dtype) for each in (y, alone, exact)],
    "rows": exact[-1, ::8].tolist(),
}))
"""


@pytest.fixture(scope="module")
def committed() -> NotebookNode:
    """The notebook as it is in the repository."""
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """IPython's own folder for the kernels of these tests, without anybody's startup files."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("ipython")
        patch.setenv("IPYTHONDIR", str(folder))
        yield folder


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


# --- without a GPU ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def without(home: Path) -> NotebookNode:
    """Executed where no GPU is visible; the first cell once more at the end."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(copy.deepcopy(_code(notebook)[0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        return execute(notebook)


def test_without_a_gpu_the_first_cell_says_what_is_missing(without: NotebookNode) -> None:
    first, *_, again = _code(without)
    assert text_of(first).startswith("No GPU that workers could compute on.\n  cuda: no NVIDIA GPU visible")
    assert "\n  nccl: " in text_of(first)
    assert ('pip install "disco-magic[cuda1' in text_of(first)) or has_package("cupy")
    assert text_of(again) == text_of(first)


def test_without_a_gpu_the_other_cells_say_so_and_do_nothing(without: NotebookNode) -> None:
    assert errors_of(without) == []
    assert {text_of(cell) for cell in _code(without)[1:-1]} == {SKIPPED}


def test_the_committed_notebook_says_on_what_it_was_executed(committed: NotebookNode) -> None:
    first, *others = _code(committed)
    words = " ".join(cell.source for cell in committed.cells if cell.cell_type == "markdown")
    without_gpu = text_of(first).startswith("No GPU")
    assert without_gpu or re.match(r"GPUs: \d+\n", text_of(first))
    assert ("executed on a machine without a GPU" in words) == without_gpu
    assert [text_of(cell) == SKIPPED for cell in others] == [without_gpu] * len(others)
    assert [cell.execution_count for cell in (first, *others)] == list(range(1, len(others) + 2))


def test_the_committed_notebook_holds_nothing_of_the_machine_it_ran_on() -> None:
    check_portable(NOTEBOOK)


# --- with one --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["simulated", pytest.param("real", marks=pytest.mark.gpu)])
def executed(request: pytest.FixtureRequest, home: Path) -> NotebookNode:
    """The notebook executed now, on a GPU, and one more cell that reports variables."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(ASK))
    if request.param == "real":
        if not (has_package("cupy") and visible_gpus()):
            pytest.skip("no GPU")
        reason = lacking(find.load_cupy())
        if reason is not None:
            pytest.skip(f"needs {reason}")
        return execute(notebook)
    if shutil.which("g++") is None:
        pytest.skip("no g++, which compiles the simulated GPU's kernels")
    (shape,) = (cell for cell in _code(notebook) if "parameters" in cell.metadata.get("tags", []))
    shape.source = SMALL
    startup = home / "profile_default" / "startup" / "00-simulated.py"
    startup.parent.mkdir(parents=True, exist_ok=True)
    startup.write_text(SIMULATED)
    try:
        return execute(notebook)
    finally:
        startup.unlink()


@pytest.fixture(scope="module")
def found(executed: NotebookNode) -> dict[str, Any]:
    """The variables that the notebook left."""
    return json.loads(text_of(executed.cells[-1]))


def test_four_workers_share_what_is_there(executed: NotebookNode) -> None:
    started = text_of(cell_of(executed, "%disco start"))
    assert re.match(
        r"Disco session 1: 4 workers · threads · cuda:(0 · plane device|\[0-3\] · plane nccl) ", started
    )


def test_every_worker_gets_the_columns_and_rows_of_its_heads(
    executed: NotebookNode, found: dict[str, Any]
) -> None:
    _, _, heads, width = found["shape"]
    said = text_of(cell_of(executed, "scatter(qkv, axis=2)"))
    assert f"{heads // 4} heads: float16 (3, {width}, {width // 4}) and ({width // 4}, {width})" in said


def test_four_workers_and_one_agree_to_a_thousandth_of_the_largest_number(
    executed: NotebookNode, found: dict[str, Any]
) -> None:
    assert found["dtypes"] == ["float16", "float16", "float32"]
    assert 0 < found["apart"][0] < 1e-3  # not to the bit: that would be luck, or the same array twice
    assert max(found["apart"]) < 1e-3
    assert "equal to 1e-3 of the largest number: True\n" in text_of(cell_of(executed, "apart(y, alone)"))


def test_what_they_compute_is_attention(executed: NotebookNode, found: dict[str, Any]) -> None:
    # Of the last sequence, every eighth token; head by head, token by token, in float64.
    batch, sequence, heads, width = found["shape"]
    given: dict[str, Any] = {"batch": batch, "sequence": sequence, "heads": heads, "width": width}
    exec(cell_of(executed, "default_rng(7)").source, given)
    x, out = given["x"][-1].astype(float), given["out"].astype(float)
    q, k, v = (x @ weight.astype(float) for weight in given["qkv"])
    for row, token in zip(found["rows"], range(0, sequence, 8), strict=True):
        mixed = np.zeros(width)
        for head, slope in enumerate(given["slopes"]):
            mine = slice(head * (width // heads), (head + 1) * (width // heads))
            scores = k[: token + 1, mine] @ q[token, mine] / np.sqrt(width // heads)
            weights = np.exp(scores - slope * (token - np.arange(token + 1.0)))
            mixed[mine] = weights / weights.sum() @ v[: token + 1, mine]
        np.testing.assert_allclose(row, mixed @ out, atol=1e-4)


def test_it_shows_seconds_memory_and_four_pictures(executed: NotebookNode) -> None:
    assert re.search(r"time (of Cell|\[0-3\] )", text_of(cell_of(executed, "%%disco --time")))
    status = text_of(cell_of(executed, "%disco status"))
    assert re.search(r"registers: \[0\] \d+.* \[(1-)?3\] \d+", status)
    assert re.search(r"cuda:0: \d.* in use, \d.* in registers of \[0", status)
    (picture,) = data_of(cell_of(executed, "registers seen --as heatmap"), "text/html")
    assert picture.count("<img") == 4


def test_the_mistake_is_the_only_error_and_says_whose_array_is_where(executed: NotebookNode) -> None:
    (error,) = errors_of(executed)
    assert error in cell_of(executed, "np if worker_id == 2").outputs
    shown = COLOUR.sub("", "\n".join([error["ename"], error["evalue"], *error["traceback"]]))
    assert re.search(r"worker 2 gave device=cpu, workers \[0-1,3\] gave device=cuda", shown)
    assert re.search(r"\n  \[0-1,3\] allreduce\(float16 \(\d+,\) on cuda.*, op=sum\) at Cell In", shown)
    assert re.search(r"\n  \[2\] allreduce\(float16 \(\d+,\), op=sum\) at Cell In", shown)


def test_the_session_goes_on_after_the_mistake(executed: NotebookNode) -> None:
    assert re.match(r"\[0-3\] '\d\.\d\d'\n?", text_of(cell_of(executed, "allreduce(xp.ones(")))
    assert "is stopped" in text_of(cell_of(executed, "%disco stop"))
