"""A person picks "Disco (SPMD)" in JupyterLab's launcher and works through the notebook about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("playwright", reason="the browser tests need playwright")

from playwright.sync_api import expect

from tests.browser.conftest import CELL_LIMIT_MS, DRAWN, SCREENSHOTS, OpenNotebook, restored, write
from tests.browser.server import ROOT
from tests.committed import needs

nbformat = pytest.importorskip("nbformat", reason="the browser tests need nbformat")
needs("sklearn", "matplotlib")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
NOTEBOOK = "03_kernel.ipynb"
PRESSED_AGAIN_MS = 5_000
LOGO_IS_DRAWN = "image => image.decode().then(() => image.naturalWidth > 0, () => false)"  # it may still load
INSERT = """source => {
    const app = window.jupyterapp, cells = app.shell.currentWidget.content;
    app.commands.execute('notebook:insert-cell-below');
    cells.activeCell.model.sharedModel.setSource(source);
    return cells.activeCellIndex;
}"""
CURSOR_TO_END = """() => {
    const app = window.jupyterapp, cells = app.shell.currentWidget.content;
    cells.mode = 'edit';
    const editor = cells.activeCell.editor, lines = editor.lineCount;
    editor.setCursorPosition({line: lines - 1, column: editor.getLine(lines - 1).length});
    editor.focus();
    return 1;
}"""
CLOSE_ALL = """() => {
    const app = window.jupyterapp;
    for (const each of [...app.shell.widgets('main')])
        each.dispose();
    return app.commands.execute('launcher:create').then(() => 1);
}"""
COMMAND = "name => { window.jupyterapp.commands.execute(name); return 1; }"
READY = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.ready.then(() => 1)"


@pytest.fixture(autouse=True)
def wide(page: Page) -> Iterator[None]:
    """A window in which a notebook has room beside nothing else."""
    page.set_viewport_size({"width": 1100, "height": 900})
    yield
    page.set_viewport_size({"width": 900, "height": 460})


@pytest.fixture
def tour(lab_folder: Path, lab_address: str, page: Page) -> OpenNotebook:
    """The notebook, open, none of its cells executed."""
    notebook = nbformat.read(ROOT / "notebooks" / NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    nbformat.write(notebook, lab_folder / "notebooks" / NOTEBOOK)
    return OpenNotebook(page, lab_address, NOTEBOOK)


@pytest.fixture
def begun(lab_folder: Path, lab_address: str, page: Page, places: dict[str, int]) -> OpenNotebook:
    """A notebook of the kernel's, of one cell that was executed: the other's 28 take a second to draw."""
    write(lab_folder / "notebooks" / "begun.ipynb", [next(iter(places))], "disco")
    lab = OpenNotebook(page, lab_address, "begun.ipynb")
    lab.run(0)
    return lab


@pytest.fixture(scope="module")
def places() -> dict[str, int]:
    """The beginning of a cell's source -> where it stands."""
    cells = nbformat.read(ROOT / "notebooks" / NOTEBOOK, as_version=4).cells
    return {cell.source: index for index, cell in enumerate(cells) if cell.cell_type == "code"}


def whole_window(page: Page, path: Path) -> None:
    """Save it as it looks now, if pictures are wanted."""
    if SCREENSHOTS:
        page.screenshot(path=path)


def index_of(places: dict[str, int], part: str) -> int:
    (found,) = (index for source, index in places.items() if part in source)
    return found


def add(lab: OpenNotebook, source: str) -> int:
    """A new cell below the active one."""
    return int(lab.page.evaluate(INSERT, source))


def asked(lab: OpenNotebook) -> Locator:
    """The line in which the kernel asks for something."""
    return lab.page.locator(".jp-Stdin-input")


def answer(lab: OpenNotebook, text: str) -> None:
    box = asked(lab).last
    box.wait_for(timeout=CELL_LIMIT_MS)
    this = box.element_handle()
    box.fill(text)
    box.press("Enter")
    # JupyterLab takes it away when it has been answered; what is typed into it until then is lost.
    lab.page.wait_for_function("box => !box.isConnected", arg=this, timeout=CELL_LIMIT_MS)


