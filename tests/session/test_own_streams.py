"""What a worker assigns to `sys.stdout` and `sys.stderr` is its own, as in a process of its own."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import types

import pytest

from disco_magic.errors import CellError
from disco_magic.functions.execution.scripts import compile_file
from tests.conftest import DEADLINE_S, given_up_comes_back

SILENCE = "import io, os, sys\nif worker_id: sys.stdout = silent = open(os.devnull, 'w')\n"
# Python's own, as functions of libraries call it.
SAY = "import builtins\nbuiltins.print('heard', flush=True)\nsys.stdout.write('and read\\n')"


@pytest.fixture(autouse=True)
def everything_as_it_was():
    before = sys.stdout, sys.stderr
    yield
    assert (sys.stdout, sys.stderr) == before
    assert type(sys) is types.ModuleType


def lines(capsys):
    return sorted(capsys.readouterr().out.splitlines())


def test_ranks_that_are_silenced_are_silent_until_they_put_it_back(session, capsys):
    s = session(3)
    s.run(SILENCE + SAY)
    s.run(f"print('next')\n{SAY}")
    print("the notebook")
    first = ["[0] and read", "[0] heard", "[0] next"]
    assert lines(capsys) == sorted([*first, *first[:2], "the notebook"])
    s.run("sys.stdout = sys.__stdout__\nprint('again')\nif worker_id: silent.close()")
    assert lines(capsys) == ["[0] again", "[1] again", "[2] again"]


@pytest.mark.parametrize("back", ["sys.stdout = kept", "del sys.stdout", "setattr(sys, 'stdout', kept)"])
def test_what_was_there_can_be_put_back(session, capsys, back):
    s = session(2)
    s.run("import io, sys\nkept, mine = sys.stdout, io.StringIO()\nsys.stdout = mine")
    assert s.run("print(worker_id)\nsys.stdout is mine, mine.getvalue()").values == [
        (True, "0\n"),
        (True, "1\n"),
    ]
    assert lines(capsys) == []
    s.run(f"{back}\nprint('back', sys.stdout is kept)")
    assert lines(capsys) == ["[0] back True", "[1] back True"]


TEE = """
import io, sys
class Tee:
    def __init__(self, file): self.below, self.file = sys.stdout, file
    def write(self, text): self.file.write(text); return self.below.write(text)
    def flush(self): self.below.flush(); self.file.flush()
