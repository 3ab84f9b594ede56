"""A person types the README's first screen into JupyterLab and gets what it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="the browser tests need nbformat")

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
ROOT = Path(__file__).parents[2]
STOPS = """%%disco
if worker_id == 2:
    raise ValueError("no such digit")
barrier()"""


@pytest.fixture(scope="module")
def first_screen() -> list[str]:
    """The cells of the README's first screen: the extension, and the first `%%disco`."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    load, first = (block.rstrip("\n") for block in blocks[:2])
    assert load == "%load_ext disco_magic"
    assert first.startswith("%%disco\n")
    return [load, first]


def test_the_quickstart_begins_with_the_readmes_first_screen(first_screen: list[str]) -> None:
    cells = nbformat.read(ROOT / "notebooks" / "01_quickstart.ipynb", as_version=4).cells
    load, first = [cell.source for cell in cells if cell.cell_type == "code"][:2]
    assert load.splitlines()[0] == first_screen[0]
    assert first == first_screen[1]


def test_the_readmes_first_screen_does_in_jupyterlab_what_its_picture_shows(
    first_screen: list[str], open_notebook: Callable[[str, list[str]], Any], pictures: Path
) -> None:
    lab = open_notebook("first_screen.ipynb", first_screen)

    assert lab.run(0) == ""
    lines = lab.run(1).splitlines()

    assert sorted(line for line in lines if "mine" in line) == [f"[{i}] mine {i}.0" for i in range(4)]
    assert lines[-1] == "[0-3] 36.0"
    lab.picture(pictures / "first_screen.png")


# Of the first text in each of two outputs: where it begins, how large its letters are.
ALIKE = """outputs => {
    const [one, other] = outputs.map(output => {
        const all = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
        const range = document.createRange();
        range.selectNodeContents(all.nextNode());
        const size = getComputedStyle(range.startContainer.parentElement).fontSize;
        return [range.getBoundingClientRect().x, parseFloat(size)];
    });
    return Math.abs(one[0] - other[0]) <= 0.5 && one[1] == other[1];
}"""


def test_what_a_command_says_looks_like_the_lines_of_workers(open_notebook: Callable[..., Any]) -> None:
    lab = open_notebook(
        "lines.ipynb", ["%load_ext disco_magic\n%disco start -n 2", "%%disco\nprint(worker_id)"]
    )
    lab.run(0)
    lab.run(1)
    both = [lab.cell(i).locator(".jp-OutputArea-output").first.element_handle() for i in (0, 1)]
    lab.page.wait_for_function(ALIKE, arg=both)


def test_a_failing_worker_shows_its_own_line_in_jupyterlab_and_the_next_cell_works(
    first_screen: list[str], open_notebook: Callable[[str, list[str]], Any], pictures: Path
) -> None:
    start = f"{first_screen[0]}\n%disco start -n 4"
    lab = open_notebook("failing.ipynb", [start, STOPS, "%%disco\nallreduce(worker_id)"])
    assert "4 workers · threads · cpu · plane threads" in lab.run(0)

    shown = lab.run(1)

    assert "ValueError: no such digit" in shown
    assert 'raise ValueError("no such digit")' in shown
    assert lab.run(2).splitlines() == ["[0-3] 6"]
    lab.picture(pictures / "failing_worker.png")


WAITING = """%%disco --nowait
if worker_id == 3:
    released = recv(2)
x = allreduce(np.ones(3, dtype="float32")) if worker_id != 2 else None
import time
while worker_id == 2:
    time.sleep(0.01)"""
LOOK = """import time
while len(_disco.doctor().blocking()) != 1 or len(_disco._launcher.plane.waiting) < 3:
    time.sleep(0.01)
%disco status"""


def test_jupyterlab_shows_who_keeps_whom_waiting_and_what_differs(
    first_screen: list[str], open_notebook: Callable[[str, list[str]], Any], pictures: Path
) -> None:
    start = f"{first_screen[0]}\n%disco start -n 4\nimport disco_magic\n_disco = disco_magic.session()"
    differ = (
        "%%disco --check values\nw = worker.replicated(np.zeros(3))\nw -= worker_id == 3\nmine = worker_id"
    )
    lab = open_notebook("waiting.ipynb", [start, WAITING, LOOK, "_disco.restart()", differ])
    for cell in (0, 1):
        lab.run(cell)
    status = lab.run(2)
    assert "worker 2 keeps workers [0-1,3] waiting: executing Cell In[2]" in status
    assert "waiting in recv from worker 2\tCell In[2], line 3" in status
    lab.run(3)
    assert "'w' differs: float64 (3,) [0. 0. 0.] on workers [0-2]" in lab.run(4)
    lab.picture(pictures / "waiting.png")
