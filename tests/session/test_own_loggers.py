"""What a worker sets up of `logging` is its own."""

from __future__ import annotations

import logging
import logging.config
import sys

import pytest

from tests.locks import taken_elsewhere

NAME = "demo.own_loggers"
SETUP = f"""
import logging
log = logging.getLogger({NAME!r})
log.propagate = False
log.setLevel("INFO" if worker_id == 0 else "ERROR")
kept = logging.FileHandler(folder / f"{{worker_id}}.log", delay=True)
log.addHandler(kept)
"""


class Keep(logging.Handler):
    """Keeps what it is given, and whether it was closed."""

    def __init__(self):
        super().__init__()
        self.told, self.closed = [], False

    def emit(self, record):
        self.told.append(record.getMessage())

    def close(self):
        self.closed = True
        super().close()


@pytest.fixture
def log():
    """A logger of the process's, as it was before the test."""
    logger = logging.getLogger(NAME)
    before = logger.level, logger.handlers[:], logger.filters[:], logger.propagate, logger.disabled
    yield logger
    assert type(logger.handlers) is list
    logger.setLevel(before[0])
    logger.handlers[:], logger.filters[:] = before[1:3]
    logger.propagate, logger.disabled = before[3:]


@pytest.fixture
def s(session, log, tmp_path):
    """Three workers who know where to write."""
    started = session(3)
    started.put("folder", tmp_path)
    return started


def test_each_worker_writes_its_own_records_at_its_own_level(s, tmp_path):
    s.run(SETUP)
    s.run("log.info('information'); log.error('error')")
    s.run("kept.close()")
    assert [(tmp_path / f"{worker}.log").read_text().splitlines() for worker in range(3)] == [
        ["information", "error"],
        ["error"],
        ["error"],
    ]


def test_the_process_s_loggers_stay_as_they_are_and_are_what_others_have(s, log):
    s.run(SETUP, workers=[0])
    assert (log.level, log.handlers, log.propagate) == (logging.NOTSET, [], True)
    other = (
        f"import logging\nlog = logging.getLogger({NAME!r})\nlog.level, log.propagate, log.isEnabledFor(20)"
    )
    assert s.run(other, workers=[1, 2]).values == [(0, True, False)] * 2
    log.setLevel("INFO")
    assert s.run(other).values == [(20, False, True), (20, True, True), (20, True, True)]
    log.setLevel("ERROR")
    assert s.run(other).values == [(20, False, True), (40, True, False), (40, True, False)]


@pytest.mark.parametrize(
    ("change", "there", "left"),
    [
        ("log.handlers.clear()", 0, 1),
        ("log.handlers = []", 0, 1),
        ("log.removeHandler(log.handlers[0])", 0, 1),
        ("del log.handlers[:]", 0, 1),
        ("log.handlers.append(logging.NullHandler())", 2, 1),
        ("log.handlers += [logging.NullHandler()]", 2, 1),
        ("log.handlers[0] = logging.NullHandler()", 1, 1),
        ("log.addHandler(logging.NullHandler())", 2, 1),
    ],
)
def test_whichever_way_handlers_are_changed(s, log, change, there, left):
    mine = Keep()
    log.addHandler(mine)
    s.run(f"import logging\nlog = logging.getLogger({NAME!r})\n{change}")
    assert s.run("len(log.handlers)").values == [there] * 3
    assert log.handlers == [mine] * left


HELD = "hs, one = log.handlers, logging.NullHandler()\n"


@pytest.mark.parametrize(
    ("change", "there"),
    [
        pytest.param(
            "while hs: log.removeHandler(hs[0])",
            [],
            marks=pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself replaces the list"),
        ),
        ("log.addHandler(one); hs.append(one)", ["Keep", "NullHandler", "NullHandler"]),
        ("log.addHandler(one); hs.reverse()", ["NullHandler", "Keep"]),
        ("hs.append(one); log.handlers.sort(key=lambda each: each is not one)", ["NullHandler", "Keep"]),
        ("log.handlers *= 2", ["Keep", "Keep"]),
        ("hs.clear(); log.addHandler(one)", ["NullHandler"]),
    ],
)
def test_who_holds_the_list_of_handlers_holds_the_one_that_is_used(s, log, change, there):
    mine = Keep()
    log.addHandler(mine)
    s.run(f"import logging\nlog = logging.getLogger({NAME!r})\n{HELD}{change}", timeout=20.0)
    told = "hs is log.handlers or hs == log.handlers, [type(each).__name__ for each in hs]"
    assert s.run(told).values == [(True, there)] * 3
    assert log.handlers == [mine]


def test_who_has_changed_nothing_sees_what_the_process_has_now(s, log):
    s.run(f"import logging\nhs = logging.getLogger({NAME!r}).handlers")
    log.addHandler(Keep())
    assert s.run(f"logging.getLogger({NAME!r}).handlers is hs, len(hs)").values == [(True, 1)] * 3


def test_filters_and_what_is_off_are_each_worker_s_own(s, log):
    mine = Keep()
    log.addHandler(mine)
    s.run(
        f"import logging\nlog = logging.getLogger({NAME!r})\nlog.addFilter(lambda record: worker_id == 1)\n"
        "log.disabled = worker_id == 2\nlog.error('x')"
    )
    log.error("outside")
    assert sorted(mine.told) == ["[1] x", "outside"]


