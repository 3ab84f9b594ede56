"""What cells print where no notebook shows it: in scripts, and in plain cells that call `session.run`."""

from __future__ import annotations

import contextlib
import decimal
import gc
import io
import pickle
import sys

import numpy as np
import pytest

from disco_magic.errors import CellError, SessionClosed, SyncTimeout
from disco_magic.functions.execution.printed import Printed
from disco_magic.isolation import streams
from disco_magic.isolation.streams import WorkerStream


def stand_ins():
    return [isinstance(stream, WorkerStream) for stream in (sys.stdout, sys.stderr)]


@pytest.fixture(autouse=True)
def own_streams(capsys):
    """The caller's own streams stand there again when a test ends, and `capsys` has not seen to that."""
    yield
    assert stand_ins() == [False, False]


def test_lines_are_whole_and_begin_with_the_worker_that_has_written_them(session, capsys):
    result = session(4).run(
        "for i in range(200):\n    print('line', i)\nimport sys\nprint('odd', file=sys.stderr)"
    )
    shown = capsys.readouterr()
    assert sorted(shown.err.splitlines()) == [f"[{worker}] odd" for worker in range(4)]
    for worker in range(4):
        mine = [line for line in shown.out.splitlines() if line.startswith(f"[{worker}] ")]
        assert mine == [f"[{worker}] line {i}" for i in range(200)]
        assert result.stdout[worker] == "".join(f"line {i}\n" for i in range(200)) + "odd\n"
    assert len(shown.out.splitlines()) == 800


@pytest.mark.parametrize(
    ("code", "written", "lines"),
    [
        ("print('a', end=''); print('b', flush=True)", "ab\n", ["ab"]),
        ("print('no newline', end='')", "no newline", ["no newline"]),
        ("print('two\\nlines\\n')", "two\nlines\n\n", ["two", "lines", ""]),
        ("print(' 10%', end='\\r'); print('100%', end='\\r'); print()", " 10%\r100%\r\n", ["100%"]),
        ("print(' 10%', end='\\r')", " 10%\r", [" 10%"]),
        ("import sys; sys.stdout.writelines(['x', 'y\\n', ''])", "xy\n", ["xy"]),
        ("for i in range(40): print('x' * 5000, end='')", "x" * 200_000, ["x" * 200_000]),
        ("5", "", []),
    ],
)
def test_of_several_workers_lines_come_whole(session, capsys, code, written, lines):
    result = session(2).run(code)
    shown = capsys.readouterr().out.splitlines(keepends=True)
    for worker in range(2):
        mine = [line for line in shown if line.startswith(f"[{worker}] ")]
        assert mine == [f"[{worker}] {line}\n" for line in lines]
    assert result.stdout == dict.fromkeys(range(2), written)


def test_bars_that_move_between_lines_are_one_line_each(session, capsys):
    # tqdm counts its bars per process: the second worker's is in the second line, and to get there and back
    # it moves the cursor. Each way left a blank line, a hundred of them for a bar of four workers.
    session(4).run("from tqdm import tqdm\nfor _ in tqdm(range(9), desc='bar', mininterval=0): barrier()\n2")
    lines = sorted(capsys.readouterr().err.splitlines())
    assert [line[:13] for line in lines] == [f"[{worker}] bar: 100%" for worker in range(4)]


def test_a_bar_that_has_ended_comes_before_what_its_worker_prints_then():
    # A newline behind it may lead to another bar. It was held back until the worker wrote to stderr again, if
    # there were other workers' bars: "[0] end" came above the bar of worker 0, and below that of worker 1.
    tqdm = pytest.importorskip("tqdm")
    both, printed = io.StringIO(), Printed((0, 1))
    with tqdm.tqdm(total=2, file=io.StringIO()):  # another worker's
        for text in ("\r100%", "\n"):
            printed.texts[0].writer("stderr", both)(text)
        assert both.getvalue() == ""
        printed.texts[0].writer("stdout", both)("end\n")
    assert both.getvalue() == "[0] 100%\n[0] end\n"


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("print('a', end=''); print('b')", ["[0] a", "b\n"]),
        ("print('no newline', end='')", ["[0] no newline", "\n"]),
        ("print('two\\nlines\\n', end='')", ["[0] two\n[0] lines\n"]),
        ("print('\\r 10%', end=''); print('\\r100%', end='')", ["\r[0]  10%", "\r[0] 100%", "\n"]),
        ("print(' 10%', end='\\r'); print('done')", ["[0]  10%\r", "[0] done\n"]),
        ("print(' 10%', end='\\r')", ["[0]  10%\r", "\n"]),
        ("print('dos', end='\\r\\n'); print('x', end='')", ["[0] dos\r\n", "[0] x", "\n"]),
    ],
)
def test_of_a_worker_that_is_alone_everything_is_seen_at_once(session, capsys, monkeypatch, code, shown):
    pieces = []
    monkeypatch.setattr(sys.stdout, "write", pieces.append)
    session(3).run(code, workers=[0])
    assert pieces == shown


