"""The row about logging: workers need no configuration of their own. Process workers are not there yet."""

from __future__ import annotations

import logging

import pytest

from tests.surface.conftest import who


class Kept(logging.Handler):
    """Keeps records, and what they say."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.seen.append((record.disco_worker, record.levelname, self.format(record)))


@pytest.fixture
def kept():
    """What the logger `surface` is given, at level INFO, by a handler of the controller."""
    handler, logger = Kept(), logging.getLogger("surface")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield handler.seen
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


def report():
    log = logging.getLogger("surface")
    log.debug("not shown")
    log.warning("at step %d", 10 * who())


def test_logging_of_the_controller_reaches_the_workers(session, kept):
    s = session(3)
    s.call_packed(report)
    s.sync_all()
    assert sorted(kept) == [(worker, "WARNING", f"[{worker}] at step {10 * worker}") for worker in range(3)]


def test_logging_that_is_changed_later_reaches_the_workers_too(session, kept):
    s = session(2)
    s.call_packed(report)
    s.sync_all()
    logging.getLogger("surface").setLevel(logging.ERROR)
    s.call_packed(report)
    s.sync_all()
    assert len(kept) == 2


def test_logging_outside_of_workers_names_none(session, kept):
    session(2)
    logging.getLogger("surface").warning("here")
    assert kept == [(None, "WARNING", "here")]
