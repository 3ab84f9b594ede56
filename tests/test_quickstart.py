"""The quickstart notebook, executed in a real kernel: its results, and that they are the committed ones."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

nbclient = pytest.importorskip("nbclient", reason="the extra 'lab' has it")
nbformat = pytest.importorskip("nbformat", reason="the extra 'lab' has it")
for package in ("sklearn", "matplotlib"):
    pytest.importorskip(package, reason="the extra 'lab' has it")

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
QUICKSTART = ROOT / "notebooks" / "01_quickstart.ipynb"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What the cells leave in the kernel, asked for after the last of them.
ASK = """
import json
print(json.dumps({
    "accuracy": accuracies,
    "difference": float(difference),
    "steps": len(losses),
    "curves": float(np.abs(np.array(losses) - alone_losses).max()),
    "first_and_last": [losses[0], losses[-1]],
}))
"""


@pytest.fixture(scope="module")
def committed() -> NotebookNode:
    """The notebook as it is in the repository."""
    return nbformat.read(QUICKSTART, as_version=4)


@pytest.fixture(scope="module")
def executed() -> NotebookNode:
    """The notebook executed now, from its first cell to its last, and one more that reports variables."""
    notebook = nbformat.read(QUICKSTART, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(ASK))
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    client = nbclient.NotebookClient(
        notebook,
        timeout=120,
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(QUICKSTART.parent)}},
    )
    return client.execute(env={**os.environ, "PYTHONPATH": path})


@pytest.fixture(scope="module")
def found(executed: NotebookNode) -> dict[str, Any]:
    """The variables that the notebook left."""
    return json.loads(_text(executed.cells[-1]))


def _cell(notebook: NotebookNode, part: str) -> NotebookNode:
    """The one code cell whose source has `part`."""
    (cell,) = (cell for cell in notebook.cells if cell.cell_type == "code" and part in cell.source)
    return cell


def _outputs(cell: NotebookNode, mime: str) -> list[str]:
    return [output["data"][mime] for output in cell.outputs if mime in output.get("data", {})]


def _text(cell: NotebookNode) -> str:
    """What the cell printed and its last value, as plain text without colours."""
    printed = [output["text"] for output in cell.outputs if output.output_type == "stream"]
    return COLOUR.sub("", "".join([*printed, *_outputs(cell, "text/plain")]))


def _lasting_lines(cell: NotebookNode) -> list[str]:
    """What does not change from run to run: all but seconds and the order in which workers print."""
    return sorted(re.sub(r"\d+\.\d+ s\b", "S s", line) for line in _text(cell).splitlines())


def _errors(notebook: NotebookNode) -> list[NotebookNode]:
    return [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]


def test_the_first_cells_show_what_the_readme_shows(executed: NotebookNode) -> None:
    assert "4 workers · threads · cpu · plane threads" in _text(_cell(executed, "%disco start"))
    lines = _text(_cell(executed, "np.full((2, 3)")).splitlines()
    assert sorted(lines[:-1]) == [f"[{worker}] mine {worker}.0" for worker in range(4)]
    assert lines[-1] == "[0-3] 36.0"


def test_all_workers_recognise_at_least_95_percent_of_the_held_out_digits_and_agree(
    found: dict[str, Any],
) -> None:
    assert len(found["accuracy"]) == 4
    assert set(found["accuracy"]) == {found["accuracy"][0]}
    assert found["accuracy"][0] >= 0.95


def test_four_workers_learn_the_weights_that_one_learns(
    executed: NotebookNode, found: dict[str, Any]
) -> None:
    assert found["difference"] < 1e-5
    assert _text(_cell(executed, "difference =")) == "equal to 1e-5: True\n"


def test_the_loss_falls_as_it_does_alone(found: dict[str, Any]) -> None:
    first, last = found["first_and_last"]
    assert found["steps"] == 450
    assert last < first / 10
    assert found["curves"] < 1e-9


def test_the_loss_curve_is_a_picture(executed: NotebookNode) -> None:
    (picture,) = _outputs(_cell(executed, "plt.plot"), "image/png")
    assert base64.b64decode(picture).startswith(b"\x89PNG")


def test_the_registers_show_a_quarter_on_each_worker_and_the_held_out_images_on_worker_0_alone(
    executed: NotebookNode,
) -> None:
    cell = _cell(executed, "%disco registers")
    (table,) = _outputs(cell, "text/html")
    assert "<table" in table
    rows = re.sub(r"\s+", " ", _text(cell))
    for worker in range(4):
        assert re.search(rf"\[{worker}\] float64 360.64", rows)
    assert re.search(r"test_x \[0\] float64 357.64 [^\[]* \[1\] NoneType", rows)


def test_the_workers_agree_on_the_weights(executed: NotebookNode) -> None:
    assert _text(_cell(executed, "%%disco\nb2")).startswith("[0-3] array(")


def test_the_mistake_is_the_only_error_and_says_who_called_what_where(executed: NotebookNode) -> None:
    (error,) = _errors(executed)
    assert error in _cell(executed, "allgather(total)").outputs
    shown = COLOUR.sub("", "\n".join([error["ename"], error["evalue"], *error["traceback"]]))
    assert "PlaneMismatch" in shown
    for said in ("worker 2 called allgather at", "line 4", "[0-1,3] called allreduce at", "line 6"):
        assert said in shown


def test_the_session_goes_on_after_the_mistake_with_its_registers(executed: NotebookNode) -> None:
    assert _text(_cell(executed, "allreduce(len(train_x))")).splitlines() == ["[0-3] 1440"]


def test_the_committed_outputs_are_those_of_this_run(committed: NotebookNode, executed: NotebookNode) -> None:
    ours = [cell for cell in committed.cells if cell.cell_type == "code"]
    theirs = [cell for cell in executed.cells[:-1] if cell.cell_type == "code"]
    for old, new in zip(ours, theirs, strict=True):
        assert old.source == new.source
        assert old.execution_count == new.execution_count
        assert _lasting_lines(old) == _lasting_lines(new), old.source


def test_the_committed_notebook_holds_nothing_of_the_machine_it_ran_on(committed: NotebookNode) -> None:
    text = QUICKSTART.read_text()
    assert len(text) < 200_000
    assert set(committed.metadata) == {"kernelspec", "language_info"}
    assert all(set(cell.metadata) <= {"tags"} for cell in committed.cells)
    for trace in ("/home/", "/root/", "/tmp/", "site-packages", "\\\\Users", "0x7f"):  # noqa: S108 - searched for
        assert trace not in text
