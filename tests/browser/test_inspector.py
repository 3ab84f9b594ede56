"""A person looks for a mistake with the register inspector, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("playwright", reason="the browser tests need playwright")

from playwright.sync_api import expect

from tests.browser.conftest import CELL_LIMIT_MS, OpenNotebook

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
START = "%load_ext disco_magic\n%disco start -n 4"
REGISTERS = """%%disco
rng = np.random.default_rng(0)
weight = np.sin(np.arange(64) / 3)[:, None] * np.linspace(0.2, 1, 64) + rng.normal(0, 0.05, (64, 64))
if worker_id == 2:
    weight = weight.T.copy()
bias = np.zeros(64, dtype="float32")
bias[5] = np.nan if worker_id == 3 else 0
step = 17"""
# A module that the workers share with the notebook: its event is never set, the cell is stopped.
GATE = """import sys, threading, types
gate = sys.modules["gate"] = types.ModuleType("gate")
gate.go = threading.Event()"""
BUSY = """%%disco
import gate
bound_meanwhile = np.ones(3)
print("it runs")
while not gate.go.wait(0.05):
    pass"""
WIDE = """%%disco
weight = np.random.rand(64, 64).astype("float32")
far = np.random.rand(512, 128) * 1000 - (worker_id + 1) * 1e6
few = np.array([1, np.nan, np.inf, 3.0 * worker_id])
name = "hello" * (worker_id + 1)"""
LONG_NAME = "activations_of_the_last_layer"
OPEN = "%disco registers"
CELLS = [START, REGISTERS, OPEN, OPEN, f"{OPEN} weight --as heatmap"]
PLACES = ("lab/tree", "notebooks")  # JupyterLab and Notebook 7, which draw alike and serve otherwise


class Inspector:
    """What a person sees and clicks of one."""

    def __init__(self, lab: OpenNotebook, cell: int) -> None:
        self.box = lab.cell(cell).locator(".disco-inspector-panel")
        self.box.wait_for(timeout=CELL_LIMIT_MS)
        self.table = self.box.locator("table.disco-registers")

    def press(self, name: str) -> None:
        """Click the button that says `name`."""
        self.box.locator("button", has_text=re.compile(rf"^\s*{name}\s*$")).click()

    def choose(self, label: str, value: str) -> None:
        """Choose from the list called `label`; lists that are of no use now are hidden."""
        self.box.get_by_label(label, exact=True).locator("visible=true").select_option(value)

    def row(self, name: str) -> Locator:
        """The table's row of a register."""
        return self.table.locator("tr").filter(has=self.box.page.get_by_text(name, exact=True))


@pytest.mark.usefixtures("tall")
def test_a_transposed_shard_is_found_by_looking(begun_notebook: Callable[..., Any], pictures: Path) -> None:
    lab = begun_notebook("inspector.ipynb", CELLS)
    for cell in (1, 2):
        lab.run(cell)
    inspector = Inspector(lab, 2)
    expect(inspector.table).to_contain_text("float64 64\u00d764")
    expect(inspector.row("bias")).to_contain_text("1 NaN")

    inspector.choose("Show", "differs between workers")
    expect(inspector.table).not_to_contain_text("step")
    inspector.box.get_by_label("Search").fill("weig")
    expect(inspector.table).not_to_contain_text("bias")
    expect(inspector.row("weight").locator("td.o")).to_have_count(1)

    inspector.choose("Look at", "weight")
    inspector.press("Heat map")
    expect(inspector.box.locator("figure img").first).to_be_visible()
    expect(inspector.box).to_contain_text("same as [0]")
    lab.picture(pictures / "inspector.png")

    inspector.press("Difference")
    expect(inspector.box).to_contain_text("weight [2] and weight [0]")
    expect(inspector.box).to_contain_text("elements differ")
    lab.picture(pictures / "difference.png")


@pytest.mark.usefixtures("tall")
def test_rows_are_whole_pixels_high_so_that_the_line_above_each_name_is_seen(
    begun_notebook: Callable[..., Any],
) -> None:
    # With rows of 22.19 pixels, the sticky cells of some names were drawn over the lines between the rows.
    lab = begun_notebook("inspector.ipynb", CELLS)
    for cell in (1, 3):
        lab.run(cell)
    inspector = Inspector(lab, 3)
    expect(inspector.row("bias")).to_contain_text("1 NaN")
    heights = "[...each.rows].map(row => row.getBoundingClientRect().height)"
    lab.comes_to(inspector.table, f"each => {heights}.every(height => height > 0 && height % 1 == 0)")


