"""A person opens the quickstart in JupyterLab and runs its first cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="the browser tests need nbformat")

if TYPE_CHECKING:
    from collections.abc import Callable

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"
STOPS = """%%disco
if worker_id == 2:
    raise ValueError("no such digit")
barrier()"""


@pytest.fixture
def first_screen() -> list[Any]:
    """The quickstart's first two code cells: the extension and its session, and the first `%%disco`."""
    cells = nbformat.read(QUICKSTART, as_version=4).cells
    start, first = [cell for cell in cells if cell.cell_type == "code"][:2]
    assert start.source.startswith("%load_ext disco_magic")
    assert first.source.startswith("%%disco\n")
    return [start, first]


def test_the_first_screen_shows_in_jupyterlab_what_the_readme_promises(
    first_screen: list[Any], open_notebook: Callable[[str, list[Any]], Any], pictures: Path
) -> None:
    lab = open_notebook("first_screen.ipynb", first_screen)

    assert "4 workers · threads · cpu · plane threads" in lab.run(0)
    lines = lab.run(1).splitlines()

    said = sorted(line for line in lines if "mine" in line)
    assert said == [f"[{worker}] mine {worker}.0" for worker in range(4)]
    assert lines[-1] == "[0-3] 36.0"
    lab.picture(pictures / "first-screen.png")


def test_a_failing_worker_shows_its_own_line_in_jupyterlab_and_the_next_cell_works(
    first_screen: list[Any], open_notebook: Callable[[str, list[Any]], Any], pictures: Path
) -> None:
    after = nbformat.v4.new_code_cell("%%disco\nallreduce(worker_id)")
    lab = open_notebook("failing.ipynb", [first_screen[0], nbformat.v4.new_code_cell(STOPS), after])
    lab.run(0)

    shown = lab.run(1)

    assert "ValueError: no such digit" in shown
    assert 'raise ValueError("no such digit")' in shown
    assert lab.run(2).splitlines() == ["[0-3] 6"]
    lab.picture(pictures / "failing-worker.png")
