"""Notebooks of the repository: executed in a real kernel, and compared with what is committed."""

from __future__ import annotations

import os
import re
import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WIDGET = "application/vnd.jupyter.widget-view+json"
TRACES = ("/home/", "/root/", "/tmp/", "site-packages", "\\\\Users", "0x7f")  # noqa: S108 - searched for


def needs(*packages: str) -> None:
    """Skip the module if one of `packages`, which are imported later or by kernels, is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        pytest.skip(f"the extra 'lab' has {', '.join(missing)}", allow_module_level=True)


def read(path: Path) -> NotebookNode:
    """The notebook as it is in the repository."""
    import nbformat

    return nbformat.read(path, as_version=4)


def execute(notebook: NotebookNode) -> NotebookNode:
    """Execute `notebook` from its first cell to its last, in place, as ``notebooks/`` lies beside it."""
    client_of = runpy.run_path(str(ROOT / "notebooks" / "write.py"))["client_of"]  # a script, in no package
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return client_of(notebook, ROOT / "notebooks").execute(env={**os.environ, "PYTHONPATH": path})


def cell_of(notebook: NotebookNode, part: str) -> NotebookNode:
    """The one code cell whose source has `part`."""
    (cell,) = (cell for cell in notebook.cells if cell.cell_type == "code" and part in cell.source)
    return cell


def data_of(cell: NotebookNode, mime: str) -> list[str]:
    """What the cell displayed in that form; a widget itself does not count, the still beside it does."""
    found = [output["data"] for output in cell.outputs if WIDGET not in output.get("data", [WIDGET])]
    return [data[mime] for data in found if mime in data]


def text_of(cell: NotebookNode) -> str:
    """What the cell printed and its last value, as plain text without colours."""
    printed = [output["text"] for output in cell.outputs if output.output_type == "stream"]
    return COLOUR.sub("", "".join([*printed, *data_of(cell, "text/plain")]))


def errors_of(notebook: NotebookNode) -> list[NotebookNode]:
    """The errors that its cells ended with."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output for output in outputs if output.output_type == "error"]


def check_same_outputs(committed: NotebookNode, executed: NotebookNode) -> None:
    """The committed notebook is what this run gave, but for seconds and the order in which workers print."""
    ours = [cell for cell in committed.cells if cell.cell_type == "code"]
    theirs = [cell for cell in executed.cells if cell.cell_type == "code"]
    for old, new in zip(ours, theirs, strict=True):
        assert old.source == new.source
        assert old.execution_count == new.execution_count
        assert _lasting_lines(old) == _lasting_lines(new), old.source


def _lasting_lines(cell: NotebookNode) -> list[str]:
    text = without_rounding(text_of(cell)).replace("pathlib._local.", "pathlib.")  # as Python 3.13 has it
    return sorted(re.sub(r"\d+\.\d+ s\b", "S s", line) for line in text.splitlines())


def without_rounding(text: str) -> str:
    """`text` without rounding errors, which every version of NumPy has its own of, or their widths.

    And without digests of what has them.
    """
    text = re.sub(r"\b[0-9a-f]{8}$", "digest", text, flags=re.MULTILINE)
    return re.sub(r" {2,}", "  ", re.sub(r"-?\d(\.\d+)?e-1\d", "tiny", text))


def check_portable(path: Path) -> None:
    """The committed notebook is small and holds nothing of the machine it ran on, and no widget."""
    text = path.read_text()
    committed = read(path)
    assert len(text) < 200_000
    assert set(committed.metadata) == {"kernelspec", "language_info"}
    assert all(set(cell.metadata) <= {"tags"} for cell in committed.cells)
    assert WIDGET not in text
    for trace in TRACES:
        assert trace not in text
