"""Log records that workers make: who made them, how that is shown, and what is left after sessions."""

from __future__ import annotations

import gc
import io
import logging
import logging.handlers
import pickle
import queue
import sys
import threading
import weakref

import pytest

import disco_magic as disco
from disco_magic.errors import LaunchError
from disco_magic.isolation.logs import Marker, WorkerRecord
from tests.conftest import until

NAME = "demo.logging"


@pytest.fixture(autouse=True)
def factory():
    """Python's own record factory, before and after every test; a test that changes it puts it back."""
    logging.setLogRecordFactory(logging.LogRecord)
    yield logging.LogRecord
    left = logging.getLogRecordFactory()
    logging.setLogRecordFactory(logging.LogRecord)
    assert left is logging.LogRecord


@pytest.fixture
def log():
    """A logger of this test's own; what it is given as handlers is taken away again."""
    logger = logging.getLogger(NAME)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.propagate = True
    logger.handlers.clear()


def written(logger, text=None):
    """A stream that the logger writes to, in a format or in the one that handlers have by themselves."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    if text is not None:
        handler.setFormatter(logging.Formatter(text))
    logger.addHandler(handler)
    return stream


class Keep(logging.Handler):
    """Keeps the records it is given."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


@pytest.fixture
def unconfigured(log):
    """Takes away pytest's own handlers, which it adds between the fixtures and the test."""
    return log.handlers.clear


@pytest.fixture
def kept(log):
    handler = Keep()
    log.addHandler(handler)
    return handler.records


def say(*args, logger=NAME):
    logging.getLogger(logger).warning(*args or ("hello",))


def lines(stream):
    return sorted(stream.getvalue().splitlines())


# --- who made a record -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_record_of_a_worker_has_its_id_and_its_session(session, kept, n):
    s = session(n)
    s.call_packed(say)
    s.run(f"import logging\nlogging.getLogger({NAME!r}).info('from a cell')")
    assert sorted((r.disco_worker, r.disco_session, r.msg) for r in kept) == [
        (worker, s.id, text) for worker in range(n) for text in ("from a cell", "hello")
    ]


def test_a_record_of_a_thread_that_a_worker_starts_is_that_worker_s(session, kept):
    def start():
        thread = threading.Thread(target=say)
        thread.start()
        thread.join()

    s = session(2)
    s.call_packed(start).get(1)
    s.sync_all()
    assert sorted((r.disco_worker, r.disco_session, r.getMessage()) for r in kept) == [
        (0, s.id, "[0] hello"),
        (1, s.id, "[1] hello"),
    ]


def test_a_record_that_came_from_elsewhere_keeps_what_it_says(session):
    session(1)
    record = logging.makeLogRecord({"disco_worker": 7, "msg": "carried"})
    assert (record.disco_worker, record.disco_session, record.getMessage()) == (7, None, "carried")


# --- how that is shown -----------------------------------------------------------------------------


def test_a_plain_format_shows_the_worker_before_the_message(session, log):
    plain, basic = written(log), written(log, logging.BASIC_FORMAT)
    session(2).call_packed(say, "%d of %s", 3, "four").get_all()
    say("outside")
    assert lines(plain) == ["[0] 3 of four", "[1] 3 of four", "outside"]
    assert lines(basic) == [f"WARNING:{NAME}:{text}" for text in lines(plain)]


def test_an_unconfigured_logger_shows_the_worker(session, unconfigured, capsys):
    unconfigured()
    session(2).call_packed(say).get_all()
    assert sorted(capsys.readouterr().err.splitlines()) == ["[0] hello", "[1] hello"]


