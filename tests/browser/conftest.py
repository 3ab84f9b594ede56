"""A JupyterLab of our own with notebooks open in a real browser; skips where something it needs is missing.

What this relies on, found by trying: JupyterLab's own commands run a cell reliably, keys sent right after
"idle" get lost; a cell's prompt says when it ended, the kernel's indicator may say idle before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from disco_magic.notebook import kernelspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page

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
ROOT = Path(__file__).parents[2]
START_LIMIT_S = 60
CELL_LIMIT_MS = 60_000
OPTIONS = (
    "--no-browser",
    "--allow-root",
    "--ip=127.0.0.1",
    # Other tests look for ports in the same moment: the server takes another one then, and says which.
    "--ServerApp.port_retries=50",
    "--KernelManager.transport=ipc",
    "--IdentityProvider.token=",
    "--ServerApp.password=",
    "--expose-app-in-browser",
    "--LabApp.extension_manager=readonly",
    "--LabApp.news_url=",
    "--JupyterNotebookApp.expose_app_in_browser=True",
)
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
RUN_CELL = """index => {
    const app = window.jupyterapp, cells = app.shell.currentWidget.content;
    cells.deselectAll();
    cells.activeCellIndex = index;
    app.commands.execute('notebook:run-cell');
    return 1;
}"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(folder: Path, sockets: str) -> dict[str, str]:
    """The caller's environment with every place where Jupyter keeps settings moved into `folder`.

    That of the kernels' sockets is another one: their paths must be short.
    """
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
    names += ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")
    places = {name: str(folder / name.lower()) for name in names}
    places["JUPYTER_PATH"] = str(folder / "prefix" / "share" / "jupyter")
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, **places, "JUPYTER_RUNTIME_DIR": sockets, "PYTHONPATH": path}


def _write_settings(folder: Path) -> None:
    """Answer beforehand what JupyterLab would ask in a box over the notebook."""
    settings = folder / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')


@contextmanager
def lab_server(folder: Path) -> Iterator[str]:
    """JupyterLab over the notebooks in `folder/notebooks`; gives its address."""
    (folder / "notebooks").mkdir(parents=True)
    kernelspec.install(prefix=str(folder / "prefix"))
    _write_settings(folder)
    command = [sys.executable, "-m", "jupyterlab", *OPTIONS, f"--port={_free_port()}"]
    command.append(f"--ServerApp.root_dir={folder / 'notebooks'}")
    with TemporaryDirectory() as sockets, (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(  # noqa: S603 - our own command
            command, env=_environment(folder, sockets), stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield _answering(server, Path(sockets), folder / "server.log")
        finally:
            os.killpg(server.pid, signal.SIGTERM)  # the kernels are in the server's process group
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def _answering(server: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """The server's address, once it answers there."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(START_LIMIT_S * 5):
        try:
            told = json.loads((runtime / f"jpserver-{server.pid}.json").read_text())
            address = f"http://127.0.0.1:{told['port']}"
            with direct.open(f"{address}/api/status", timeout=START_LIMIT_S):
                return address
        # It has not written that, or not all of it; waiting for its end is the pause between two questions.
        except (FileNotFoundError, json.JSONDecodeError, urllib.error.URLError, ConnectionError):
            try:
                server.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            break
    message = f"JupyterLab did not start:\n{log.read_text(errors='replace')[-4000:]}"
    raise RuntimeError(message)


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

        prompt = self.cell(index).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=CELL_LIMIT_MS)
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

    def picture(self, path: Path) -> None:
        """Save the notebook's panel as it looks now."""
        self.page.mouse.move(0, 0)
        self.page.locator(".jp-NotebookPanel").screenshot(path=path)


def _write(path: Path, sources: list[str]) -> None:
    import nbformat

    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    }
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)


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
def lab_folder(browser_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this module's server keeps its notebooks and settings."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def lab_address(lab_folder: Path) -> Iterator[str]:
    """A JupyterLab of this module's own."""
    with lab_server(lab_folder) as address:
        yield address


@pytest.fixture(scope="module")
def page(browser_path: str) -> Iterator[Page]:
    """One tab. Closed with the module: while playwright runs, its event loop would be in other tests' way."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, headless=True, args=FLAGS)
        yield browser.new_page(viewport={"width": 900, "height": 460}, device_scale_factor=1.5)
        browser.close()


@pytest.fixture
def tall(page: Page) -> Iterator[None]:
    """A window in which a whole inspector has room."""
    page.set_viewport_size({"width": 1150, "height": 1150})
    yield
    page.set_viewport_size({"width": 900, "height": 460})


@pytest.fixture
def open_notebook(lab_folder: Path, lab_address: str, page: Page) -> Callable[[str, list[str]], OpenNotebook]:
    """Give `open_notebook(name, sources)`: a notebook of these code cells, open in JupyterLab."""

    def open_one(name: str, sources: list[str], place: str = "lab/tree") -> OpenNotebook:
        _write(lab_folder / "notebooks" / name, sources)
        return OpenNotebook(page, lab_address, name, place)

    return open_one


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go: `$DISCO_SCREENSHOTS`, or a folder that nobody keeps."""
    folder = Path(os.environ.get("DISCO_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
