"""The stop button as a cell on the workers begins and ends: it is heard, and nothing is left running."""

from __future__ import annotations

import signal

import pytest

from disco_magic.notebook import execution
from disco_magic.session.current import session
from tests.conftest import until

STRUCK = "Cell In[{}] was interrupted as it {}"


def strike():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("cell", ["%%disco\nworker_id", "%%disco --out kept\nworker_id"])
def test_a_stop_while_the_result_is_bound_is_heard(crew, monkeypatch, cell):
    bind = execution._Sending.bind

    def struck(*args):
        strike()
        bind(*args)

    monkeypatch.setattr(execution._Sending, "bind", struck)
    error = crew.fail(cell, KeyboardInterrupt)
    assert str(error) == STRUCK.format(crew.ip.execution_count - 1, "ended")
    monkeypatch.undo()
    assert crew.run("%%disco\nworker_id").values == list(range(crew.n))


def test_a_stop_while_a_cell_of_later_is_sent_stops_that_cell(crew, monkeypatch):
    class Struck(execution.CellHandle):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            strike()

    monkeypatch.setattr(execution, "CellHandle", Struck)
    error = crew.fail("%%disco --nowait\nwhile True:\n    pass", KeyboardInterrupt)
    assert str(error) == STRUCK.format(crew.ip.execution_count - 1, "was sent")
    monkeypatch.undo()
    until(lambda: session().doctor().sentence == "all workers are idle")
    assert crew.run("%%disco\nworker_id").values == list(range(crew.n))
