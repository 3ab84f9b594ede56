"""A real IPython shell in this process, and a real kernel in another."""

from __future__ import annotations

import io
import os
import re
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from disco_magic.notebook.arrange import ARRANGEMENTS
from disco_magic.notebook.footer import Footer
from disco_magic.notebook.page import KeptPage, Page
from disco_magic.notebook.sink import Sink

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30


@dataclass
class Ran:
    """What one cell gave."""

    status: str
    error: dict
    messages: list[dict] = field(default_factory=list)
    late: list[dict] = field(default_factory=list)

    def text(self, name="stdout"):
        return "".join(m["content"]["text"] for m in self.messages if _is_stream(m, name))

    @property
    def lines(self):
        return self.text().splitlines()

    @property
    def value(self):
        found = [
            m["content"]["data"]["text/plain"] for m in self.messages if m["msg_type"] == "execute_result"
        ]
        return found[-1] if found else None

    @property
    def displays(self):
        return [m["content"] for m in self.messages if m["msg_type"] == "display_data"]

    @property
    def traceback(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(self.error.get("traceback", [])))


def _is_stream(message, name):
    return message["msg_type"] == "stream" and message["content"]["name"] == name


class Kernel:
    """A kernel and its client; every message is kept with the cell it says it belongs to."""

    def __init__(self):
        from jupyter_client.manager import start_new_kernel

        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
            "PYTHONWARNINGS": "ignore",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jupyter_client warns about its own defaults
            self.manager, self.client = start_new_kernel(kernel_name="python3", env=env)

    def send(self, code):
        return self.client.execute(code)

    def until(self, condition):
        """Messages up to the first that fulfils `condition`."""
        messages = []
        while True:
            messages.append(self.client.get_iopub_msg(timeout=PATIENCE_S))
            if condition(messages[-1]):
                return messages

    def until_text(self, cell, text, times=1):
        """Messages up to the moment when the cell's output contains `text` so many times."""
        seen = ""

        def enough(message):
            nonlocal seen
            if message["msg_type"] == "stream" and _parent(message) == cell:
                seen += message["content"]["text"]
            return seen.count(text) >= times

        return self.until(enough)

    def finish(self, cell, before=()):
        """Wait for a cell that was sent."""
        messages = list(before) + self.until(
            lambda m: (
                m["msg_type"] == "status" and m["content"]["execution_state"] == "idle" and _parent(m) == cell
            )
        )
        reply = self._reply(cell)
        mine = [m for m in messages if _parent(m) == cell]
        late = [m for m in messages if _parent(m) != cell and m["msg_type"] != "status"]
        error = reply["content"] if reply["content"]["status"] == "error" else {}
        return Ran(reply["content"]["status"], error, mine, late)

    def _reply(self, cell):
        while True:
            reply = self.client.get_shell_msg(timeout=PATIENCE_S)
            if _parent(reply) == cell:
                return reply

    def run(self, code):
        return self.finish(self.send(code))

    def ok(self, code):
        ran = self.run(code)
        assert ran.status == "ok", ran.traceback or ran.error
        return ran

    def interrupt(self):
        self.manager.interrupt_kernel()

    def answer(self, reply):
        """Answer one input request."""
        self.client.get_stdin_msg(timeout=PATIENCE_S)
        self.client.input(reply)

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


def _parent(message):
    return message["parent_header"].get("msg_id")


@pytest.fixture(scope="module")
def kernel():
    running = Kernel()
    try:
        running.ok("%load_ext disco_magic")
        yield running
    finally:
        running.close()


@pytest.fixture
def fresh(kernel):
    """The module's kernel with a new session of four workers."""
    kernel.ok("%unload_ext disco_magic")
    kernel.ok("%load_ext disco_magic")
    kernel.ok("%disco start -n 4")
    return kernel


