"""Pages whose output is recorded."""

from __future__ import annotations

import pytest

from disco_magic.notebook.output.arrange import ARRANGEMENTS
from disco_magic.notebook.output.kept import KeptPage
from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.sink import Sink
from tests.clocks import Clock
from tests.notebook.output.pages import Notebook


@pytest.fixture
def notebook(monkeypatch, onto):
    """``notebook(mode)`` gives a page of two workers in a notebook that somebody watches, and their sinks."""
    monkeypatch.setenv("NO_COLOR", "1")
    clock, kernel = Clock(), Notebook()

    def begin(mode="live", shown=(0, 1)):
        with onto(*kernel.streams):
            if mode == "live":
                page = Page(range(2), shown, kernel, clock)
                page.area.wait()
            else:
                page = KeptPage(range(2), shown, kernel, arrange=ARRANGEMENTS[mode])
        return page, [Sink(worker, page) for worker in range(2)]

    begin.clock, begin.log, begin.seen, begin.kernel = clock, kernel.log, kernel.seen, kernel
    return begin
