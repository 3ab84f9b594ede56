"""A worker's debugger in this process: what it follows, where it stops, what it leaves behind.

What a trace function does cannot be seen by coverage; here its parts are called one by one.
"""

from __future__ import annotations

import bdb
import builtins
import sys
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from disco_magic.errors import CellError, WorkerInterrupt
from disco_magic.functions.execution import running
from disco_magic.notebook.debugging import asking
from disco_magic.notebook.debugging.breakpoints import BREAKPOINTS
from disco_magic.notebook.debugging.debugger import DebuggerQuit, WorkerDebugger, cell_of, is_hidden


@pytest.fixture
def scripted(shell, monkeypatch):
    """Answers from scripts, worker by worker, for the shell's cells; every prompt is written down."""
    monkeypatch.setattr(InteractiveShell, "_instance", shell.ip)
    scripts, prompts = {}, []

    def answer(prompt=""):
        prompts.append(prompt)
        return scripts[int(prompt[1])].pop(0)

    monkeypatch.setattr(builtins, "input", answer)
    return SimpleNamespace(scripts=scripts, prompts=prompts)


@pytest.fixture
def here(scripted):
    """A debugger of worker 1 whose thread is the test's own, and the script of its prompts."""
    import threading

    lane = SimpleNamespace(interrupted=None, thread_id=threading.get_ident())
    worker = SimpleNamespace(
        id=1,
        num_workers=2,
        thread=threading.get_ident(),
        _guard=SimpleNamespace(_worker=SimpleNamespace(lane=lane)),
    )
    scripted.scripts[1] = script = []
    debugger = WorkerDebugger(worker, "breakpoint()")
    debugger.script, debugger.lane = script, lane
    yield debugger
    debugger._let_go()
    assert asking.ASKERS._queue == asking.deque()


def frame_of(source, filename="<a cell>"):
    """The frame of a piece of code that the runtime has executed."""
    frames, runtime = [], {}
    exec(compile("def call(function, *given): function(*given)", running.__file__, "exec"), runtime)
    names = {"keep": lambda: frames.append(sys._getframe(1))}
    runtime["call"](exec, compile(source + "\nkeep()", filename, "exec"), names)
    return frames[0]


MODULE = "exec('def f():\\n    breakpoint()', vars(m)); m.f()"


# --- in cells --------------------------------------------------------------------------------------------


def test_a_cell_stops_at_its_breakpoint_and_goes_on(crew, scripted):
    scripted.scripts.update({worker: ["p worker_id", "c"] for worker in range(crew.n)})
    result = crew.run("%%disco\nx = worker_id\nbreakpoint()\nx + 1")
    assert result.values == [worker + 1 for worker in range(crew.n)]
    assert sorted(scripted.prompts) == [f"[{worker}] ipdb> " for worker in range(crew.n) for _ in range(2)]
    assert {f"[{worker}] {worker}" for worker in range(crew.n)} <= set(crew.lines)


def test_an_interrupt_in_a_line_typed_at_the_prompt_is_no_error_of_that_line(crew, scripted):
    raising = "!from disco_magic.errors import WorkerInterrupt; raise WorkerInterrupt('as injected')"
    scripted.scripts.update({worker: [raising] for worker in range(crew.n)})
    error = crew.fail("%%disco\nbreakpoint()", CellError)
    assert {failure.summary for failure in error.failures.values()} == {"WorkerInterrupt: as injected"}
    assert "pdb" not in error.origin.traceback_text


def test_displays_at_the_prompt_are_shown_and_clear_nothing(crew, scripted):
    line = "!from IPython.display import display, clear_output; clear_output(); display(7)"
    scripted.scripts.update({worker: [line, "c"] for worker in range(crew.n)})
    crew.run("%%disco --output none\nbreakpoint()")
    assert {f"[{worker}] 7" for worker in range(crew.n)} <= set(crew.lines)


def test_a_step_on_the_way_meets_another_breakpoint(crew, scripted):
    scripted.scripts.update({worker: ["n", "n", "p 'inside'", "c"] for worker in range(crew.n)})
    crew.run("%%disco\ndef f():\n    breakpoint()\nbreakpoint()\nf()\n1")
    assert {f"[{worker}] 'inside'" for worker in range(crew.n)} <= set(crew.lines)


def test_a_collective_at_the_prompt_is_refused_where_others_could_not_join(crew, scripted):
    scripted.scripts.update({worker: ["p allreduce(worker_id).item()", "c"] for worker in range(crew.n)})
    crew.run("%%disco\nbreakpoint()\nallreduce(worker_id)")
    if crew.n == 1:
        assert "[0] 0" in crew.lines
    else:
        assert crew.out.count("a collective was called at the debugger's prompt of worker") == crew.n


