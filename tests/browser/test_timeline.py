"""A person looks for the worker that keeps the others waiting, in JupyterLab."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("playwright", reason="the browser tests need playwright")

from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
START = "%load_ext disco_magic\n%disco start -n 4"
# Worker 2 works longer before every collective than a busy machine keeps the others from theirs.
SLOW = """%%disco
import time
for step in range(3):
    until, total = time.perf_counter() + 0.5 * (worker_id == 2), 0
    while time.perf_counter() < until:
        total += 1
    allreduce(total)"""


@pytest.mark.usefixtures("tall")
def test_the_worker_that_is_waited_for_stands_out(
    open_notebook: Callable[..., Any], lab_folder: Path, pictures: Path
) -> None:
    lab = open_notebook("timeline.ipynb", [START, SLOW, "%disco timeline"])
    for cell in range(3):
        lab.run(cell)
    view = lab.cell(2).locator(".disco-live")
    expect(view).to_contain_text("worker 2 came last to")
    expect(view.locator("svg title").filter(has_text="Cell In[2]").first).to_be_attached()  # shown on hover
    expect(lab.cell(2).locator(".jp-RenderedHTML svg").first).to_be_hidden()  # the still
    listed = view.locator("select").first.evaluate("list => [list.clientHeight, list.scrollHeight]")
    assert listed[0] == listed[1]  # all workers are seen
    above = "list => list.options[0].offsetTop"
    assert view.locator("select").first.evaluate(above) <= 2
    readout = view.locator(".widget-readout")
    assert readout.evaluate("box => parseFloat(getComputedStyle(box).paddingLeft)") >= 4
    lab.picture(pictures / "timeline.png")

    size = lab.page.viewport_size
    lab.page.set_viewport_size({"width": 800, "height": size["height"]})
    # JupyterLab lays its panels out some time after the window has got narrower.
    expect(lab.page.locator(".jp-NotebookPanel:visible")).to_be_in_viewport(ratio=1)
    around = view.locator("div:has(> svg[role=img])").first
    room, wide = around.evaluate("each => [each.clientWidth, each.scrollWidth]")
    assert room < wide <= 960  # where there is less room it is scrolled, not cut off
    lab.page.set_viewport_size(size)

    view.get_by_label("Show").select_option(["worker 2"])
    expect(view.locator("svg").first).not_to_contain_text("worker 0")
    view.locator("button", has_text="Save trace").click()
    expect(view).to_contain_text("saved in trace.json")
    events = json.loads((lab_folder / "notebooks" / "trace.json").read_text())["traceEvents"]
    assert {event["ph"] for event in events} >= {"M", "X"}


def test_tables_of_times_fit_into_a_narrow_window(open_notebook: Callable[..., Any]) -> None:
    """Their numbers stood in one line each: the last columns had to be scrolled to."""
    timed = SLOW.replace("%%disco", "%%disco --time", 1)
    shown = "import disco_magic; disco_magic.session().timeline()"
    lab = open_notebook("times.ipynb", [START, timed, "%disco log", shown])
    for cell in range(4):
        lab.run(cell)
    size = lab.page.viewport_size
    lab.page.set_viewport_size({"width": 420, "height": size["height"]})
    for cell in range(1, 4):
        table = lab.cell(cell).locator(".jp-RenderedHTML table").first
        table.scroll_into_view_if_needed()
        expect(table).to_be_visible()
        room = table.evaluate("""each => {
            const area = each.closest('.jp-OutputArea-output').getBoundingClientRect();
            return area.right - each.getBoundingClientRect().right;
        }""")
        assert room >= 0, f"cell {cell}"
    lab.page.set_viewport_size(size)
