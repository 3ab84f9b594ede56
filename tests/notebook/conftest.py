"""A real IPython shell in this process, and a real kernel in another; pages and sinks of their own."""

from __future__ import annotations

import gc
import io
import re
import sys
import time
from contextlib import contextmanager
from itertools import count
from zlib import crc32

import pytest

from disco_magic.notebook.output.arrange import ARRANGEMENTS
from disco_magic.notebook.output.footer import Footer
from disco_magic.notebook.output.kept import KeptPage
from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.sink import Sink
from tests.covered import unmeasured
from tests.kernels import LOAD_SILENT, Kernel
from tests.notebook.completing.offering import either, offered  # noqa: F401 - fixtures
from tests.notebook.frames import pandas  # noqa: F401 - a fixture
from tests.sampled import EVERY_CASE

CREWS = (3, 2, 1)


@pytest.fixture(scope="module")
def kernel():
    running = Kernel()
    try:
        running.ok(LOAD_SILENT)
        yield running
    finally:
        running.close()


@pytest.fixture
def fresh(kernel):
    """The module's kernel with a new session of four workers."""
    kernel.ok("%unload_ext disco_magic")
    kernel.ok(LOAD_SILENT)
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
        with unmeasured():
            self.ip = InteractiveShell(config=config)
        self.out = self.err = ""

    def run(self, code):
        """The cell's value; raises what it raised."""
        self._capsys.readouterr()
        result = self.ip.run_cell(code, store_history=True)
        self.out, self.err = self._capsys.readouterr()
        result.raise_error()
        return result.result

    def read(self):
        """What was printed since the last cell, or the last call of this."""
        return "".join(self._capsys.readouterr())

    def fail(self, code, kind=BaseException):
        """The error of a cell that must fail."""
        with pytest.raises(kind) as caught:
            self.run(code)
        return caught.value

    def keep_silent(self):
        """On a busy machine any cell may take a second, and would say so among its lines."""
        self.ip.magics_manager.magics["line"]["disco"].__self__.progress_after = None

    @property
    def shown(self):
        """What the last cell printed, without blank lines, and below it its error."""
        return [line for line in (self.out + self.err).splitlines() if line]

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
    with monkeypatch.context() as patch:
        # IPython would look at all that the file's tests have imported: up to 80 ms, and the test 10.
        patch.setattr(gc, "collect", lambda: 0)
        shell.ip.atexit_operations()
    for name in set(vars(builtins)) - set(saved[0]):
        delattr(builtins, name)
    sys.modules["__main__"] = saved[1]["__main__"]


@pytest.fixture
def shell(bare):
    """A shell with the extension and no session."""
    bare.run("%load_ext disco_magic")
    return bare


def pytest_generate_tests(metafunc):
    """What a notebook shows seldom depends on how many workers there are: neighbours have different ones.

    None has one worker alone, with which workers that ask one after the other, say, could not fail.
    """
    if "crew" in metafunc.fixturenames:
        chosen = CREWS[crc32(metafunc.function.__name__.encode()) % len(CREWS)]
        some = [chosen] if chosen > 1 else [1, max(CREWS)]
        metafunc.parametrize("crew", CREWS if EVERY_CASE else some, indirect=True)


@pytest.fixture
def crew(shell, request):
    """A shell with a session of 1, 2 or 3 workers, whose cells may take long."""
    shell.keep_silent()
    shell.run(f"%disco start -n {request.param}")
    shell.n = request.param
    return shell


@pytest.fixture
def four(shell):
    """A shell with a session of four workers, whose cells may take long."""
    shell.keep_silent()
    shell.run("%disco start -n 4")
    return shell


class Terminal(io.StringIO):
    """A stream that shows colours and understands carriage returns and what moves the cursor up.

    Its lines are 80 columns long.
    """

    def isatty(self):
        return True

    @property
    def screen(self):
        """The lines as they are to be seen now."""
        lines, row, column = [""], 0, 0
        text = re.sub(r"\x1b\[[\d;]*m", "", self.getvalue())
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
            for each in piece:
                if column == 80:  # as in a terminal, not before there is more
                    row, column = row + 1, 0
                    lines += [""] * (row == len(lines))
                lines[row] = lines[row][:column].ljust(column) + each + lines[row][column + 1 :]
                column += 1
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
    monkeypatch.setattr("disco_magic.notebook.output.outlet.FOOTER", footer)
    monkeypatch.setattr("disco_magic.notebook.output.screens.FOOTER", footer)
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
        page = KeptPage(range(count), range(count), arrange=ARRANGEMENTS[mode])
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


@pytest.fixture
def program(tmp_path):
    """A file that is to be run, with a module ``beside`` beside it."""
    (tmp_path / "beside.py").write_text("TWO = 2\n")
    yield tmp_path / "program.py"
    sys.modules.pop("beside", None)