def test_without_a_last_resort_nothing_is_shown_and_nothing_breaks(
    session, unconfigured, capsys, monkeypatch
):
    unconfigured()
    monkeypatch.setattr(logging, "lastResort", None)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    session(1).call_packed(say).get(0)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "text", ["%(disco_worker)s %(message)s", "%(message)s (%(disco_session)s/%(disco_worker)s)"]
)
def test_a_format_that_names_the_worker_shows_it_once_and_works_outside_too(session, log, text):
    stream = written(log, text)
    s = session(2)
    s.call_packed(say).get_all()
    say()
    expected = [
        text % {"disco_worker": worker, "disco_session": number, "message": "hello"}
        for worker, number in ((0, s.id), (1, s.id), (None, None))
    ]
    assert lines(stream) == sorted(expected)


def test_a_format_with_a_default_works_without_a_session_too(session, log):
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter("%(disco_worker)s", defaults={"disco_worker": "-"}))
    log.addHandler(handler)
    say()
    session(1).call_packed(say).get(0)
    assert handler.stream.getvalue() == "-\n0\n"


def test_a_handler_further_up_that_names_the_worker_counts(session, log):
    child = logging.getLogger(f"{NAME}.child")
    own, above = written(child), written(log, "%(disco_worker)s|%(message)s")
    try:
        session(1).call_packed(say, logger=child.name).get(0)
        child.propagate = False
        session(1).call_packed(say, logger=child.name).get(0)
    finally:
        child.propagate = True
        child.handlers.clear()
    assert (own.getvalue(), above.getvalue()) == ("hello\n[0] hello\n", "0|hello\n")


@pytest.mark.parametrize(
    ("names", "shown"), [(True, "hello\n"), (False, "[0] hello\n"), ("yes", "[0] hello\n")]
)
def test_a_stream_that_shows_the_worker_by_itself_counts(session, log, names, shown):
    stream = written(log)
    stream.names_worker = names
    session(1).call_packed(say).get(0)
    assert stream.getvalue() == shown


def test_a_logger_that_the_manager_does_not_know_is_labelled(session):
    logger = logging.Logger("nobody's")  # noqa: LOG001 - which getLogger would make known
    stream = written(logger)
    session(1).call_packed(lambda: logger.warning("hello")).get(0)
    assert stream.getvalue() == "[0] hello\n"


def test_template_and_arguments_stay_as_they_were(session, kept):
    session(2).call_packed(say, "%d parts", 3).get_all()
    assert {(r.msg, r.args, r.getMessage()) for r in kept} == {
        ("%d parts", (3,), "[0] 3 parts"),
        ("%d parts", (3,), "[1] 3 parts"),
    }


def test_a_record_that_goes_through_a_queue_is_labelled_once(session, log):
    waiting = queue.SimpleQueue()
    log.addHandler(logging.handlers.QueueHandler(waiting))
    session(1).call_packed(say).get(0)
    record = pickle.loads(pickle.dumps(waiting.get_nowait()))  # noqa: S301 - our own record
    assert type(record) is WorkerRecord
    assert (record.disco_worker, record.getMessage()) == (0, "[0] hello")


def test_a_record_of_another_class_gets_the_attributes_only(session, kept):
    class Special(logging.LogRecord):
        pass

    logging.setLogRecordFactory(Special)
    s = session(1)
    s.call_packed(say).get(0)
    s.shutdown()
    assert logging.getLogRecordFactory() is Special
    logging.setLogRecordFactory(logging.LogRecord)
    assert [(type(r), r.disco_worker, r.getMessage()) for r in kept] == [(Special, 0, "hello")]


# --- what is put in, and taken out again -----------------------------------------------------------


def marked(record):
    return hasattr(record, "disco_worker")


def test_the_factory_is_there_from_the_first_session_to_the_last(session, factory):
    first = session(1)
    ours = logging.getLogRecordFactory()
    assert ours is not factory
    second = session(2)
    assert logging.getLogRecordFactory() is ours
    first.shutdown()
    assert logging.getLogRecordFactory() is ours
    second.shutdown()
    second.shutdown()
    assert logging.getLogRecordFactory() is factory


