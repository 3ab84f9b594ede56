"""A JupyterLab of our own on this machine, with settings and kernels apart from the user's."""

from __future__ import annotations

import json
import os
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

from disco_magic.notebook import kernelspec
from tests.kernels import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 60
OPTIONS = (
    "--no-browser",
    "--allow-root",
    "--ip=127.0.0.1",
    # Other tests look for ports in the same moment: the server takes another one then, and says which.
    "--ServerApp.port_retries=50",
    "--KernelManager.transport=ipc",
    "--IdentityProvider.token=",
    "--ServerApp.password=",
    "--ServerApp.disable_check_xsrf=True",  # of what tests ask it beside a browser
    "--expose-app-in-browser",
    "--LabApp.extension_manager=readonly",
    "--LabApp.news_url=",
    "--JupyterNotebookApp.expose_app_in_browser=True",
)

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy the machine has


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
    path = os.pathsep.join(filter(None, (str(ROOT), ABSENT, os.environ.get("PYTHONPATH"))))
    return {**os.environ, **places, "JUPYTER_RUNTIME_DIR": sockets, "PYTHONPATH": path}


def _write_settings(folder: Path) -> None:
    """Answer beforehand what JupyterLab would ask in a box over the notebook.

    Nor need it look whether it has to be built anew: for that, node starts three times.
    """
    page = folder / "jupyter_config_dir" / "labconfig"
    page.mkdir(parents=True)
    (page / "page_config.json").write_text('{"buildAvailable": false, "buildCheck": false}')
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
    for _ in range(START_LIMIT_S * 5):
        try:
            told = json.loads((runtime / f"jpserver-{server.pid}.json").read_text())
            address = f"http://127.0.0.1:{told['port']}"
            with _DIRECT.open(f"{address}/api/status", timeout=START_LIMIT_S):
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


def end_kernels(address: str) -> None:
    """End what a file's notebooks have started: those of the next one may have the same names."""
    api = f"{address}/api/sessions"
    with _DIRECT.open(api, timeout=START_LIMIT_S) as answer:
        running = json.load(answer)
    for each in running:
        request = urllib.request.Request(f"{api}/{each['id']}", method="DELETE")  # noqa: S310 - our own server
        _DIRECT.open(request, timeout=START_LIMIT_S).close()
