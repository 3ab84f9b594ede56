"""A person watches a plot that is drawn again and again in JupyterLab: it changes in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("playwright", reason="the browser tests need playwright")

from playwright.sync_api import expect

from tests.committed import needs

needs("matplotlib")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
LOAD = "%load_ext disco_magic\n%disco start -n 4"
IMPORT = """%%disco
import threading
from pathlib import Path
import matplotlib.pyplot as plt
from IPython.display import clear_output
def until_seen(turn):
    while not Path(f"seen {turn}").exists():
        threading.Event().wait(0.02)
"""
LOOP = """%%disco
for turn in range(3):
    {whose}
        clear_output(wait=True)
        print("turn", turn)
        plt.figure(figsize=(3, 1.5))
        plt.plot(range(turn + 2))
        plt.show()
    until_seen(turn)
    barrier()"""
FRAMES = 30  # in which a turn's plot is looked at
WHOSE = {"one": "if worker_id == 0:", "all": "if True:"}
CELLS = [LOAD, IMPORT, *(LOOP.format(whose=whose) for whose in WHOSE.values())]
# The heights of the cell's figures as the browser paints them, from when all are there; 0: not all are.
WATCH = """([index, count]) => {
    const area = document.querySelectorAll('.jp-Notebook .jp-Cell')[index];
    const mine = window.heights = [];
    const look = () => {
        if (!area.isConnected || window.heights !== mine)
            return;  // that of the test before
        const figures = area.querySelector('.disco-figures');
        const images = [...area.querySelectorAll('.disco-figures img')];
        const drawn = images.filter(each => each.naturalWidth).length;
        if (window.heights.length || drawn == count)
            window.heights.push(drawn == count ? figures.offsetHeight : 0);
        requestAnimationFrame(look);
    };
    look();
}"""


@pytest.mark.usefixtures("tall")
@pytest.mark.parametrize("who", ["one", "all"])
def test_a_live_plot_is_seen_in_every_turn_and_hardly_ever_without_a_picture(
    who: str,
    begun_notebook: Callable[[str, list[str]], Any],
    lab_folder: Path,
    pictures: Path,
) -> None:
    lab = begun_notebook("live.ipynb", CELLS)
    count, loop = (1, 2) if who == "one" else (4, 3)
    lab.run(1)
    for turn in range(3):
        (lab_folder / "notebooks" / f"seen {turn}").unlink(missing_ok=True)
    lab.page.evaluate(WATCH, [loop, count])
    lab.begin(loop)
    for turn in range(3):
        lab.cell(loop).locator(".disco-figures img").nth(count - 1).wait_for()
        lab.cell(loop).get_by_text(f"turn {turn}").nth(count - 1).wait_for()
        expect(lab.cell(loop).locator(".disco-figures img")).to_have_count(count)
        assert lab.is_running(loop)
        lab.picture(pictures / f"live_plot_{who}_{turn}.png")
        lab.page.wait_for_function("frames => window.heights.length >= frames", arg=FRAMES * (turn + 1))
        (lab_folder / "notebooks" / f"seen {turn}").touch()
    lab.page.wait_for_function("() => !document.body.innerText.includes('[*]')")
    lab.picture(pictures / f"live_plot_{who}_end.png")
    expect(lab.cell(loop).locator(".disco-figures img")).to_have_count(count)
    expect(lab.cell(loop).locator(".jp-OutputArea")).not_to_contain_text("turn 1")
    heights = lab.page.evaluate("window.heights")
    # A new picture is decoded in a frame or two, in more on a busy machine.
    blank = sum(height < 80 for height in heights)
    assert blank * 10 < len(heights), (blank, sorted(set(heights)))
