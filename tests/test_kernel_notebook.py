"""The notebook about the Disco kernel: its cells do what the text beside them says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.committed import (
    ROOT,
    cell_of,
    check_portable,
    data_of,
    errors_of,
    execute,
    needs,
    read,
    text_of,
    without_rounding,
)

needs("nbclient", "nbformat", "sklearn", "matplotlib")

if TYPE_CHECKING:
    from nbformat import NotebookNode

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
NOTEBOOK = ROOT / "notebooks" / "03_kernel.ipynb"


@pytest.fixture(scope="module")
def committed() -> NotebookNode:
    """The notebook as it is in the repository."""
    return read(NOTEBOOK)


@pytest.fixture(scope="module")
def executed() -> NotebookNode:
    """The notebook executed now."""
    return execute(read(NOTEBOOK))


def test_it_asks_for_the_kernel_and_has_no_magic_line_where_none_is_needed(committed: NotebookNode) -> None:
    assert committed.metadata["kernelspec"]["name"] == "disco"
    cells = [cell.source for cell in committed.cells if cell.cell_type == "code"]
    assert not [source for source in cells if "load_ext" in source or source.startswith("%%disco\n")]


def test_the_components_of_four_workers_are_those_of_one_process(executed: NotebookNode) -> None:
    assert text_of(cell_of(executed, "load_digits")) == "(1796, 64)"
    shared = text_of(cell_of(executed, "covariance = allreduce"))
    (percent,) = set(re.findall(r"(\d\d\.\d)% of the variance in 10 of 64", shared))
    assert 70 < float(percent) < 80
    apart = re.fullmatch(r"largest difference: (\S+)\n", text_of(cell_of(executed, "expected =")))
    assert float(apart[1]) < 1e-10


def test_every_worker_draws_its_own_figure(executed: NotebookNode) -> None:
    assert len(data_of(cell_of(executed, "figure, axes"), "image/png")) == 1
    cell = cell_of(executed, "plt.scatter")
    assert str(cell.outputs).count("iVBOR") == 4  # how a PNG begins in base64


def test_time_names_the_worker_that_the_others_wait_for(
    committed: NotebookNode, executed: NotebookNode
) -> None:
    expected, told = (text_of(cell_of(notebook, "%%disco --time")) for notebook in (committed, executed))
    assert "load imbalance" in told
    # Worker 1 has the most to do; on a busy machine it may be whoever got no core.
    assert "worker 1 came last to 1 of 1 collective" in expected
    named = re.search(r"worker (\d) came last to 1 of 1 collective", told)
    assert named is not None
    assert re.search(rf"^\[{named[1]}\] .* 0 ms +\S+ last$", told, re.MULTILINE)


def test_the_mistake_is_one_of_worker_3_and_the_debugger_stands_there(executed: NotebookNode) -> None:
    (error,) = errors_of(executed)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error["traceback"]))
    assert "failed on worker 3" in shown
    assert "IndexError: index 450 is out of bounds" in shown
    told = text_of(cell_of(executed, "%disco debug"))
    assert "(3, 450, (449, 64))" in told
    assert "[0-3]" in text_of(cell_of(executed, "% len(images)"))


def test_the_awaited_cell_gives_its_value(executed: NotebookNode) -> None:
    assert text_of(cell_of(executed, "await rotation")) == "[0-3] True"


def test_after_a_restart_the_registers_are_gone_and_the_notebooks_variables_are_not(
    executed: NotebookNode,
) -> None:
    (who,) = (cell for cell in executed.cells if cell.source == "%disco who")
    assert "0 registers" in text_of(who)
    assert text_of(cell_of(executed, "images.shape, components.shape")) == "((1796, 64), (64, 64))"


def test_the_committed_results_are_those_of_this_run(committed: NotebookNode, executed: NotebookNode) -> None:
    ours, theirs = (
        [cell for cell in each.cells if cell.cell_type == "code"] for each in (committed, executed)
    )
    for old, new in zip(ours, theirs, strict=True):
        assert old.source == new.source
        assert old.execution_count == new.execution_count
        # Times differ, and so may a last digit; how far a cell has come that nobody waits for.
        if re.search(r"--time|--nowait|expected =", old.source) is None:
            assert sorted(_lines(old)) == sorted(_lines(new)), old.source


def _lines(cell: NotebookNode) -> list[str]:
    text = re.sub(r"/\S*ipykernel_\d+/\d+\.py", "<cell>", without_rounding(text_of(cell)))
    # Of pixels that are always black any direction is an eigenvector.
    text = re.sub(r"(components .*) min \S+ mean \S+", r"\1 min mean", text)
    return [re.sub(r"\d+(\.\d+)? (ms|s)\b", "S s", line) for line in text.splitlines()]


def test_the_committed_notebook_holds_nothing_of_the_machine_it_ran_on() -> None:
    check_portable(NOTEBOOK)