WAYS = [
    "breakpoint()",
    "from IPython.core.debugger import set_trace; set_trace()",
    f"import types; m = types.ModuleType('m'); {MODULE}",
]


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_lead_to_it(crew, scripted, way):
    scripted.scripts.update({worker: ["up", "p told", "c"] for worker in range(crew.n)})
    assert crew.run(f"%%disco\ntold = worker_id\n{way}\n1").values == [1] * crew.n
    assert {f"[{worker}] {worker}" for worker in range(crew.n)} <= set(crew.lines)


def test_pythonbreakpoint_is_honoured(crew, scripted, monkeypatch):
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    crew.run("%%disco\nbreakpoint()")
    monkeypatch.setenv("PYTHONBREAKPOINT", "builtins.print")
    crew.run("%%disco\nbreakpoint('hello')")
    assert sorted(crew.lines) == [f"[{worker}] hello" for worker in range(crew.n)]
    assert scripted.prompts == []


def test_a_thread_of_the_cell_s_own_is_refused(crew, scripted):
    code = (
        "%%disco\nimport threading\nerrors = []\ndef f():\n    try:\n        breakpoint()\n"
        "    except Exception as error:\n        errors.append(str(error))\n"
        "thread = threading.Thread(target=f)\nthread.start()\nthread.join()\nerrors[0].count('has started')"
    )
    assert crew.run(code).values == [1] * crew.n


def test_outside_of_cells_breakpoints_are_what_they_were(crew, monkeypatch):
    called = []
    monkeypatch.setattr(sys, "breakpointhook", lambda *args: called.append(args))
    below = bdb.Bdb.set_trace
    monkeypatch.setattr(bdb.Bdb, "set_trace", lambda self, frame: called.append(frame))
    BREAKPOINTS.remove()
    crew.run("%%disco\n1")
    breakpoint(7)  # noqa: T100 - the notebook's own
    bdb.Bdb().set_trace()
    assert called == [(7,), sys._getframe()]
    crew.run("import disco_magic\ndisco_magic.session().call_packed(breakpoint, 8)\n%disco sync")
    assert called[2:] == [(8,)] * crew.n
    crew.run("%unload_ext disco_magic")
    breakpoint(9)  # noqa: T100 - as above
    assert called[-1] == (9,)
    assert sys.breakpointhook.__name__ == "<lambda>"
    assert bdb.Bdb.set_trace is not below


# --- which frames ----------------------------------------------------------------------------------------


def test_frames_of_the_runtime_and_of_asyncio_are_hidden(here):
    import asyncio

    frames = []

    async def look():
        frames.append(sys._getframe(1))

    asyncio.run(look())
    here.reset()
    assert is_hidden(frames[0])
    assert here._hidden_predicate(frames[0])
    assert not is_hidden(sys._getframe())
    assert not here._hidden_predicate(sys._getframe())
    assert cell_of(frames[0]) is None
    assert here.trace_dispatch(frames[0], "line", None) is None


def test_from_a_breakpoint_on_its_callers_are_followed_until_it_goes_on(here):
    here.script += ["n"]
    frame = frame_of("x = 1")
    before = frame.f_trace
    here.set_trace(frame)
    found = sys.gettrace(), frame.f_trace, here.stopframe
    here._let_go()
    assert found == (here.trace_dispatch, here.trace_dispatch, frame)
    assert (frame.f_trace, here.botframe, here.stopframe) == (before, None, None)
    assert sys.gettrace() is here._before


def test_c_follows_nothing_any_more(here):
    here.script += ["c"]
    before = sys._getframe().f_trace
    here.set_trace()
    assert sys.gettrace() is here._before
    assert sys._getframe().f_trace is before


def test_q_leaves_nothing_behind_either(here):
    here.script += ["q"]
    with pytest.raises(DebuggerQuit, match="left with q at"):
        here.set_trace()
    assert sys.gettrace() is here._before
    assert here._followed == []


def follow(debugger, frame, step="n"):
    """As if the user had stopped at `frame` and typed `step`."""
    debugger.reset()
    debugger.botframe = frame
    debugger._trace(frame, debugger.trace_dispatch)
    debugger.set_next(frame) if step == "n" else debugger.set_step()
    moved(debugger)


