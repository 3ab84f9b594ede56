"""Log lines and warnings of workers in notebooks: in the cell they come from, once, under the worker's id."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from disco_magic.isolation.streams import WorkerStream, install_streams, remove_streams
from disco_magic.notebook.output.console import release_handlers, route_handlers
from disco_magic.notebook.output.streams import using_sink

CONFIGURE = "import logging\nlogging.basicConfig(force=True)"
SAY = "import logging\nlogging.getLogger('demo').warning('hello')"


@pytest.fixture
def plain(fresh):
    """A kernel with a session of four workers, whose logging is as Python has it."""
    yield fresh
    fresh.ok("import logging\nlogging.root.handlers.clear()\nlogging.root.setLevel('WARNING')")


def err(ran):
    return sorted(ran.text("stderr").splitlines())


# --- in a kernel -----------------------------------------------------------------------------------


def test_an_unconfigured_logger_shows_every_worker_once(plain):
    assert err(plain.ok(f"%%disco\n{SAY}")) == [f"[{w}] hello" for w in range(4)]


def test_a_logger_configured_in_the_notebook_shows_every_worker_once(plain):
    plain.ok(CONFIGURE)
    assert err(plain.ok(f"%%disco\n{SAY}")) == [f"[{w}] WARNING:demo:hello" for w in range(4)]


def test_a_logger_configured_in_a_cell_on_the_workers_shows_every_worker_once(plain):
    for _ in range(2):
        ran = plain.ok(f"%%disco\nimport logging\nlogging.basicConfig()\n{SAY}")
        assert err(ran) == [f"[{w}] WARNING:demo:hello" for w in range(4)]


def test_a_logger_configured_before_the_extension_was_loaded_shows_every_worker_once(plain):
    plain.ok("%unload_ext disco_magic")
    plain.ok(CONFIGURE)
    plain.ok("%load_ext disco_magic\n%disco start -n 2")
    assert err(plain.ok(f"%%disco\n{SAY}")) == ["[0] WARNING:demo:hello", "[1] WARNING:demo:hello"]


def test_the_notebook_s_own_lines_name_no_worker(plain):
    plain.ok(CONFIGURE)
    plain.ok(f"%%disco\n{SAY}")
    ran = plain.ok(SAY)
    assert (err(ran), ran.late) == (["WARNING:demo:hello"], [])


def test_many_lines_are_whole(plain):
    plain.ok(CONFIGURE)
    ran = plain.ok(
        "%%disco\nimport logging\nfor i in range(200): logging.error('%s %s', i, 'x' * 50)\n"
        "try: 1 / 0\nexcept ValueError: pass\nexcept ZeroDivisionError: logging.exception('two\\nlines')"
    )
    lines = ran.text("stderr").splitlines()
    assert {line[:4] for line in lines} == {f"[{w}] " for w in range(4)}
    assert [line for line in lines if "x" * 50 in line and not line.endswith("x" * 50)] == []
    assert sum(line.endswith("ZeroDivisionError: division by zero") for line in lines) == 4


def test_a_function_that_is_called_outside_of_cells_labels_its_message(plain):
    plain.ok(CONFIGURE)
    ran = plain.ok(
        "import disco_magic\n"
        "def say(): logging.getLogger('demo').warning('hello')\n"
        "session = disco_magic.session()\nsession.call_packed(say)\nsession.sync_all()"
    )
    assert err(ran) == [f"WARNING:demo:[{w}] hello" for w in range(4)]


def test_a_late_line_goes_to_the_cell_that_was_started_without_waiting(plain):
    plain.ok(f"{CONFIGURE}\nimport builtins, threading\nbuiltins.gate = threading.Event()")
    started = plain.send(f"%%disco --nowait -o handle\nimport builtins\nbuiltins.gate.wait(20)\n{SAY}")
    plain.finish(started)
    second = plain.ok("builtins.gate.set()\nhandle.wait()\nlogging.warning('mine')")
    assert err(second) == ["WARNING:root:mine"]
    assert {m["parent_header"]["msg_id"] for m in second.late} == {started}
    text = "".join(m["content"]["text"] for m in second.late)
    assert sorted(text.splitlines()) == [f"[{w}] WARNING:demo:hello" for w in range(4)]


def test_a_handler_of_a_stream_that_is_captured_away_labels_its_message(plain):
    plain.ok(CONFIGURE)
    ran = plain.ok(f"%%capture caught\n%%disco\n{SAY}")
    assert err(ran) == [f"WARNING:demo:[{w}] hello" for w in range(4)]


def test_the_display_filter_holds_for_log_lines_too(plain):
    plain.ok(CONFIGURE)
    assert err(plain.ok(f"%%disco --show 2\n{SAY}")) == ["[2] WARNING:demo:hello"]


def test_unloading_puts_back_the_handlers_streams_and_the_record_factory(plain):
    plain.ok(CONFIGURE)
    plain.ok(f"%%disco\n{SAY}")
    plain.ok("%unload_ext disco_magic")
    plain.ok("import sys\nfactory = logging.getLogRecordFactory()")
    look = "logging.root.handlers[0].stream is sys.stderr, factory is logging.LogRecord"
    assert plain.ok(look).value == "(True, True)"


def test_a_warning_arrives_once_per_worker_in_its_cell(plain):
    plain.ok("import warnings\nwarnings.simplefilter('default')")
    source = "import warnings\nfor _ in range(3):\n    warnings.warn('careful')"
    lines = [line for line in err(plain.ok(f"%%disco\n{source}")) if "UserWarning: careful" in line]
    assert [line[:4] for line in lines] == [f"[{w}] " for w in range(4)]
    plain.ok("import builtins, threading\nbuiltins.gate = threading.Event()")
    started = plain.send(f"%%disco --nowait -o handle\nimport builtins\nbuiltins.gate.wait(20)\n{source}")
    plain.finish(started)
    late = plain.ok("builtins.gate.set()\nhandle.wait()").late
    plain.ok("warnings.simplefilter('ignore')")
    assert {m["parent_header"]["msg_id"] for m in late} == {started}
    text = "".join(m["content"]["text"] for m in late)
    assert [text.count(f"[{w}] ") for w in range(4)] == [2, 2, 2, 2]
    assert text.count("UserWarning: careful") == 4


# --- in a shell of this process --------------------------------------------------------------------


def test_a_shell_in_a_terminal_shows_every_worker_once(four, handler):
    logging.getLogger("demo").addHandler(handler(sys.stderr))
    four.run(f"%%disco --output ordered\n{SAY}")
    assert four.err.splitlines() == [f"[{w}] hello" for w in range(4)]


@pytest.fixture
def handler():
    """Makes handlers that end with the test."""
    made = []

    def make(stream):
        made.append(logging.StreamHandler(stream))
        return made[-1]

    yield make
    for each in made:
        logging.getLogger("demo").removeHandler(each)
        each.close()


def test_handlers_of_the_notebook_s_streams_write_to_the_stand_ins_while_they_are_there(texts, onto, handler):
    with onto(*texts):
        out, err_, other = handler(sys.stdout), handler(sys.stderr), handler(io.StringIO())
        elsewhere = other.stream
        install_streams(onto)
        stands = sys.stdout, sys.stderr
        for _ in range(2):
            route_handlers()
            assert (out.stream, err_.stream, other.stream) == (*stands, elsewhere)
        release_handlers()
        remove_streams(onto)
        assert (out.stream, err_.stream, other.stream) == (*texts, elsewhere)


def test_a_handler_made_on_a_worker_gets_the_stream_itself_in_the_end(texts, onto, handler):
    with onto(*texts):
        install_streams(onto)
        made = handler(sys.stderr)
        assert isinstance(made.stream, WorkerStream)
        release_handlers()
        remove_streams(onto)
    assert made.stream is texts[1]


def test_python_s_last_resort_is_left_alone(texts, onto):
    with onto(*texts):
        install_streams(onto)
        route_handlers()
        assert logging.lastResort.stream is sys.stderr
        release_handlers()
        remove_streams(onto)
        assert logging.lastResort.stream is texts[1]
    assert "stream" not in vars(logging.lastResort)


def test_a_stand_in_shows_the_worker_to_those_who_have_a_sink(texts, live):
    _, (first, _) = live(texts)
    stream = WorkerStream(io.StringIO(), "stderr")
    assert stream.names_worker is False
    with using_sink(first):
        assert stream.names_worker is True
