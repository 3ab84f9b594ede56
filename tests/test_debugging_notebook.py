"""The notebook that looks for a transposed shard: the bug is there, it is found, and mending it helps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.committed import (
    ROOT,
    cell_of,
    check_portable,
    check_same_outputs,
    data_of,
    errors_of,
    execute,
    needs,
    read,
    text_of,
)

needs("nbclient", "nbformat", "sklearn")

if TYPE_CHECKING:
    from nbformat import NotebookNode

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
NOTEBOOK = ROOT / "notebooks" / "02_debugging_registers.ipynb"


@pytest.fixture(scope="module")
def executed() -> NotebookNode:
    """The notebook executed now."""
    return execute(read(NOTEBOOK))


def _accuracy(cell: NotebookNode) -> float:
    """What all four workers found."""
    return float(re.search(r"\[0-3\] (0\.\d+)", text_of(cell))[1])


def test_a_transposed_shard_costs_accuracy_and_nothing_complains(executed: NotebookNode) -> None:
    broken = cell_of(executed, "%%disco --check --out accuracy")
    alone = float(re.search(r"alone: (0\.\d+)", text_of(cell_of(executed, "alone =")))[1])
    assert errors_of(executed) == []
    assert "agree on type and shape of: shard, units, logits" in text_of(broken)
    assert _accuracy(broken) <= alone - 0.01
    assert _accuracy(cell_of(executed, "%%disco --out accuracy\nshard")) == alone
    assert "equal to the model alone: True" in text_of(cell_of(executed, "equal to the model alone"))


def test_only_the_transposed_shard_differs_from_what_it_should_be(executed: NotebookNode) -> None:
    lines = text_of(cell_of(executed, "turned =")).splitlines()
    assert [line.endswith("0.00 transposed'") for line in lines] == [False, False, True, False]
    assert ["'0.00 as it is" in line for line in lines] == [True, True, False, True]


def test_the_picture_shows_four_shards_and_the_error_of_one(executed: NotebookNode) -> None:
    (shards,) = data_of(cell_of(executed, "registers shard --as heatmap"), "text/html")
    (errors,) = data_of(cell_of(executed, "registers error --as heatmap"), "text/html")
    assert shards.count("<img") == 4
    assert errors.count("<img") == 2
    assert errors.count("same as [0]") == 2


def test_a_web_page_of_it_shows_the_pictures(executed: NotebookNode) -> None:
    exporter = pytest.importorskip("nbconvert", reason="JupyterLab brings it").HTMLExporter()
    page, _ = exporter.from_notebook_node(executed)
    assert page.count("<img") >= 6
    assert page.count('class="disco-registers"') == 3
    assert "jupyter-widgets-controls" not in page  # what would be fetched to show widgets


def test_the_committed_outputs_are_those_of_this_run(executed: NotebookNode) -> None:
    check_same_outputs(read(NOTEBOOK), executed)


def test_the_committed_notebook_holds_nothing_of_the_machine_it_ran_on() -> None:
    check_portable(NOTEBOOK)