@pytest.mark.usefixtures("tall")
def test_a_dark_theme_is_readable(begun_notebook: Callable[..., Any], pictures: Path) -> None:
    lab = begun_notebook("inspector.ipynb", CELLS)
    lab.show_in("JupyterLab Dark")
    try:
        for cell in (1, 4):
            lab.run(cell)
        inspector = Inspector(lab, 4)
        expect(inspector.box.locator("figure img").first).to_be_visible()
        lab.picture(pictures / "inspector_dark.png")
        for part in (inspector.row("step").locator("td").first, inspector.box.locator("figure").first):
            text, ground = part.evaluate(COLOURS)
            assert _luminance(ground) < 0.1
            assert _contrast(text, ground) >= 4.5
        # ipywidgets' arrow of a list is black in every theme.
        chosen = inspector.box.get_by_label("Look at", exact=True)
        assert "stroke='%23ddd'" in chosen.evaluate("each => getComputedStyle(each).backgroundImage")
    finally:
        lab.show_in("JupyterLab Light")


def test_the_table_of_four_workers_fits_into_a_narrow_window(
    open_notebook: Callable[..., Any], page: Page, pictures: Path
) -> None:
    lab = open_notebook("narrow.ipynb", [START, WIDE, OPEN, f"%%disco\n{LONG_NAME} = 1", OPEN])
    lab.run(0)
    for width, cell in (870, 1), (1150, 3):
        page.set_viewport_size({"width": width, "height": 900})
        lab.run(cell)
        lab.run(cell + 1)
        inspector = Inspector(lab, cell + 1)
        expect(inspector.row("far")).to_contain_text("512\u00d7128")
        assert (LONG_NAME in inspector.table.inner_text()) == (width == 1150)
        scrolled = inspector.box.locator(".disco-scroll")
        lab.comes_to(scrolled, "each => each.clientWidth > 0 && each.scrollWidth == each.clientWidth")
        lab.picture(pictures / f"inspector_narrow_{width}.png")


def test_a_long_name_leaves_room_for_values_in_the_narrowest_window(
    open_notebook: Callable[..., Any], page: Page, pictures: Path
) -> None:
    # The column of names stays while the others are scrolled: as wide as the table's window, it hid them.
    page.set_viewport_size({"width": 420, "height": 900})
    name = "a_name_" * 12
    cells = [START, f"%%disco\n{name} = np.ones(3)", "%disco whos", f"{OPEN} {name} --as heatmap"]
    lab = open_notebook("narrowest.ipynb", cells)
    for cell in range(4):
        lab.run(cell)
    names = lab.cell(2).locator(".disco-scroll tbody th").first
    lab.comes_to(names, "each => 2 * each.offsetWidth < each.closest('.disco-scroll').clientWidth")
    background = names.locator("code").evaluate("each => getComputedStyle(each).backgroundColor")
    assert background == "rgba(0, 0, 0, 0)"  # as in the live table; JupyterLab's own style has a gray one
    title = lab.cell(3).locator("figure.disco-picture b").filter(has_text=name, visible=True)
    lab.comes_to(title, "each => each.getBoundingClientRect().right <= window.innerWidth")
    lab.picture(pictures / "registers_narrowest.png")


@pytest.mark.usefixtures("tall")
def test_names_are_not_broken_in_a_narrow_window(begun_notebook: Callable[..., Any]) -> None:
    # As letters could be broken anywhere, the column became as narrow as one: "wei", "ght" below the mark.
    lab = begun_notebook("inspector.ipynb", CELLS)
    lab.page.set_viewport_size({"width": 560, "height": 1150})
    for cell in (1, 2):
        lab.run(cell)
    inspector = Inspector(lab, 2)
    for name in ("weight", "bias"):
        lab.comes_to(inspector.row(name).locator("th"), "each => each.clientHeight > 0")
        assert inspector.row(name).locator("th").evaluate(LINES) == 1, name


@pytest.mark.usefixtures("tall")
@pytest.mark.parametrize("place", PLACES)
def test_clicks_are_answered_while_a_cell_runs(
    open_notebook: Callable[..., Any], pictures: Path, place: str
) -> None:
    app = place.split("/", maxsplit=1)[0]
    lab = open_notebook(f"busy_{app}.ipynb", [START, GATE, OPEN, BUSY], place)
    for cell in range(3):
        lab.run(cell)
    inspector = Inspector(lab, 2)
    lab.begin(3)
    expect(lab.cell(3).locator(".jp-OutputArea")).to_contain_text("it runs", timeout=CELL_LIMIT_MS)
    inspector.press("Refresh")
    expect(inspector.table).to_contain_text("bound_meanwhile", timeout=CELL_LIMIT_MS)
    expect(inspector.box.locator("table.disco-doctor")).to_contain_text("executing Cell In[4]")
    assert lab.is_running(3)
    lab.picture(pictures / f"inspector_busy_{app}.png")

    inspector.press("Stop")  # all workers: the cell ends with an error, as by the stop button
    expect(lab.cell(3).locator(".jp-OutputArea")).to_contain_text("WorkerInterrupt", timeout=CELL_LIMIT_MS)
    expect(inspector.box).not_to_contain_text("executing", timeout=CELL_LIMIT_MS)