def until_prompt(lab: OpenNotebook, index: int) -> None:
    prompt = lab.cell(index).locator(".jp-InputPrompt")
    expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=CELL_LIMIT_MS)
    lab.page.evaluate(DRAWN)


def told_by(lab: OpenNotebook, source: str, key: str, place: str) -> str:
    """What JupyterLab shows in `place` when `key` is pressed at the end of a new cell."""
    from playwright.sync_api import TimeoutError as TookTooLong

    add(lab, source)
    shown = lab.page.locator(place)
    for left in reversed(range(CELL_LIMIT_MS // PRESSED_AGAIN_MS)):
        lab.page.evaluate(CURSOR_TO_END)
        lab.page.keyboard.press(key)
        try:
            shown.wait_for(timeout=PRESSED_AGAIN_MS)
            break
        except TookTooLong:  # JupyterLab drops an answer that takes more than a second
            if not left:
                raise
    return shown.inner_text()


def to_launcher(page: Page, address: str) -> None:
    """Nothing else is open; JupyterLab is loaded if it was not."""
    if page.url.startswith(f"{address}/lab"):
        page.evaluate(CLOSE_ALL)
    else:
        page.goto(f"{address}/lab?reset")
        restored(page)


def test_the_launcher_has_the_kernel_with_its_logo_and_its_cells_run_on_all_workers(
    lab_address: str, page: Page, pictures: Path
) -> None:
    to_launcher(page, lab_address)
    card = page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text="Disco (SPMD)")
    card.wait_for(timeout=CELL_LIMIT_MS)
    assert card.locator("img").evaluate(LOGO_IS_DRAWN)
    whole_window(page, pictures / "launcher.png")

    card.click()
    page.locator(".jp-NotebookPanel").wait_for(timeout=CELL_LIMIT_MS)
    lab = OpenNotebook.__new__(OpenNotebook)
    lab.page = page
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(
        state="attached", timeout=CELL_LIMIT_MS
    )
    page.evaluate(READY)
    index = add(lab, "x = worker_id\nallreduce(x)")

    assert lab.run(index).splitlines()[-1] == "[0-3] 6"
    name = page.locator(".jp-NotebookPanel .jp-KernelName, .jp-Toolbar-kernelName").first
    expect(name).to_contain_text("Disco (SPMD)")
    lab.picture(pictures / "picked.png")


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    tour: OpenNotebook, places: dict[str, int], pictures: Path
) -> None:
    shown = {source: tour.run(index) for source, index in places.items()}

    values = {source.split("\n")[0]: text for source, text in shown.items()}
    assert "[0-3] 15.0" in values['print(f"worker {worker_id} of {num_workers}")']
    failing = next(text for source, text in shown.items() if source.startswith("sample = 420 + 10"))
    assert "IndexError" in failing
    assert "[0-2] PlaneAborted" in failing
    assert [text for text in shown.values() if "Traceback" in text] == [failing]
    tour.picture(pictures / "kernel_tour_end.png")
    figures = index_of(places, "plt.scatter")
    expect(tour.cell(figures).locator("img")).to_have_count(4)
    tour.cell(figures).scroll_into_view_if_needed()
    tour.picture(pictures / "kernel_tour_figures.png")


def test_tab_and_shift_tab_show_what_the_workers_have(
    begun: OpenNotebook, page: Page, pictures: Path
) -> None:
    index = add(begun, "weights = np.ones((2 + worker_id, 4))\nweigh = worker_id")
    begun.run(index)
    text = told_by(begun, "weig", "Tab", ".jp-Completer")
    assert "weights" in text
    assert "weigh" in text
    whole_window(page, pictures / "kernel_completion.png")
    page.keyboard.press("Escape")

    told = told_by(begun, "weights", "Shift+Tab", ".jp-Tooltip")
    for rows in (2, 3, 4, 5):
        assert f"float64 {rows}\N{MULTIPLICATION SIGN}4" in told
    whole_window(page, pictures / "kernel_inspection.png")
    page.keyboard.press("Escape")