def moved(debugger):
    """As if the code had gone on: Python 3.14 does not stop again at the line where it was told to step."""
    debugger.cmdframe = None


def test_a_line_that_is_stepped_to_asks_and_q_there_is_one_error(here):
    frame = frame_of("x = 1")
    follow(here, frame)
    here.script += ["q"]
    with pytest.raises(DebuggerQuit) as caught:
        here.trace_dispatch(frame, "line", None)
    assert caught.value.__context__ is None
    assert here._followed == []


def test_a_line_that_is_stepped_to_asks_and_goes_on(here):
    frame = frame_of("x = 1")
    follow(here, frame)
    here.script += ["n"]
    assert here.trace_dispatch(frame, "line", None) == here.trace_dispatch
    moved(here)
    here.script += ["c"]
    assert here.trace_dispatch(frame, "line", None) is None


def test_an_interrupt_asks_nobody_what_to_do(here):
    frame = frame_of("x = 1")
    follow(here, frame)
    assert here.trace_dispatch(frame, "exception", (WorkerInterrupt, WorkerInterrupt(), None)) is None
    assert here._followed == []


def test_another_exception_can_be_looked_at_and_leaves_no_register(here):
    frame = frame_of("x = 1")
    follow(here, frame)
    here.script += ["p __exception__[0].__name__", "n"]
    here.trace_dispatch(frame, "exception", (KeyError, KeyError("k"), None))
    assert "__exception__" not in frame.f_globals


def test_the_next_piece_of_a_cell_goes_on_where_the_one_before_ended(here):
    body, last, library = frame_of("x = 1"), frame_of("y = x = 1"), frame_of("def f(): pass", "<a library>")
    follow(here, body)
    assert here.trace_dispatch(body, "return", None) == here.trace_dispatch
    assert here.stopframe is body
    assert here.trace_dispatch(library, "call", None) is None
    assert here.trace_dispatch(last, "call", None) == here.trace_dispatch
    assert (here.botframe, here.stopframe) == (last, None)


def test_after_s_what_the_runtime_calls_is_not_stepped_into(here):
    body, library = frame_of("x = 1"), frame_of("z = 1", "<a library>")
    follow(here, body, "s")
    here.trace_dispatch(body, "return", None)
    assert here.stopframe is body
    assert here.trace_dispatch(library, "call", None) is None


def test_with_a_breakpoint_elsewhere_c_goes_on_following(here):
    body, last = frame_of("x = 1\ny = 2"), frame_of("y = x = 1")
    follow(here, body)
    here.script += [f"b {__file__}:{sys._getframe().f_lineno}", "c"]
    try:
        assert here.trace_dispatch(body, "line", None) == here.trace_dispatch
        assert here.trace_dispatch(body, "return", None) == here.trace_dispatch
        assert here.trace_dispatch(last, "call", None) == here.trace_dispatch
        assert here.stoplineno == -1
    finally:
        here.clear_all_breaks()


def test_the_end_of_the_cell_is_the_end_of_it(here):
    frame = frame_of("x = 1")
    follow(here, frame)
    assert here._leave(frame, "line", None) is None
    assert here._followed
    assert here._leave(frame, "return", None) is None
    assert here._followed == []
    assert not here._is_next_piece(frame)


# --- at the prompt ---------------------------------------------------------------------------------------


def test_interact_shows_what_fails_and_an_interrupt_ends_it(here):
    here.script += ["interact", "1 / 0", "raise KeyboardInterrupt"]
    with pytest.raises(KeyboardInterrupt):
        here.set_trace()
    assert here.script == []


def test_the_end_of_the_input_ends_interact_first(here, monkeypatch):
    lines = iter(["interact", EOFError, "interact", "quit", "debug 1", EOFError])

    def answer(prompt):
        line = next(lines)
        if line is EOFError:
            raise EOFError
        return line

    monkeypatch.setattr(builtins, "input", answer)
    with pytest.raises(DebuggerQuit):
        here.set_trace()


def test_a_command_that_was_interrupted_gets_no_prompt(here):
    here.lane.interrupted = object()
    with pytest.raises(WorkerInterrupt, match="interrupted before it could ask"):
        here.set_trace()
    assert here._followed == []


def test_a_frame_that_steps_already_asks_at_once_where_a_breakpoint_is(here):
    frame = frame_of("x = 1")
    follow(here, frame)
    here.script += ["c"]
    here.set_trace(frame)
    assert here._followed == []


def test_what_it_writes_to_is_always_the_present_stream(here, capsys):
    here.stdout = None
    assert here.stdout is sys.stdout