files = [io.StringIO(), io.StringIO()]
for file in files: sys.stdout = Tee(file)
"""


def test_streams_that_hand_on_what_they_get_lie_over_each_other(session, capsys):
    s = session(2)
    s.run(TEE)
    s.run("print('x', flush=True)\nsys.stdout.write('y\\n')")
    assert s.run("[file.getvalue() for file in files]").values == [["x\ny\n"] * 2] * 2
    assert lines(capsys) == ["[0] x", "[0] y", "[1] x", "[1] y"]


def test_a_stream_over_the_process_s_own_gets_it_once(session, capsys):
    s = session(1)
    s.run(
        "import sys\nclass Upper:\n    def write(self, text):\n"
        "        return vars(sys)['stdout'].write(text.upper())\n"
        "    def flush(self): vars(sys)['stdout'].flush()\nsys.stdout = Upper()\nprint('x', flush=True)"
    )
    assert capsys.readouterr().out == "[0] X\n"


@pytest.mark.parametrize("channel", ["stdout", "stderr"])
def test_a_stream_that_a_worker_closes_is_closed_for_it_alone(session, capsys, channel):
    # It was the process's: the notebook and all workers could print nothing any more.
    s = session(2)
    s.run(f"import sys\nif worker_id == 1: sys.{channel}.close()")
    s.run(f"print(f'from {{worker_id}}', file=sys.{channel})", workers=[0])
    with pytest.raises(CellError, match="ValueError: I/O operation on closed file"):
        s.run(f"print('x', file=sys.{channel})", workers=[1])
    print("from the notebook", file=getattr(sys, channel))
    assert getattr(capsys.readouterr(), channel[3:]) == "[0] from 0\nfrom the notebook\n"
    s.run(f"sys.{channel} = sys.__{channel}__\nprint('again', file=sys.{channel})", workers=[1])
    assert getattr(capsys.readouterr(), channel[3:]) == "[1] again\n"


def test_a_stream_that_a_program_closes_is_open_again_after_it(session, capsys, tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import sys\nprint('last words')\nsys.stdout.close()\nclosed = sys.stdout.closed\n")
    s = session(2)
    s.run_file(program)
    s.run("print(closed)")
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "[0] True",
        "[0] last words",
        "[1] True",
        "[1] last words",
    ]


def test_a_stream_of_its_own_that_a_worker_closes_is_closed(session, tmp_path):
    s = session(1)
    s.run(f"import sys\nsys.stdout = file = open({str(tmp_path / 'out')!r}, 'w')\nsys.stdout.close()")
    assert s.run("file.closed, sys.stdout is file").values == [(True, True)]
    s.run("sys.stdout = sys.__stdout__")


def test_the_buffer_of_everybody_cannot_be_detached_by_a_worker(session):
    with pytest.raises(CellError, match=r"UnsupportedOperation: detach: all workers and the notebook write"):
        session(1).run("import sys\nsys.stdout.detach()")


def test_threads_of_a_worker_write_where_it_does(session, capsys):
    s = session(2)
    s.run(
        "import io, sys, threading\nmine = io.StringIO()\nif worker_id: sys.stdout = mine\n"
        "thread = threading.Thread(target=print, args=('x',))\nthread.start()\nthread.join()"
    )
    assert s.run("mine.getvalue()").values == ["", "x\n"]
    assert capsys.readouterr().out == "[0] x\n"


def test_errors_and_warnings_go_to_the_worker_s_own_stderr(session, capsys):
    s = session(2)
    s.run(
        "import io, sys, traceback, warnings\nmine = io.StringIO()\nif worker_id: sys.stderr = mine\n"
        "try: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc(limit=0)"
    )
    assert s.run("mine.getvalue()").values == ["", "ZeroDivisionError: division by zero\n"]
    assert capsys.readouterr() == ("", "[0] ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("end", ["restart", "shutdown"])
def test_it_ends_with_the_worker_and_is_flushed(session, tmp_path, end):
    s, file = session(1), tmp_path / "log"
    with file.open("w") as log:
        s["kept"] = s.call_packed(lambda: Kept(log))
        s.run("import sys\nsys.stdout = kept.them\nprint('kept')")
        assert file.read_text() == ""
        getattr(s, end)()
        assert file.read_text() == "kept\n"


def test_what_began_again_writes_where_it_is_seen(session, capsys):
    s = session(2)
    s.run("import sys\nsys.stdout = None")
    s.restart()
    s.run("print('heard')")
    assert lines(capsys) == ["[0] heard", "[1] heard"]


FAULTY = """
import sys
class Faulty:
    write = len
    {}
