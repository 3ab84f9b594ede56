"""Functions of `builtins` that a worker replaces are its own: `print`, which only the first rank is to do."""

from __future__ import annotations

import builtins
import pickle
import sys
import threading

import pytest

from disco_magic.errors import CellError
from disco_magic.functions.execution.scripts import compile_file
from disco_magic.isolation import own_builtins
from tests.conftest import DEADLINE_S
from tests.session.conftest import FIRST

pytestmark = pytest.mark.usefixtures("builtins_as_before")

# As many programs have it in a module of helpers.
HELPERS = """
import builtins

def set_up(is_master):
    builtin_print = builtins.print

    def print(*values, **options):
        force = options.pop("force", False)
        if is_master or force:
            builtin_print("helped", *values, **options)

    builtins.print = print

def say(*values, **options):
    print(*values, **options)
"""
FIRST_OCT = oct


@pytest.fixture
def helpers(tmp_path, monkeypatch):
    (tmp_path / "helpers_of_print.py").write_text(HELPERS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("helpers_of_print", None)


def lines(capsys):
    return sorted(capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("where", ["a module", "a cell", "a module of its own"])
def test_a_print_that_ranks_replace_is_each_ones_own(session, capsys, helpers, where):
    own = ["helpers_of_print"] if "own" in where else ()
    s = session(3, own_modules=own)
    s.run(HELPERS if where == "a cell" else "from helpers_of_print import say, set_up")
    s.run("set_up(worker_id == 0)\nsay('said')\nprint('printed')\nprint('forced', force=True)")
    s.run("say('next')\nsay('forced', force=True)")
    print("the notebook")
    s.shutdown()
    print("and after")
    first = [f"[0] helped {word}" for word in ("said", "printed", "next")]
    forced = [f"[{worker}] helped forced" for worker in range(3)] * 2
    assert lines(capsys) == sorted([*first, *forced, "the notebook", "and after"])


BACK = {
    "what was there": "builtins.print = first",
    "what the module finds": "builtins.print = vars(builtins)['print']",
    "what the cell had": "builtins.print = mine",
}


def test_workers_may_replace_one_at_the_same_moment(session, monkeypatch):
    # The second one comes between the first one's two questions.
    asks, first, second = own_builtins._is_function, threading.Event(), threading.Event()

    def late(name):
        if not first.is_set():
            first.set()
            assert second.wait(DEADLINE_S)
        return asks(name)

    monkeypatch.setattr(own_builtins, "_is_function", late)
    before = builtins.oct
    s = session(2, extras=lambda _: {"first": first, "second": second})
    s.run(
        "import builtins\ndef oct(x): return worker_id\n"
        "if worker_id: first.wait()\nbuiltins.oct = oct\nif worker_id: second.set()"
    )
    assert s.run("builtins.oct(8)").values == [0, 1]
    assert builtins.oct(8) == "0o10"
    s.shutdown()
    assert builtins.oct is before


@pytest.mark.parametrize("back", BACK)
def test_what_was_there_can_be_put_back(session, capsys, back):
    s = session(2)
    s.run("import builtins\nfirst, mine = builtins.print, print\nbuiltins.print = len")
    assert s.run("builtins.print is len, print('four')").values == [(True, 4)] * 2
    s.run(f"{BACK[back]}\nprint('heard')")
    assert s.run("builtins.print is first, print is mine").values == [(True, True)] * 2
    assert lines(capsys) == ["[0] heard", "[1] heard"]


def test_one_that_calls_what_it_found_by_its_name_calls_the_one_below(session, capsys, helpers):
    """Once one worker has replaced it, that name means what asks who calls."""
    s = session(2)
    s.run("import builtins\nbuiltins.print = len", workers=[0])
    s.run(
        "import builtins, helpers_of_print\nkept = vars(builtins)['print']\n"
        "builtins.print = lambda *values: kept('below', *values)\nhelpers_of_print.say('x')",
        workers=[1],
    )
    assert capsys.readouterr().out == "[1] below x\n"


def test_the_notebook_may_replace_it_meanwhile(session, capsys, helpers, monkeypatch):
    s = session(2)
    s.run("from helpers_of_print import say, set_up\nset_up(worker_id == 0)")
    by_name = print
    said = []

    def noted(*values, **options):
        said.append(values)
        by_name("noted", *values, **options)

    before = builtins.print
    builtins.print = noted
    print("x")
    s.run("say('y')")
    builtins.print = vars(builtins)["print"]
    print("z")
    assert builtins.print is before
    assert said == [("x",)]
    assert capsys.readouterr().out == "noted x\n[0] helped y\nz\n"


def test_a_program_s_ends_with_the_program(session, capsys, helpers, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("builtins.print = first\nh.set_up(worker_id == 1)\nh.say('in it')\n")
    s = session(2)
    s.run("import builtins, helpers_of_print as h\nfirst = builtins.print\nh.set_up(worker_id == 0)")
    s.run_file(program)
    s.run("h.say('after')\nprint('after')")
    assert lines(capsys) == ["[0] helped after", "[0] helped after", "[1] helped in it"]


def test_a_program_s_ends_with_a_thread_that_is_given_up_and_stays_so(session, gate, capsys, tmp_path):
    s = session(1, extras=lambda _: {"gate": gate})
    program = tmp_path / "program.py"
    program.write_text(
        "import builtins, signal, sys\nfirst = builtins.print\nbuiltins.print = len\nsys.stdout = None\n"
        "try: gate()\nfinally: left = True\n"
    )
    pending = s.run_nowait(compile_file(program))
    gate.arrived(1)
    stuck = s._launcher.workers[0].lane.thread_id
    pending.cancel()
    with pytest.raises(CellError, match="given up"):
        pending.wait()
    s.run("print('heard')\nbuiltins.print = lambda *values: first('mine', *values)")
    thread = next(each for each in s._launcher.stuck if each.ident == stuck)
    gate.open()
    thread.join(DEADLINE_S)
    s.run("print('heard')")
    assert capsys.readouterr().out == "[0] heard\n[0] mine heard\n"


def test_mock_replaces_open_for_its_worker(session, tmp_path):
    file = tmp_path / "file"
    file.write_text("real")
    s = session(2)
    s.run(f"def text():\n    with open({str(file)!r}) as read: return read.read()")
    told = s.run(
        "from contextlib import nullcontext\nfrom unittest import mock\n"
        "made = mock.mock_open(read_data='mocked')\n"
        "with mock.patch('builtins.open', made) if worker_id else nullcontext():\n"
        "    barrier()\n    first = text()\n    barrier()\nfirst, text()"
    ).values
    assert told == [("real", "real"), ("mocked", "real")]


def test_it_ends_with_the_worker(session, capsys):
    s = session(2)
    s.run("import builtins\nbuiltins.print = len")
    s.restart()
    s.run("print('heard')")
    assert lines(capsys) == ["[0] heard", "[1] heard"]


def test_nothing_stays_in_its_place_when_nobody_has_another_one(session):
    """Calls of what asks who calls take longer, and PyTorch replaces `max` for a moment."""
    s = session(2)
    s.run(
        "import builtins\nfirst = builtins.oct\nbuiltins.oct = lambda value: ('mine', first(value))\n"
        "barrier()\nfound = oct(8), vars(builtins)['oct'](8)\nbarrier()\nif worker_id: builtins.oct = first"
    )
    assert s.run("found").values == [(("mine", "0o10"),) * 2] * 2
    assert vars(builtins)["oct"](8) == "0o10"
    assert vars(builtins)["oct"] is not FIRST_OCT
    s.run("builtins.oct = first", workers=[0])
    assert vars(builtins)["oct"] is FIRST_OCT


@pytest.mark.parametrize("name", ["max", "min", "len", "sorted", "hasattr", "callable", "getattr", "repr"])
def test_what_we_call_ourselves_may_be_replaced(session, name):
    s = session(2)
    code = (
        f"import builtins\nfirst, builtins.{name} = builtins.{name}, lambda *args, **kw: first(*args, **kw)"
    )
    s.run(code)
    s.run(f"found = {name} is first, vars(builtins)['{name}'] is first")
    assert s.run("found").values == [(False, False)] * 2
    s.run(f"builtins.{name} = first")
    assert s.run(f"{name} is first, vars(builtins)['{name}'] is first").values == [(True, True)] * 2


def test_what_stands_in_its_place_is_pickled_and_looks_as_it(session):
    s = session(1)
    s.run("import builtins\nbuiltins.print = len")
    assert print is not FIRST[0]
    assert pickle.loads(pickle.dumps(print)) is print  # noqa: S301 - our own
    assert (repr(print), print.__name__, print.__doc__) == (repr(FIRST[0]), "print", FIRST[0].__doc__)
    with pytest.raises(CellError, match="TypeError"):
        s.run("builtins.print(1, 2)")


@pytest.mark.parametrize("name", ["eval", "exec", "locals", "globals", "vars", "dir", "breakpoint"])
def test_what_looks_at_the_frame_that_calls_it_is_replaced_in_cells(session, name):
    # In its place stood what asks who calls, for everybody, and they looked at its frame.
    s, first = session(2), vars(builtins)[name]
    s.run(f"import builtins\nbuiltins.{name} = lambda *_: 'mine'", workers=[1])
    assert s.run(f"import builtins\n{name}({{}}) == builtins.{name}({{}}) == 'mine'", workers=[1])[1]
    assert vars(builtins)[name] is first


@pytest.mark.parametrize("own", ["pass", "builtins.print = len"])
def test_mock_puts_back_what_the_worker_had(session, own):
    s = session(2)
    s.run(f"import builtins\nfrom unittest import mock\n{own}\nbefore = builtins.print")
    s.run("with mock.patch('builtins.print') as heard: builtins.print(worker_id)")
    found = s.run("builtins.print is before, print is before, heard.call_args.args").values
    assert found == [(True, own != "pass", (rank,)) for rank in range(2)]


def test_who_deletes_its_own_has_what_was_there_at_first(session):
    # It was taken from everybody: NameError in the notebook.
    s = session(2)
    s.run("import builtins\nbuiltins.oct = lambda number: 'mine'", workers=[1])
    s.run("del builtins.oct", workers=[1])
    assert s.run("import builtins\noct(8), builtins.oct(8)").values == [("0o10", "0o10")] * 2
    assert oct is FIRST_OCT