def test_disable_is_of_the_worker_that_calls_it(s, log):
    s.run("import logging\nif worker_id: logging.disable()")
    asked = f"logging.getLogger({NAME!r}).isEnabledFor(40)"
    assert s.run(asked).values == [True, False, False]
    assert log.isEnabledFor(40)


def test_what_a_library_s_module_sets_up_is_the_process_s(s, log, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"import logging\nlog = logging.getLogger({NAME!r})\n"
    (tmp_path / "sets_up.py").write_text(
        f"{module}log.setLevel('ERROR'); log.addHandler(logging.NullHandler())"
    )
    s.run("import sets_up", workers=[1])
    sys.modules.pop("sets_up")
    assert (log.level, len(log.handlers)) == (logging.ERROR, 1)
    assert s.run(f"{module}log.level, len(log.handlers)").values == [(logging.ERROR, 1)] * 3


def test_a_library_s_module_may_add_to_the_list_itself(s, log, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "adds.py").write_text(
        f"import logging\nlogging.getLogger({NAME!r}).handlers += [logging.NullHandler()]"
    )
    s.run("import adds", workers=[1])
    sys.modules.pop("adds")
    assert type(log.handlers) is list
    assert len(log.handlers) == 1


def test_who_configures_all_of_it_closes_nobody_else_s_handlers(s, log, tmp_path):
    mine = Keep()
    log.addHandler(mine)
    s.run(
        "import logging.config\n"
        "kept = {'class': 'logging.FileHandler', 'filename': str(folder / f'{worker_id}.log'), 'mode': 'w'}\n"
        f"loggers = {{{NAME!r}: {{'handlers': ['kept'], 'level': 'INFO', 'propagate': False}}}}\n"
        "def configure():\n"
        "    logging.config.dictConfig({'version': 1, 'handlers': {'kept': kept}, 'loggers': loggers})\n"
        "for turn in range(3):\n"
        "    configure()\n    barrier()\n"
        f"    logging.getLogger({NAME!r}).info('turn %d', turn)"
    )
    assert not mine.closed
    assert log.handlers == [mine]
    assert [(tmp_path / f"{worker}.log").read_text() for worker in range(3)] == ["turn 2\n"] * 3


def test_a_worker_s_handlers_are_closed_when_it_ends(session, log):
    own, closed = Keep(), []
    log.addHandler(own)

    def add():
        handler = logging.NullHandler()
        handler.close = lambda: closed.append(handler)
        log.addHandler(handler)

    s = session(2)
    s.call_packed(add)
    s.sync_all()
    assert not closed
    s.shutdown()
    assert len(closed) == 2
    assert log.handlers == [own]
    assert not own.closed
    assert "level" not in vars(logging.Logger)


def test_what_fails_as_handlers_are_closed_is_told_and_the_others_are_closed(session, log, capsys):
    closed = []

    def add():
        broken, ended, whole = (logging.NullHandler() for _ in range(3))
        broken.close = lambda: 1 / 0
        ended.flush = lambda: open("").close()
        whole.close = lambda: closed.append(1)
        for each in (broken, ended, whole):
            log.addHandler(each)

    s = session(1)
    s.call_packed(add)
    s.sync_all()
    s.shutdown()
    assert closed == [1]
    assert capsys.readouterr().err.count("ZeroDivisionError") == 1
    assert "level" not in vars(logging.Logger)


def test_a_handler_that_a_thread_has_for_itself_keeps_nobody_waiting(session, log):
    handler, s = Keep(), session(1)
    s.call_packed(lambda: log.addHandler(handler))
    s.sync_all()
    with taken_elsewhere(handler.lock) as thread:
        s.shutdown()
        assert thread.is_alive()
        assert not handler.closed


@pytest.mark.parametrize(
    "copied", ["copy.copy(log.handlers)", "log.handlers.copy()", "pickle.loads(pickle.dumps(log.filters))"]
)
def test_a_copy_of_the_list_is_no_logger_s(s, log, copied):
    log.addHandler(Keep())
    s.run(f"import copy, logging, pickle\nlog = logging.getLogger({NAME!r})")
    s.run(f"hs = {copied}\nhs.append(logging.NullHandler())")
    assert s.run("type(hs), len(log.handlers), len(log.filters)").values == [(list, 1, 0)] * 3


CONFIGURED = """
import logging, logging.config
from disco_magic import worker
if worker.id: worker.barrier()
logging.config.dictConfig({"version": 1, "root": {"level": "INFO"}})
log = logging.getLogger("demo.configured")
if not worker.id: worker.barrier()
print(log.disabled, logging.getLogger("demo.asked").disabled)
"""


@pytest.mark.parametrize("times", [1, 2])
def test_who_configures_disables_no_logger_that_another_one_has_made(session, tmp_path, times):
    # A rank that came later, and all in a second run, logged nothing any more.
    path = tmp_path / "train.py"
    path.write_text(CONFIGURED)
    s = session(2)
    for _ in range(times):
        result = s.run_file(str(path))
    assert dict(result.stdout) == {0: "False False\n", 1: "False False\n"}


def test_who_configures_disables_those_that_it_has_asked_for(session):
    s = session(2)
    s.run("import logging, logging.config\nlog = logging.getLogger('demo.mine') if worker_id == 0 else None")
    s.run("logging.config.dictConfig({'version': 1})\ngone = logging.getLogger('demo.mine').disabled")
    assert s["gone"].get_all() == [True, False]