sys.stdout = Faulty()
"""


@pytest.mark.parametrize(
    ("flush", "told"),
    [
        ("", ""),
        ("def flush(self): raise ValueError('closed')", ""),
        ("def flush(self): raise KeyError('mine')", "KeyError: 'mine'"),
    ],
)
def test_a_stream_that_cannot_be_flushed_ends_all_the_same(session, capsys, flush, told):
    s = session(1)
    s.run(FAULTY.format(flush))
    s.shutdown()
    assert (capsys.readouterr().err.splitlines() or [""])[-1] == told


def test_a_program_s_ends_with_the_program(session, capsys, tmp_path):
    s = session(2)
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nsys.stdout = log = open(sys.argv[1] + str(worker_id), 'w')\nprint('kept')\n"
    )
    s.run("import io, sys\nmine = io.StringIO()\nif worker_id: sys.stdout = mine")
    s.run_file(program, str(tmp_path / "log"))
    assert [(tmp_path / f"log{worker}").read_text() for worker in range(2)] == ["kept\n"] * 2
    s.run("print('after')\nlog.close()")
    assert lines(capsys) == ["[0] after"]
    assert s.run("mine.getvalue()").values == ["", "after\n"]


def test_what_a_stuck_cell_has_put_there_goes_with_its_thread(session, gate, capsys):
    s = session(1, extras=lambda _: {"gate": gate})
    s.run("import io, sys\nfirst = io.StringIO()\nsys.stdout = first")
    pending = s.run_nowait("sys.stdout = None\ngate()")
    gate.arrived(1)
    pending.cancel()
    with pytest.raises(CellError, match="given up"):
        pending.wait()
    given_up_comes_back(s, gate)  # else the process's own stream is not back before that
    assert s.run("print('x')\nfirst.getvalue()")[0] == "x\n"


def test_a_cell_that_is_interrupted_leaves_it_as_it_was_before(session, gate, capsys):
    """`doctest` for one puts its own there well before the `try` that puts the former one back."""
    s = session(1, extras=lambda _: {"gate": gate})
    gate.open()
    pending = s.run_nowait("import io, sys\nsys.stdout = io.StringIO()\ngate()\nwhile True: pass")
    gate.arrived(1)
    pending.cancel()
    with pytest.raises(CellError, match="cancelled"):
        pending.wait()
    with pytest.raises(CellError, match="ZeroDivisionError"):
        s.run("print('heard')\nsys.stdout = kept = io.StringIO()\n1 / 0")
    s.run("print('not heard')")
    assert capsys.readouterr().out == "[0] heard\n"


def test_a_block_that_is_left_elsewhere_leaves_the_program_its_stream(session, capsys):
    """A generator in a block is closed by whoever drops it."""
    s, kept, stdout = session(1), [], sys.stdout
    s["keep"] = s.call_packed(lambda: Kept(kept))
    s.run(
        "import contextlib, io\ndef work():\n    with contextlib.redirect_stdout(io.StringIO()): yield\n"
        "made = work()\nnext(made)\nkeep.them.append(made)\ndel made"
    )
    kept.clear()
    assert sys.stdout is stdout
    print("heard")
    assert capsys.readouterr().out == "heard\n"


class Kept:
    """What is not copied on its way to a worker."""

    def __init__(self, them):
        self.them = them


def test_sys_is_of_the_class_of_modules_for_who_asks_for_that(session):
    session(1)
    assert type(sys) is not types.ModuleType
    assert type(type(sys)("made")) is types.ModuleType
    assert isinstance(json, type(sys))
    assert isinstance(sys, types.ModuleType)
    assert not isinstance(1, type(sys))
    sys.modules.pop("this", None)
    with contextlib.redirect_stdout(None):
        import this
    assert type(this) is types.ModuleType


def test_what_stands_for_modules_of_python_s_is_shown_as_a_module(session):
    s = session(2)
    s.run("import sys, builtins, os")
    shown = str(s.registers())
    assert all(f"module \u00b7 {name}" in shown for name in ("sys", "builtins", "os"))
    assert "OfWorkers" not in shown + repr(s.check()) + repr(type(sys))


def test_the_process_may_have_none(session, monkeypatch):
    s = session(1)
    with monkeypatch.context() as patch:
        patch.delattr(sys, "stdout")
        with pytest.raises(AttributeError, match="stdout"):
            sys.stdout  # noqa: B018 - reading it is the test
        with pytest.raises(AttributeError, match="stdout"):
            del sys.stdout
        assert s.run("import sys\nhasattr(sys, 'stdout')")[0] is False


class Slow:
    """A stream whose flush waits for a gate."""

    def __init__(self, gate):
        self.gate = gate

    def write(self, text):
        return len(text)

    def flush(self):
        self.gate()


ENDING = """
import builtins, signal, sys, warnings
warnings.simplefilter("ignore")
builtins.oct = len
signal.signal(signal.SIGTERM, print)
sys.stdout = slow
"""


def test_a_program_whose_stream_is_long_flushed_has_taken_all_else_along(session, gate, tmp_path):
    # It was flushed before the rest was put back: the thread that was given up undid what the next cells set.
    program = tmp_path / "program.py"
    program.write_text(ENDING)
    s = session(1, extras=lambda _: {"slow": Slow(gate)})
    s.run("import builtins, signal, sys\nfirst = builtins.oct, signal.getsignal(signal.SIGTERM)")
    pending = s.run_nowait(compile_file(program))
    gate.arrived(1)
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    assert s.run("(builtins.oct, signal.getsignal(signal.SIGTERM)) == first")[0]
    s.run("builtins.oct = abs")
    gate.open()
    for thread in s._launcher.stuck:
        thread.join(DEADLINE_S)
    assert s.run("builtins.oct is abs")[0]


def test_who_gives_a_thread_up_does_not_wait_for_the_stream_it_writes_to(session, gate, tmp_path):
    # It was flushed by who gave the thread up, and waited as long as the thread did.
    program = tmp_path / "program.py"
    program.write_text("import sys\nsys.stdout = slow\nslow.gate()\n")
    s = session(1, extras=lambda _: {"slow": Slow(gate)})
    pending = s.run_nowait(compile_file(program))
    gate.arrived(1)
    pending.cancel()
    with pytest.raises(CellError, match="given up"):
        pending.wait()
    given_up_comes_back(s, gate)


def test_a_session_whose_worker_s_stream_is_never_flushed_leaves_python_as_it_was(session, gate):
    s = session(1, extras=lambda _: {"slow": Slow(gate)})
    s.run("import sys\nsys.stdout = slow")
    ended = threading.Thread(target=s.shutdown)
    ended.start()
    gate.arrived(1)
    assert type(sys) is types.ModuleType
    gate.open()
    ended.join(DEADLINE_S)
