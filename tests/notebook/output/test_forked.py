"""Processes that cells fork, as those of a DataLoader are: they end, and what they print is seen."""

from __future__ import annotations

import os
import threading

import pytest

from disco_magic.notebook.output.streams import current_sink
from tests.conftest import DEADLINE_S

FORKS = """
import multiprocessing, warnings
warnings.simplefilter("ignore")
process = multiprocessing.get_context("fork").Process(target=print, args=("in the child",))
process.start()
process.join(20)
process.exitcode
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
def test_they_end_though_another_thread_was_just_writing(four, monkeypatch):
    # The child waited, as it flushed its streams, for a lock whose thread it did not have: an epoch of a
    # DataLoader took five seconds now and then.
    first = os.fork

    def fork():
        held, done = threading.Event(), threading.Event()

        def hold(lock):
            with lock:
                held.set()
                done.wait(DEADLINE_S)

        thread = threading.Thread(target=hold, args=(current_sink.get()._page.lock,))
        thread.start()
        held.wait(DEADLINE_S)
        number = first()
        if number:
            done.set()
            thread.join()
        return number

    monkeypatch.setattr(os, "fork", fork)
    assert four.run(f"%%disco -w 1{FORKS}").values == [0]
