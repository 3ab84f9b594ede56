"""A JupyterLab of our own with notebooks open in a real browser; skips where something it needs is missing.

What this relies on, found by trying: JupyterLab's own commands run a cell reliably, keys sent right after
"idle" get lost; a cell's prompt says when it ended, the kernel's indicator may say idle before.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.browser.server import end_kernels, lab_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page, ViewportSize

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Nothing that a headless browser would fetch by itself, and no sandbox: a container's root has none.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CELL_LIMIT_MS = 60_000
SCREENSHOTS = os.environ.get("DISCO_SCREENSHOTS")
VIEWPORT: ViewportSize = {"width": 900, "height": 460}
RESTORED = "() => window.jupyterapp.restored.then(() => 1)"
CONTEXT_READY = "() => window.jupyterapp.shell.currentWidget.context.sessionContext.ready.then(() => 1)"
SHOW_IN = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme}).then(() => 1)"
COLLAPSE_LEFT = "() => { window.jupyterapp.shell.collapseLeft?.(); return 1; }"
# Within the page that is there: to load JupyterLab anew takes five seconds of a processor.
OPEN_NEXT = """async path => {
    const app = window.jupyterapp;
    for (const each of [...app.shell.widgets('main')])
        each.dispose();
    const opened = await app.commands.execute('docmanager:open', {path});
    await opened.context.ready;
    return 1;
}"""
IS_OPEN = "name => window.jupyterapp?.shell.currentWidget?.context?.path === name"
# What has come is drawn in a frame or two.
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
RUN_CELL = """index => {
    const app = window.jupyterapp, cells = app.shell.currentWidget.content;
    cells.deselectAll();
    cells.activeCellIndex = index;
    const ended = window.disco_ended ??= {};
    ended[index] = false;
    app.commands.execute('notebook:run-cell').finally(() => { ended[index] = true; });
    return 1;
}"""
# Of a cell that was run before, the prompt has a number until it is begun again: that says nothing.
HAS_ENDED = "index => window.disco_ended[index]"


def restored(page: Page) -> None:
    """Wait until a page that was just opened is one to work with."""
    # First that there is one: before its code has run there is no splash either.
    page.wait_for_function("() => window.jupyterapp !== undefined", timeout=CELL_LIMIT_MS)
    page.locator("#jupyterlab-splash").wait_for(state="detached", timeout=CELL_LIMIT_MS)
    page.evaluate(RESTORED)


class OpenNotebook:
    """A notebook that a person has open in JupyterLab, or in Notebook 7."""

    def __init__(self, page: Page, address: str, name: str, place: str = "lab/tree") -> None:
        self.page = page
        if place == "lab/tree" and page.url.startswith(f"{address}/lab"):
            page.evaluate(OPEN_NEXT, name)
        else:
            page.goto(f"{address}/{place}/{name}?reset")
            restored(page)
        # Attached, not visible: a toolbar that was measured too narrow hides it in a menu.
        idle = page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
        idle.wait_for(state="attached", timeout=CELL_LIMIT_MS)
        page.evaluate(CONTEXT_READY)
        page.evaluate(COLLAPSE_LEFT)

    def cell(self, index: int) -> Locator:
        """The cell at `index`; 0 is the first."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def run(self, index: int) -> str:
        """Run that code cell, wait until it ended, and give the text of its outputs."""
        self.begin(index)
        from playwright.sync_api import expect

        self.page.wait_for_function(HAS_ENDED, arg=index, timeout=CELL_LIMIT_MS)
        prompt = self.cell(index).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=CELL_LIMIT_MS)
        self.page.evaluate(DRAWN)
        return self.text(index)

    def begin(self, index: int) -> None:
        """Run that code cell and do not wait for it."""
        self.page.evaluate(RUN_CELL, index)

    def is_running(self, index: int) -> bool:
        """Whether that cell was begun and has not ended."""
        return self.cell(index).locator(".jp-InputPrompt").inner_text() == "[*]:"

    def text(self, index: int) -> str:
        """The text of the cell's outputs as it stands on the screen."""
        return "\n".join(self.cell(index).locator(".jp-OutputArea-output").all_inner_texts())

    def show_in(self, theme: str) -> None:
        """Change the colours of the whole page; it keeps them when it is loaded anew."""
        self.page.evaluate(SHOW_IN, theme)
        self.page.locator(f'body[data-jp-theme-name="{theme}"]').wait_for(
            state="attached", timeout=CELL_LIMIT_MS
        )

    def comes_to(self, element: Locator, condition: str) -> None:
        """Wait until a condition holds of it, ``each => each.scrollWidth > 0``.

        A size that is read once may be that of before: JupyterLab lays a page out some time after its window
        or what is in it has changed.
        """
        self.page.wait_for_function(condition, arg=element.element_handle(), timeout=CELL_LIMIT_MS)

    def picture(self, path: Path) -> None:
        """Save the notebook's panel as it looks now, if pictures are wanted."""
        self.page.mouse.move(0, 0)
        if SCREENSHOTS:
            self.page.locator(".jp-NotebookPanel").screenshot(path=path)


