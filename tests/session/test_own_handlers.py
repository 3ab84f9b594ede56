"""Handlers that a worker has added get its records as they were logged, those of the process with a label."""

from __future__ import annotations

import io
import logging

import numpy as np
import pytest

NAME = "demo.own_handlers"
LOG = f"""
import logging, logging.handlers, queue, sys
log = logging.getLogger({NAME!r})
log.setLevel("INFO")
"""


class Keep(logging.Handler):
    """Keeps who made what it is given, and what that says."""

    def __init__(self):
        super().__init__()
        self.told = []

    def emit(self, record):
        self.told.append((record.disco_worker, self.format(record)))


@pytest.fixture
def log():
    """A logger of the process's, as it was before the test."""
    logger = logging.getLogger(NAME)
    yield logger
    logger.handlers.clear()
    logger.propagate = True


@pytest.fixture
def s(session, log, tmp_path):
    """Three workers who know where to write, and what to keep records with."""
    started = session(3)
    started.put("folder", tmp_path)
    started.run("from tests.session.test_own_handlers import Keep")
    return started


def test_a_worker_s_log_file_has_what_was_logged_and_nothing_else(s, tmp_path):
    s.run(
        LOG + "log.propagate = False\n"
        "log.handlers = [logging.FileHandler(folder / f'{worker_id}.csv', mode='w')]\n"
        "for step in range(2): log.info('%d,%.2f', step, worker_id / 2)\n"
        "log.handlers[0].close()"
    )
    for worker in range(3):
        told = np.loadtxt(tmp_path / f"{worker}.csv", delimiter=",")
        assert told.tolist() == [[0, worker / 2], [1, worker / 2]]


def test_a_worker_s_own_handlers_and_the_process_s_get_it_each_in_their_way(s, log):
    of_process = Keep()
    log.addHandler(of_process)
    s.run(LOG + "own = Keep()\nlog.addHandler(own)\nlog.info('%d of %s', 3, 'four')")
    assert s.run("own.told").values == [[(worker, "3 of four")] for worker in range(3)]
    assert sorted(of_process.told) == [(worker, f"[{worker}] 3 of four") for worker in range(3)]


def test_a_handler_of_the_process_s_that_the_worker_keeps_beside_its_own_is_the_process_s(s, log):
    of_process = Keep()
    log.addHandler(of_process)
    s.run(LOG + "own = Keep()\nlog.handlers = [own, log.handlers[0]]\nlog.info('hello')", workers=[1])
    s.run(LOG + "log.handlers = [own]\nlog.info('alone')", workers=[1])
    assert s.run("own.told", workers=[1]).values == [[(1, "hello"), (1, "alone")]]
    assert of_process.told == [(1, "[1] hello")]


def test_each_handler_minds_its_own_level_and_what_others_set_of_a_record(s, log):
    of_process = Keep()
    of_process.setLevel("ERROR")
    of_process.setFormatter(logging.Formatter("%(message)s of %(rank)d"))
    log.addHandler(of_process)
    s.run(
        LOG + "def rank(record):\n    record.rank = worker_id\n    return True\n"
        "log.addFilter(rank)\n"
        "own = Keep()\nown.setFormatter(logging.Formatter('%(message)s of %(rank)d'))\nlog.addHandler(own)\n"
        "log.info('low'); log.error('high')"
    )
    assert s.run("own.told").values == [[(w, f"low of {w}"), (w, f"high of {w}")] for w in range(3)]
    assert sorted(of_process.told) == [(w, f"[{w}] high of {w}") for w in range(3)]


WAYS = {
    "in memory": (
        "log.addHandler(logging.handlers.MemoryHandler(9, target=own))\n"
        "log.info('hello')\nlog.handlers[0].flush()"
    ),
    "through a queue": (
        "q = queue.SimpleQueue()\nlog.addHandler(logging.handlers.QueueHandler(q))\n"
        "listener = logging.handlers.QueueListener(q, own)\n"
        "listener.start()\nlog.info('hello')\nlistener.stop()"
    ),
    "from a child": (
        "log.addHandler(own)\nchild = logging.getLogger(log.name + '.child')\nchild.info('hello')"
    ),
    "by basicConfig": (
        "logging.root.handlers = []\nlogging.basicConfig(format='%(message)s', handlers=[own])\n"
        "log.propagate = True\nlog.info('hello')"
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_goes_through_a_worker_s_own_handler_arrives_as_it_was_logged(s, way):
    s.run(LOG + "own = Keep()\nlog.propagate = False\n" + way)
    assert s.run("own.told").values == [[(worker, "hello")] for worker in range(3)]


SHOWS = {
    "a handler": "log.handlers = [logging.StreamHandler()]\nlog.propagate = False",
    "on stdout": "log.handlers = [logging.StreamHandler(sys.stdout)]\nlog.propagate = False",
    "by basicConfig": "logging.root.handlers = []\nlogging.basicConfig(format='%(message)s')",
    "past the worker's stream": "log.handlers = [logging.StreamHandler(stream)]\nlog.propagate = False",
}


@pytest.mark.parametrize("show", SHOWS.values(), ids=SHOWS)
def test_what_a_worker_s_own_handler_shows_is_labelled_once(session, log, capsys, show):
    s = session(2)
    s.run(f"from tests.session.test_own_handlers import the_stream\nstream = the_stream()\n{LOG}{show}")
    s.run("log.info('in a cell')")

    def call():
        logging.getLogger(NAME).info("in a call")

    s.call_packed(call).get_all()
    out, err = capsys.readouterr()
    told = [f"[{worker}] in a {where}" for worker in range(2) for where in ("call", "cell")]
    assert sorted((out + err).splitlines()) == told


def the_stream():
    """The process's stderr itself, without what stands in for it on workers."""
    from disco_magic.callers.module_classes import SYS
    from disco_magic.isolation.streams import unwrapped

    return unwrapped(SYS["stderr"])


def test_a_worker_s_own_stream_that_nobody_sees_has_no_labels(s):
    s.run(LOG + "import io\nsys.stderr = io.StringIO()\nlog.handlers = [logging.StreamHandler()]\n")
    s.run("log.propagate = False\nlog.info('hello')")
    assert s.run("sys.stderr.getvalue()").values == ["hello\n"] * 3
    s.run("sys.stderr = sys.__stderr__")


def test_whoever_waits_for_records_beneath_gets_each_once(session, log, monkeypatch):
    seen, below = [], logging.Logger.callHandlers

    def theirs(self, record):
        below(self, record)
        seen.append((self.name, record.msg))

    monkeypatch.setattr(logging.Logger, "callHandlers", theirs)
    log.addHandler(logging.StreamHandler(io.StringIO()))
    s = session(1)
    s.run(LOG + "log.info('with labels')\nlog.addHandler(logging.StreamHandler(sys.stdout))")
    s.run("log.info('some with')\nlog.handlers = log.handlers[1:]\nlog.propagate = False\nlog.info('none')")
    log.error("outside")
    assert seen == [(NAME, text) for text in ("with labels", "some with", "none", "outside")]
    s.shutdown()
    assert logging.Logger.callHandlers is theirs