def test_what_ten_workers_and_more_print_and_give_stands_in_one_column(session, capsys):
    s = session(11)
    result = s.run("print('x')\nworker_id", workers=[9, 10])
    assert sorted(capsys.readouterr().out.splitlines()) == ["[10] x", "[9]  x"]
    assert repr(result) == "[9]  9\n[10] 10"
    s.run("print('y', end='')", workers=[3])
    assert capsys.readouterr().out == "[3]  y\n"


def test_what_one_print_writes_stays_together(session, capsys, monkeypatch):
    pieces = []
    monkeypatch.setattr(sys.stdout, "write", pieces.append)
    result = session(2).run("print('two', 1, 'lines\\nof', worker_id, sep='-')")
    assert sorted(pieces) == [f"[{worker}] two-1-lines\n[{worker}] of-{worker}\n" for worker in range(2)]
    assert result.stdout == {worker: f"two-1-lines\nof-{worker}\n" for worker in range(2)}


HELD = """
import copy, dataclasses, pickle
@dataclasses.dataclass
class Config:
    log: object = print
config = Config()
"""


def test_what_holds_print_can_be_pickled_and_copied(session, capsys):
    # Not the same object as builtins.print: a checkpoint whose config had it could not be written.
    s = session(2)
    s.run(HELD)
    assert s.run("copy.deepcopy(config).log is print, copy.copy(print) is print").values == [(True, True)] * 2
    written = s.run("pickle.dumps(print)")[0]
    assert b"disco" not in written
    assert pickle.loads(written) is print  # noqa: S301 - our own
    s.run("for each in allgather_objects(config): each.log(worker_id)")
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] 0", "[0] 0", "[1] 1", "[1] 1"]
    assert s.run("repr(print), print.__name__").values == [(repr(print), "print")] * 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [("sep=1", "sep must be None or a string, not int"), ("other=1", r"print\(\) got an unexpected")],
)
def test_print_refuses_what_python_s_refuses(session, wrong, words):
    with pytest.raises(CellError, match=words):
        session(1).run(f"print(1, {wrong})")


def test_a_value_is_the_same_text_as_without_a_scope(session):
    result = session(1).run("np.float32(0.5)")
    assert Printed([0]).render(np.float32(0.5)) == {"text/plain": repr(result).removeprefix("[0] ")}


def test_only_text_can_be_written(session):
    with pytest.raises(CellError, match="must be str, not int"):
        session(1).run("import sys\nsys.stdout.write(5)")


def test_a_cell_that_fails_has_its_text(session, capsys):
    with pytest.raises(CellError) as caught:
        session(2).run("print('before')\nif worker_id:\n    1 / 0")
    assert caught.value.result.stdout == {0: "before\n", 1: "before\n"}
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] before", "[1] before"]


def test_what_the_caller_redirects_to_gets_the_lines(session, capsys):
    kept = io.StringIO()
    with contextlib.redirect_stdout(kept):
        session(2).run("if worker_id:\n    print('here')")
    assert (kept.getvalue(), capsys.readouterr().out) == ("[1] here\n", "")


def test_a_cell_that_is_not_waited_for(gated, gate, capsys):
    s = gated(2)
    pending = s.run_nowait("print('begun')\ngate()\nprint('ended')")
    gate.arrived(2)
    print("mine")  # of another thread than the workers'
    gate.open()
    assert pending.wait().stdout == {0: "begun\nended\n", 1: "begun\nended\n"}
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == ["[0] begun", "[0] ended", "[1] begun", "[1] ended", "mine"]


def test_cells_of_two_sessions_at_once_keep_apart(gated, gate, background, capsys):
    one, two = gated(1), gated(2)
    first = background(one.run, "print('one')\ngate()\nprint('one')")
    gate.arrived()
    two.run("if worker_id:\n    print('two')")
    assert isinstance(sys.stdout, WorkerStream)  # the first one is still at it
    gate.open()
    assert first().stdout == {0: "one\none\n"}
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] one", "[0] one", "[1] two"]


def test_what_a_function_prints_is_no_cell_s(gated, gate, capsys):
    other = gated(1)
    pending = other.run_nowait("gate()")  # for whom the stand-ins stay
    gate.arrived()
    s = gated(1)
    s.run("print('of the cell')")
    s.call_packed(print, "of a function")
    s.sync_all()
    assert capsys.readouterr().out == "[0] of the cell\nof a function\n"
    gate.open()
    pending.wait()


def test_one_that_is_not_sent(session):
    s = session(1)
    s.shutdown()
    with pytest.raises(SessionClosed):
        s.run_nowait("1")
    assert stand_ins() == [False, False]


def test_one_that_no_worker_begins(gated, gate):
    s = gated(2)
    s.call_packed(gate, "begun")
    gate.arrived(2)
    pending = s.run_nowait("print('never')")
    pending.cancel()
    gate.open()
    s.sync_all()
    del pending
    gc.collect()
    s.run("1")  # nobody has need of the stand-ins any more
    assert stand_ins() == [False, False]