def write(path: Path, sources: list[str], kernel: str = "python3") -> None:
    """A notebook of these code cells, for that kernel."""
    import nbformat

    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    metadata = {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)


class Shared:
    """A JupyterLab and a tab for all files of a process: to start them takes longer than most tests."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._lab: tuple[Path, str] | None = None
        self._page: Page | None = None

    def lab(self) -> tuple[Path, str]:
        """Where the server keeps its notebooks and settings, and its address."""
        if self._lab is None:
            folder = Path(self._open.enter_context(TemporaryDirectory(prefix="disco-lab-")))
            self._lab = folder, self._open.enter_context(lab_server(folder))
        return self._lab

    def page(self, browser_path: str) -> Page:
        """The tab."""
        from playwright.sync_api import expect, sync_playwright

        if self._page is None:
            expect.set_options(timeout=CELL_LIMIT_MS)  # instead of five seconds: other tests run meanwhile
            driver = self._open.enter_context(sync_playwright())
            browser = driver.chromium.launch(executable_path=browser_path, headless=True, args=FLAGS)
            self._open.callback(browser.close)
            scale = 1.5 if SCREENSHOTS else 1
            context = browser.new_context(
                viewport=VIEWPORT, device_scale_factor=scale
            )  # has room for more tabs
            self._page = context.new_page()
        return self._page

    def close(self) -> None:
        """End both; they start again when they are wanted again."""
        self._lab = self._page = None
        self._open.close()


SHARED = Shared()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Leave nothing to other files: while playwright runs, its event loop would be in their tests' way."""
    try:
        yield
    finally:
        if nextitem is None or nextitem.path.parent != item.path.parent:
            SHARED.close()


@pytest.fixture(scope="module")
def browser_path() -> str:
    """The installed browser; without one (or without playwright or JupyterLab) these tests are skipped."""
    for package in ("playwright", "jupyterlab", "nbformat"):
        pytest.importorskip(
            package, reason=f"the browser tests need {package}: pip install 'disco-magic[test]'"
        )
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"the browser tests need one of {', '.join(BROWSERS)}: apt-get install chromium")
    return found


@pytest.fixture(scope="module")
def lab_folder(browser_path: str) -> Path:
    """Where the server keeps its notebooks and settings."""
    return SHARED.lab()[0]


@pytest.fixture(scope="module")
def lab_address(browser_path: str) -> Iterator[str]:
    """A JupyterLab without kernels."""
    address = SHARED.lab()[1]
    yield address
    end_kernels(address)


@pytest.fixture(scope="module")
def page(browser_path: str) -> Page:
    """The tab, as it was opened."""
    page = SHARED.page(browser_path)
    page.set_viewport_size(VIEWPORT)
    return page


@pytest.fixture
def tall(page: Page) -> Iterator[None]:
    """A window in which a whole inspector has room."""
    page.set_viewport_size({"width": 1150, "height": 1150})
    yield
    page.set_viewport_size(VIEWPORT)


@pytest.fixture
def open_notebook(
    lab_folder: Path, lab_address: str, page: Page
) -> Iterator[Callable[[str, list[str]], OpenNotebook]]:
    """Give `open_notebook(name, sources)`: a notebook of these code cells, open in JupyterLab.

    What is not JupyterLab gets a tab for the test, and JupyterLab need not be loaded anew for the next one.
    """
    with ExitStack() as tabs:

        def open_one(name: str, sources: list[str], place: str = "lab/tree") -> OpenNotebook:
            write(lab_folder / "notebooks" / name, sources)
            tab = page
            if place != "lab/tree":
                tab = page.context.new_page()
                tabs.callback(tab.close)
                tab.set_viewport_size(page.viewport_size or VIEWPORT)
            return OpenNotebook(tab, lab_address, name, place)

        yield open_one


@pytest.fixture
def begun_notebook(
    open_notebook: Callable[[str, list[str]], OpenNotebook], page: Page
) -> Callable[[str, list[str]], OpenNotebook]:
    """Give `begun_notebook(name, sources)`: an open notebook of which the first cell was executed.

    If the test before had the same one, it goes on with that and its kernel: to open a notebook, start its
    kernel and draw what they show takes five seconds of a processor. Each executes cells of its own.
    """

    def begin_one(name: str, sources: list[str]) -> OpenNotebook:
        if page.evaluate(IS_OPEN, name):
            there = OpenNotebook.__new__(OpenNotebook)
            there.page = page
            return there
        lab = open_notebook(name, sources)
        lab.run(0)
        return lab

    return begin_one


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go, which are made if `$DISCO_SCREENSHOTS` names a folder."""
    folder = Path(SCREENSHOTS or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