def test_a_session_that_is_dropped_instead_of_stopped_takes_the_factory_along(factory):
    # Only a session that was stopped, or the next one that was, took it out.
    dropped = disco.ThreadedSession(2)
    dropped.run("x = 1")
    assert logging.getLogRecordFactory() is not factory
    del dropped
    gc.collect()
    until(lambda: logging.getLogRecordFactory() is factory)
    assert "Marker" not in logging.Logger.callHandlers.__qualname__


def test_a_restart_goes_on_marking(session, kept):
    s = session(1)
    s.restart()
    s.call_packed(say).get(0)
    assert kept[0].disco_worker == 0


def test_a_session_that_cannot_be_started_leaves_nothing(factory):
    with pytest.raises(LaunchError):
        disco.ThreadedSession(2, extras=lambda context: 1 / 0)
    assert logging.getLogRecordFactory() is factory


def test_the_factory_that_was_there_makes_the_records(session, kept):
    def earlier(*args, **kwargs):
        record = logging.LogRecord(*args, **kwargs)
        record.colour = "blue"
        return record

    logging.setLogRecordFactory(earlier)
    s = session(1)
    s.call_packed(say).get(0)
    s.shutdown()
    assert logging.getLogRecordFactory() is earlier
    logging.setLogRecordFactory(logging.LogRecord)
    assert [(r.colour, r.disco_worker, r.getMessage()) for r in kept] == [("blue", 0, "[0] hello")]


def over(below, name):
    """A factory that somebody puts over another one, as the logging cookbook shows it."""

    def later(*args, **kwargs):
        record = below(*args, **kwargs)
        setattr(record, name, True)
        return record

    return later


def test_a_factory_put_over_ours_stays_and_ours_is_found_beneath_it(session):
    first = session(1)
    theirs = over(logging.getLogRecordFactory(), "theirs")
    logging.setLogRecordFactory(theirs)
    first.shutdown()
    assert logging.getLogRecordFactory() is theirs
    record = logging.makeLogRecord({})
    assert (record.theirs, marked(record)) == (True, False)
    second = session(1)
    assert logging.getLogRecordFactory() is theirs
    assert marked(logging.makeLogRecord({}))
    second.shutdown()
    assert not marked(logging.makeLogRecord({}))
    logging.setLogRecordFactory(logging.LogRecord)


def test_when_they_take_theirs_away_ours_goes_with_the_next_session(session, factory):
    first = session(1)
    ours = logging.getLogRecordFactory()
    logging.setLogRecordFactory(over(ours, "theirs"))
    first.shutdown()
    logging.setLogRecordFactory(ours)
    assert not marked(logging.makeLogRecord({}))
    session(1).shutdown()
    assert logging.getLogRecordFactory() is factory


def test_a_factory_that_does_not_ask_ours_is_asked_by_the_next_session_and_comes_back(session):
    first = session(1)
    theirs = over(logging.LogRecord, "theirs")
    logging.setLogRecordFactory(theirs)
    second = session(1)
    record = logging.makeLogRecord({})
    assert (record.theirs, marked(record)) == (True, True)
    first.shutdown()
    second.shutdown()
    assert logging.getLogRecordFactory() is theirs
    logging.setLogRecordFactory(logging.LogRecord)


def test_who_is_dropped_without_a_word_no_longer_counts(factory):
    class Owner:
        pass

    marker, owner, other = Marker(), Owner(), Owner()
    marker.add(owner)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
    assert not marked(logging.makeLogRecord({}))
    marker.add(other)
    assert marked(logging.makeLogRecord({}))
    marker.discard(other)
    assert logging.getLogRecordFactory() is factory


# --- warnings --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("default")
def test_a_warning_of_a_cell_arrives_once_per_worker(session, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(
        "warnings.showwarning", lambda message, *rest, **named: print(message, file=sys.stderr)
    )
    session(3).run("import warnings\nfor _ in range(3):\n    warnings.warn('careful')")
    assert sorted(stream.getvalue().splitlines()) == [f"[{worker}] careful" for worker in range(3)]