def test_one_that_a_worker_skips_is_over_without_another_one(gated, gate):
    s = gated(2)
    s.call_packed(gate, workers=[1])
    gate.arrived()
    ran = s.run_nowait("1")
    skipped = s.run_nowait("print('never')", workers=[1])
    skipped.cancel()
    gate.open()
    assert ran.wait().values == [1, 1]
    s.sync_all()
    assert stand_ins() == [False, False]


@pytest.mark.leaves_threads("the thread is given up in its call")
def test_a_thread_that_was_given_up_prints_nowhere(gated, gate, capsys):
    ended = []
    s = gated(1, ended=ended)
    cell = "print('half', end='')\ntry:\n    gate()\nfinally:\n    print('after')\n    ended.append(1)"
    pending = s.run_nowait(cell)
    gate.arrived()
    with pytest.raises(SyncTimeout, match="was stopped"):
        pending.wait(0, stop=True)
    assert capsys.readouterr().out == "[0] half"
    assert stand_ins() == [True, True]
    gate.open()
    for thread in s._launcher.stuck:
        thread.join(20)
    assert (ended, capsys.readouterr().out) == ([1], "")
    assert stand_ins() == [False, False]


def test_without_streams_only_the_result_has_the_text(session, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert session(1).run("import sys\nprint('x')\nprint('y', file=sys.stderr)").stdout == {0: "y\n"}


PRECISION = "import decimal\ndecimal.getcontext().prec"


def test_what_a_cell_sets_stays_its_worker_s_and_is_shared_with_functions(session):
    s = session(2)
    s.run(f"{PRECISION} = 5 + worker_id")
    assert s.run(PRECISION).values == [5, 6]
    assert s.call_packed(lambda: decimal.getcontext().prec).get_all() == [5, 6]
    s.call_packed(lambda: setattr(decimal.getcontext(), "prec", 7)).get_all()
    assert s.run(PRECISION).values == [7, 7]


class Tee:
    """Writes to two streams, as people put before sys.stdout to keep a log."""

    def __init__(self, first, second):
        self.streams = first, second

    def write(self, text):
        for stream in self.streams:
            stream.write(text)

    def flush(self):
        pass


def test_a_stream_that_somebody_puts_before_the_stand_ins(gated, gate, capsys, monkeypatch):
    s, log = gated(2, Tee=Tee), io.StringIO()
    pending = s.run_nowait("gate()\nprint('a line')")
    gate.arrived(2)
    with monkeypatch.context() as replaced:
        replaced.setattr(sys, "stdout", Tee(sys.stdout, log))
        gate.open()
        pending.wait()
        s.run("print('another')")
    whole = [f"[{worker}] {text}" for text in ("a line", "another") for worker in range(2)]
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(whole)
    s.run("import io, sys\nif worker_id:\n    sys.stdout = Tee(sys.stdout, io.StringIO())\n    print('teed')")
    assert capsys.readouterr().out == "[1] teed\n"


class Stream(io.StringIO):
    """Stands for sys.stdout; it can be told to fail, or to wait."""

    act = staticmethod(lambda: None)

    def write(self, text):
        self.act()
        return super().write(text)


@pytest.fixture
def stream(monkeypatch):
    """Puts one in its place, from the test itself: pytest puts its own there between fixtures and test."""

    def put(act):
        made = Stream()
        made.act = act
        monkeypatch.setattr(sys, "stdout", made)
        return made

    return put


def broken():
    raise BrokenPipeError("nobody reads")


def test_a_stream_that_fails_fails_the_cell_and_no_worker_is_lost(session, stream):
    s, out = session(2), stream(broken)
    for code in ("print('x')", "print('x', end='')"):
        with pytest.raises(CellError, match="BrokenPipeError: nobody reads"):
            s.run(code)
    out.act = lambda: None
    assert s.run("print('y')\nworker_id").values == [0, 1]


@pytest.mark.leaves_threads("the thread is given up in its call")
def test_a_worker_that_is_given_up_while_a_stream_keeps_it(gated, gate, stream):
    s, out = gated(1), stream(lambda: gate("writing"))
    pending = s.run_nowait("print('x')\nprint('y', end='')")
    gate.arrived()
    with pytest.raises(
        SyncTimeout, match=r"(?s)longer than 0 s and was stopped; .*\nThe thread of worker 0 did not end"
    ):
        pending.wait(0, stop=True)
    assert s._launcher.stuck
    out.act = broken
    assert s.run("worker_id").values == [0]
    gate.open()


def test_a_finalizer_that_runs_a_cell_of_another_session_in_the_middle(session, monkeypatch):
    one, two = session(1), session(1)
    values = []

    def dropped(owner):  # as if the garbage collector came there
        monkeypatch.undo()
        values.extend(two.run("print('inner')\n5").values)
        drop(owner)

    drop = streams._drop
    monkeypatch.setattr(streams, "_drop", dropped)
    assert one.run("print('outer')").stdout == {0: "outer\n"}
    assert values == [5]