@pytest.mark.usefixtures("tall")
def test_a_live_inspector_follows_a_cell_without_a_click(open_notebook: Callable[..., Any]) -> None:
    lab = open_notebook("live.ipynb", [START, GATE, f"{OPEN} --live", BUSY])
    for cell in range(3):
        lab.run(cell)
    inspector = Inspector(lab, 2)
    lab.begin(3)
    expect(inspector.table).to_contain_text("bound_meanwhile", timeout=CELL_LIMIT_MS)
    assert lab.is_running(3)
    inspector.press("Stop")
    expect(lab.cell(3).locator(".jp-OutputArea")).to_contain_text("WorkerInterrupt", timeout=CELL_LIMIT_MS)


@pytest.mark.usefixtures("tall")
def test_a_saved_notebook_shows_a_still_when_its_kernel_is_gone(
    open_notebook: Callable[..., Any], page: Page, lab_address: str, pictures: Path
) -> None:
    lab = open_notebook("saved.ipynb", [START, REGISTERS, f"{OPEN} weight --as heatmap"])
    for cell in range(3):
        lab.run(cell)
    inspector = Inspector(lab, 2)
    still = lab.cell(2).locator('[class^="disco-still"] table.disco-registers')
    expect(inspector.box.locator("figure img").first).to_be_visible()
    expect(still).to_be_hidden()  # while the widget is there
    page.evaluate(SAVE_AND_LEAVE)

    lab = OpenNotebook(page, lab_address, "saved.ipynb")
    still = lab.cell(2).locator('[class^="disco-still"] table.disco-registers')
    expect(still).to_be_visible(timeout=CELL_LIMIT_MS)
    expect(lab.cell(2).locator("figure img").first).to_be_visible()
    expect(lab.cell(2).get_by_text("Error displaying widget")).to_be_hidden()
    lab.picture(pictures / "inspector_saved.png")


@pytest.mark.usefixtures("tall")
def test_after_a_restart_of_the_kernel_an_inspector_says_once_that_it_has_ended(
    open_notebook: Callable[..., Any], page: Page, pictures: Path
) -> None:
    lab = open_notebook("restarted.ipynb", [START, REGISTERS, f"{OPEN} weight --as heatmap"])
    for cell in range(3):
        lab.run(cell)
    inspector = Inspector(lab, 2)
    expect(inspector.box.locator("figure img").first).to_be_visible()
    assert page.evaluate(SIGNS) == []
    page.evaluate(RESTART)
    expect(inspector.box).to_have_class(re.compile("disconnected"), timeout=CELL_LIMIT_MS)
    lab.picture(pictures / "inspector_restarted.png")
    page.wait_for_function(f"() => ({SIGNS})().length == 1")  # all of its parts are told, one by one
    (sign,) = page.evaluate(SIGNS)
    assert "The kernel has ended" in sign
    expect(inspector.box.locator("figure img").first).to_be_visible()


# In how many lines a mark and the name after it stand.
LINES = """each => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return new Set([...range.getClientRects()].map(box => Math.round(box.bottom / 8))).size;
}"""
RESTART = """() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()
    .then(() => 1)"""
# What stands before widgets whose kernel has ended: ipywidgets' own sign, or ours.
SIGNS = """() => [...document.querySelectorAll('.disco-live, .disco-live *')]
    .filter(each => each.classList.contains('jupyter-widgets-disconnected'))
    .map(each => getComputedStyle(each, '::before').content)
    .filter(content => content != 'none')"""

SAVE_AND_LEAVE = """() => {
    const app = window.jupyterapp, session = app.shell.currentWidget.context.sessionContext;
    return app.commands.execute('docmanager:save').then(() => session.shutdown()).then(() => 1);
}"""


COLOURS = """element => {
    const numbers = css => css.match(/[\\d.]+/g).map(Number);
    let ground = [255, 255, 255, 1];
    for (let at = element; at; at = at.parentElement) {
        const found = numbers(getComputedStyle(at).backgroundColor);
        if (found.length == 3 || found[3] > 0) { ground = found; break; }
    }
    return [numbers(getComputedStyle(element).color), ground];
}"""


def _contrast(one: list[float], other: list[float]) -> float:
    """WCAG's ratio of two colours; 4.5 is what it asks of text."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: list[float]) -> float:
    parts = [value / 255 for value in colour[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