def test_a_running_cell_keeps_neither_tab_nor_shift_tab_nor_a_page_that_is_loaded_anew(
    begun: OpenNotebook, page: Page, pictures: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    begun.run(
        add(begun, f"import os, threading\ngate = {str(gate)!r}\nweights = np.ones((2 + worker_id, 4))")
    )
    assert "weights" in told_by(begun, "weig", "Tab", ".jp-Completer")
    page.keyboard.press("Escape")
    # Beside workers that keep a processor busy: tests/kernel/test_answering.py.
    waiting = "while not os.path.exists(gate):\n    threading.Event().wait(0.01)\nprint('at', 'last')"
    index = add(begun, waiting)
    begun.begin(index)
    busy = page.locator('.jp-Notebook-ExecutionIndicator[data-status="busy"]')
    busy.wait_for(state="attached", timeout=CELL_LIMIT_MS)

    assert "weights" in told_by(begun, "weig", "Tab", ".jp-Completer")
    whole_window(page, pictures / "kernel_busy_completion.png")
    page.keyboard.press("Escape")
    assert "float64 5\N{MULTIPLICATION SIGN}4" in told_by(begun, "weights", "Shift+Tab", ".jp-Tooltip")
    page.keyboard.press("Escape")
    expect(busy).to_have_count(1)
    assert begun.is_running(index)

    page.evaluate(COMMAND, "docmanager:save")
    page.reload()
    restored(page)
    page.evaluate(READY)
    assert "weights" in told_by(begun, "weig", "Tab", ".jp-Completer")
    page.keyboard.press("Escape")
    gate.touch()
    assert begun.run(add(begun, "worker_id < 4")) == "[0-3] True"


def test_the_stop_button_ends_a_cell_and_the_registers_stay(
    begun: OpenNotebook, page: Page, pictures: Path
) -> None:
    kept = add(begun, "kept = worker_id")
    begun.run(kept)
    index = add(begun, "print('on my way')\nwhile True:\n    pass")
    begun.begin(index)
    page.wait_for_function(
        # Four lines, and the source.
        "index => document.querySelectorAll('.jp-Notebook .jp-Cell')[index].innerText"
        ".split('on my way').length === 6",
        arg=index,
        timeout=CELL_LIMIT_MS,
    )
    page.evaluate(COMMAND, "notebook:interrupt-kernel")
    until_prompt(begun, index)
    assert "KeyboardInterrupt" in begun.text(index)
    begun.picture(pictures / "kernel_interrupt.png")
    after = add(begun, "kept")
    assert begun.run(after).splitlines() == ["[0] 0", "[1] 1", "[2] 2", "[3] 3"]


def test_a_restart_gives_new_workers(begun: OpenNotebook, page: Page) -> None:
    index = add(begun, "old = 1")
    begun.run(index)
    page.evaluate(COMMAND, "kernelmenu:restart")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    page.locator(".jp-Dialog").wait_for(state="detached", timeout=CELL_LIMIT_MS)
    page.evaluate(READY)
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(
        state="attached", timeout=CELL_LIMIT_MS
    )
    gone = add(begun, "old")
    shown = begun.run(gone)
    assert "Disco session 1" in shown  # counted from the start again
    assert "NameError" in shown


def test_post_mortem_debugging_stands_in_the_line_and_the_variables_of_the_worker_that_failed(
    begun: OpenNotebook, page: Page, pictures: Path
) -> None:
    index = add(
        begun, "rows = np.arange(6.0)[: 6 - worker_id]\n\ndef last(n):\n    return rows[n]\n\nlast(4)"
    )
    assert "IndexError" in begun.run(index)
    index = add(begun, "%disco debug")
    begun.begin(index)
    answer(begun, "p worker_id, len(rows), n")
    answer(begun, "up")
    page.wait_for_function("() => document.body.innerText.includes('(2, 4, 4)')", timeout=CELL_LIMIT_MS)
    begun.picture(pictures / "kernel_debug.png")
    answer(begun, "q")
    until_prompt(begun, index)
    assert "----> 6 last(4)" in re.sub(r"\s+", " ", begun.text(index)).replace("---> ", "---> ")
    again = add(begun, "len(rows)")
    assert begun.run(again).splitlines()[0] == "[0] 6"