class Shell:
    """An IPython shell in this process, not the global one; `run` gives result and texts of one cell."""

    def __init__(self, capsys):
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        self._capsys = capsys
        self.ip = InteractiveShell(config=config)
        self.out = self.err = ""

    def run(self, code):
        """The cell's value; raises what it raised."""
        self._capsys.readouterr()
        result = self.ip.run_cell(code, store_history=True)
        self.out, self.err = self._capsys.readouterr()
        result.raise_error()
        return result.result

    def fail(self, code, kind=BaseException):
        """The error of a cell that must fail."""
        with pytest.raises(kind) as caught:
            self.run(code)
        return caught.value

    @property
    def lines(self):
        return re.sub(r"Out\[\d+\]: \n?", "", self.out).splitlines()


@pytest.fixture
def bare(capsys, monkeypatch):
    """A shell without the extension."""
    import atexit
    import builtins

    saved = dict(vars(builtins)), dict(sys.modules)
    shell = Shell(capsys)
    yield shell
    shell.ip.extension_manager.unload_extension("disco_magic")
    atexit.unregister(shell.ip.atexit_operations)
    shell.ip.atexit_operations()
    for name in set(vars(builtins)) - set(saved[0]):
        delattr(builtins, name)
    sys.modules["__main__"] = saved[1]["__main__"]


@pytest.fixture
def shell(bare):
    """A shell with the extension and no session."""
    bare.run("%load_ext disco_magic")
    return bare


@pytest.fixture(params=[1, 2, 3])
def crew(shell, request):
    """A shell with a session of 1, 2 and 3 workers."""
    shell.run(f"%disco start -n {request.param}")
    shell.n = request.param
    return shell


@pytest.fixture
def four(shell):
    """A shell with a session of four workers."""
    shell.run("%disco start -n 4")
    return shell


class Terminal(io.StringIO):
    """A stream that shows colours and understands carriage returns and what moves the cursor up."""

    def isatty(self):
        return True

    @property
    def screen(self):
        """The lines as they are to be seen now."""
        lines, row, column = [""], 0, 0
        text = re.sub(r"\x1b\[\d*m", "", self.getvalue())
        for move, up, wipe, piece in re.findall(r"([\r\n])|\x1b\[(\d*)A|\x1b\[(J)|([^\r\n\x1b]+)", text):
            if move == "\n":
                row += 1
                lines += [""] * (row == len(lines))
            if move:
                column = 0
            elif up:
                row -= int(up)
            elif wipe:
                lines[row:] = [lines[row][:column]]
            elif piece:
                lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + len(piece) :]
                column += len(piece)
        return lines


@pytest.fixture
def texts():
    """Plain streams for sys.stdout and sys.stderr."""
    return io.StringIO(), io.StringIO()


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 80 columns and 24 lines with a footer of its own."""
    for name, value in {"NO_COLOR": "", "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    footer = Footer(clock=count().__next__)  # a second between two of its looks
    monkeypatch.setattr("disco_magic.notebook.outlet.FOOTER", footer)
    monkeypatch.setattr("disco_magic.notebook.screens.FOOTER", footer)
    return Terminal()


@contextmanager
def _onto(out, err):
    """sys.stdout and sys.stderr for a moment; pytest replaces them between fixture and test."""
    saved = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = saved


def _live(streams, count=2, shown=None, clock=time.monotonic):
    with _onto(*(streams if isinstance(streams, tuple) else (streams, streams))):
        page = Page(range(count), range(count) if shown is None else shown, clock=clock)
    if page.area is not None:
        page.area.wait()
    return page, [Sink(worker, page) for worker in range(count)]


def _kept(streams, mode, count=3):
    with _onto(*streams):
        page = KeptPage(range(count), range(count), ARRANGEMENTS[mode])
    return page, [Sink(worker, page) for worker in range(count)]


@pytest.fixture
def onto():
    return _onto


@pytest.fixture
def live():
    """Makes a page that shows lines at once, and a sink per worker."""
    return _live


@pytest.fixture
def kept():
    """Makes a page that shows lines at the end, and a sink per worker."""
    return _kept
