"""What is changed in libraries while they are used on workers, and how it is undone; things per worker."""

from __future__ import annotations

import contextvars
import gc
import json
import os
import re
import subprocess
import sys
import threading
import warnings
import weakref
from types import ModuleType, SimpleNamespace

import pytest

from disco_magic.functions.context import Topology, WorkerContext, enter_worker
from disco_magic.notebook.bars import fit_auto
from disco_magic.notebook.drawing import Turns, fit_figure, fit_parser
from disco_magic.notebook.formatting import WorkerFormatting
from disco_magic.notebook.homes import OfWorkers
from disco_magic.notebook.imported import AfterImport, is_imported
from disco_magic.notebook.libraries import Libraries
from disco_magic.notebook.rich_console import fit_console
from disco_magic.notebook.streams import current_sink
from disco_magic.testing.doubles import Gate
from tests.kernels import ROOT

# --- things of which every worker has its own ------------------------------------------------------


def new_worker(number=0):
    return WorkerContext(number, Topology(4), None, None, session_id=9996)


def as_worker(worker, sink, function, *args):
    """Call `function` as a cell of `worker` does whose output goes to `sink`."""

    def call():
        enter_worker(worker)
        current_sink.set(sink)
        return function(*args)

    return contextvars.copy_context().run(call)


def test_every_worker_has_a_thing_of_its_own_from_cell_to_cell(texts, live):
    things = OfWorkers(list)
    workers = [new_worker(number) for number in range(2)]
    _, first_cell = live(texts)
    _, second_cell = live(texts)
    found = [as_worker(workers[n], first_cell[n], things.mine) for n in range(2)]
    assert found[0] is not found[1]
    assert all(as_worker(workers[n], second_cell[n], things.mine) is found[n] for n in range(2))
    assert as_worker(workers[1], None, things.mine) is found[1]  # in a function that no cell called
    assert OfWorkers(list).mine() is None
    assert things.mine() is None


def test_a_thread_that_was_given_up_keeps_its_things_and_its_successor_gets_others(texts, live):
    things, worker = OfWorkers(list), new_worker()
    _, (stuck, _) = live(texts)
    before = as_worker(worker, stuck, things.mine)
    stuck.abandon()
    _, (next_cell, _) = live(texts)
    after = as_worker(worker, next_cell, things.mine)
    assert after is not before
    assert as_worker(worker, stuck, things.mine) is before
    assert as_worker(worker, None, things.mine) is after


def test_things_go_with_their_worker_or_when_they_are_forgotten():
    class Thing:
        pass

    things, worker, other = OfWorkers(Thing), new_worker(), new_worker()
    watched = [weakref.ref(as_worker(each, None, things.mine)) for each in (worker, other)]
    things.forget()
    assert [watch() for watch in watched] == [None, None]
    last = weakref.ref(as_worker(other, None, things.mine))
    del other
    gc.collect()
    assert last() is None


# --- after an import -------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path, monkeypatch):
    """``written(text)`` writes a module that can be imported, and gives its name."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def write(text):
        names.append(f"written_{len(names)}_{tmp_path.name}")
        (tmp_path / f"{names[-1]}.py").write_text(text)
        return names[-1]

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def finder(monkeypatch):
    """``finder(actions)`` puts a finder before all others."""

    def put_first(actions):
        monkeypatch.setattr(sys, "meta_path", [AfterImport(actions), *sys.meta_path])

    return put_first


def test_a_module_is_given_to_its_action_once_it_is_there(written, finder):
    name, other, seen = written("x = 1"), written("x = 2"), []
    finder({name: lambda module: seen.append((module.x, type(module.__loader__).__name__))})
    module = __import__(name)
    assert (module.x, __import__(other).x) == (1, 2)
    assert seen == [(1, "SourceFileLoader")]
    assert module.__spec__.loader is module.__loader__


def test_a_module_that_is_not_there_is_not_found(finder):
    finder({"disco_no_such_module": print})
    with pytest.raises(ModuleNotFoundError):
        __import__("disco_no_such_module")


def test_a_folder_without_code_is_found_as_ever(finder, tmp_path, monkeypatch):
    (tmp_path / "disco_bare_folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    finder({"disco_bare_folder": seen.append})
    assert __import__("disco_bare_folder").__path__
    assert seen == []
    del sys.modules["disco_bare_folder"]


def test_a_module_that_a_worker_imports_sets_itself_up_as_the_process_s(written, finder, texts, live):
    name = written("from disco_magic.notebook.streams import current_sink\nsink = current_sink.get()")
    finder({name: print})
    _, (sink, _) = live(texts)
    module = as_worker(new_worker(), sink, __import__, name)
    assert module.sink is None


def test_a_module_that_is_being_imported_is_not_there_yet(written):
    name = written("from disco_magic.notebook.imported import is_imported\nearly = is_imported(__name__)")
    assert __import__(name).early is False
    assert is_imported(name)
    assert not is_imported("disco_no_such_module")


# --- who changes what ------------------------------------------------------------------------------


class User:
    """Somebody who wants libraries changed."""


@pytest.fixture
def libraries(written):
    """`Libraries` that changes one module that is there and one that is not; `log` says what was done."""
    there, later = written(""), written("")
    __import__(there)
    log = []

    def fit(module):
        name = "there" if module.__name__ == there else "later"
        log.append(name)
        return lambda: log.append(f"not {name}")

    libraries = Libraries({there: fit, later: fit})
    libraries.log, libraries.later = log, later
    before = list(sys.meta_path)
    yield libraries
    assert sys.meta_path == before


def test_what_is_there_is_changed_at_once_and_the_rest_when_it_is_imported(libraries):
    user = User()
    for _ in range(2):
        libraries.enter(user)
    assert libraries.log == ["there"]
    __import__(libraries.later)
    assert libraries.log == ["there", "later"]
    libraries.leave(user)
    assert libraries.log == ["there", "later", "not later", "not there"]
    libraries.leave(user)


def test_the_last_user_undoes_it_and_one_that_is_gone_is_no_user(libraries):
    users = [User(), User(), User()]
    for user in users:
        libraries.enter(user)
    gone = users.pop()
    del user, gone
    libraries.leave(users[0])
    assert libraries.log == ["there"]
    libraries.leave(users[1])
    assert libraries.log == ["there", "not there"]
    __import__(libraries.later)
    assert libraries.log == ["there", "not there"]


@pytest.mark.parametrize("answer", [None, AttributeError("it has no such thing")])
def test_a_library_that_is_not_as_we_know_it_stays_as_it_is(written, answer):
    def fit(_):
        if answer is not None:
            raise answer

    user, name = User(), written("")
    libraries = Libraries({name: fit})
    libraries.enter(user)
    assert __import__(name)
    libraries.leave(user)


# --- one thread draws at a time --------------------------------------------------------------------


def figure_module():
    """What `fit_figure` looks at in matplotlib; drawing goes through the test's own function."""

    class Figure:
        _render_lock = threading.RLock()

        def draw(self, action):
            return action()

    return SimpleNamespace(Figure=Figure)


def test_drawing_is_done_by_one_thread_at_a_time_and_may_draw_in_it():
    module, gate, done = figure_module(), Gate(), []
    before = vars(module.Figure)["draw"], module.Figure._render_lock
    undo = fit_figure(module)
    figure = module.Figure()

    def first():
        gate("drawing")
        done.append(figure.draw(lambda: "first"))

    threads = [threading.Thread(target=figure.draw, args=(first,))]
    threads[0].start()
    gate.arrived()
    threads.append(threading.Thread(target=figure.draw, args=(lambda: done.append("second"),)))
    threads[1].start()
    gate.open()
    for thread in threads:
        thread.join(20)
    assert done == ["first", "second"]
    undo()
    assert (vars(module.Figure)["draw"], module.Figure._render_lock) == before
    undo = fit_figure(module)
    module.Figure.draw = foreign = lambda *_: None
    undo()
    assert module.Figure.draw is foreign


def test_who_was_given_up_while_drawing_keeps_nobody_from_drawing(texts, live):
    renewed, gate = [], Gate()
    draw = Turns(lambda: renewed.append(True)).in_turn(lambda action: action())
    _, (stuck, other) = live(texts)
    thread = threading.Thread(target=as_worker, args=(new_worker(), stuck, draw, gate))
    thread.start()
    gate.arrived()
    stuck.abandon()
    assert as_worker(new_worker(1), other, draw, lambda: "drawn") == "drawn"
    assert draw(lambda: "drawn, too") == "drawn, too"
    assert renewed == [True]
    gate.open()
    thread.join(20)


def test_the_parser_of_who_was_given_up_is_made_anew(texts, live, monkeypatch):
    class MathTextParser:
        _parser = "half-way through a formula"

        def parse(self, action):
            return action()

    module, gate = SimpleNamespace(MathTextParser=MathTextParser), Gate()
    monkeypatch.setitem(sys.modules, "matplotlib.mathtext", module)
    undo = fit_parser(module)
    _, (stuck, _) = live(texts)
    thread = threading.Thread(target=as_worker, args=(new_worker(), stuck, MathTextParser().parse, gate))
    thread.start()
    gate.arrived()
    stuck.abandon()
    assert MathTextParser().parse(lambda: MathTextParser._parser) is None
    gate.open()
    thread.join(20)
    undo()


def test_formulas_are_read_in_turn_and_the_parser_is_put_back():
    class MathTextParser:
        _parser = "old"

        def parse(self, text):
            return text.upper()

    module = SimpleNamespace(MathTextParser=MathTextParser)
    before = MathTextParser.parse
    undo = fit_parser(module)
    assert MathTextParser.parse is not before
    assert MathTextParser().parse("x") == "X"
    undo()
    assert MathTextParser.parse is before
    undo = fit_parser(module)
    MathTextParser.parse = foreign = len
    undo()
    assert MathTextParser.parse is foreign


# --- what goes wrong while something is displayed --------------------------------------------------


class Formatters(ModuleType):
    """Calls `showtraceback` as IPython's formatters do."""

    def __init__(self):
        super().__init__("IPython.core.formatters")
        exec("def show(shell, *told): shell.showtraceback(*told)", vars(self))


class Told:
    """A shell that keeps what it is told to show."""

    def __init__(self):
        self.shown = []

    def showtraceback(self, exc_tuple=None, **options):
        self.shown.append(exc_tuple)


def test_on_a_worker_a_value_that_cannot_be_formatted_raises_and_elsewhere_it_is_shown(texts, live):
    shell, error, formatters = Told(), ValueError("no picture"), Formatters()
    told = (type(error), error, None)
    _, (sink, _) = live(texts)
    wrapper = WorkerFormatting(shell)
    with pytest.raises(ValueError, match="no picture"):
        as_worker(new_worker(), sink, formatters.show, shell, told)
    formatters.show(shell, told)
    as_worker(new_worker(), sink, shell.showtraceback, told)
    as_worker(new_worker(), sink, formatters.show, shell)
    assert shell.shown == [told, told, None]
    wrapper.remove()
    assert "showtraceback" not in vars(shell)
    shell.showtraceback = own = shell.shown.append
    WorkerFormatting(shell).remove()
    assert shell.showtraceback is own


# --- rich and tqdm.auto ----------------------------------------------------------------------------

RICH = """
_console = None


def get_console():
    global _console
    if _console is None:
        _console = "everybody's"
    return _console
"""


def test_every_worker_has_a_console_of_its_own_and_the_notebook_has_the_common_one(written, monkeypatch):
    made = []

    class Console:
        def __init__(self, **options):
            made.append(options)

    monkeypatch.setitem(sys.modules, "rich.console", SimpleNamespace(Console=Console))
    module = __import__(written(RICH))
    ask = module.get_console
    undo = fit_console(module)
    workers = [new_worker(number) for number in range(2)]
    consoles = [as_worker(worker, None, ask) for worker in workers for _ in range(2)]
    assert [type(console) for console in consoles] == [Console] * 4
    assert consoles[0] is consoles[1] is not consoles[2] is consoles[3]
    assert all(options["force_jupyter"] is False for options in made)
    assert ask() == "everybody's"
    undo()
    assert as_worker(workers[0], None, ask) == "everybody's"
    assert set(vars(module)) >= {"_console", "get_console"}
    assert "_disco_console" not in vars(module)


def auto_module():
    """`tqdm.auto` as it is in a notebook: bars are widgets."""

    class Bar:
        def __init__(self, *args, **options):
            self.options = options

    class Text(Bar):
        pass

    class Widget(Bar):
        pass

    return SimpleNamespace(tqdm=Widget, asyncio_tqdm=Text)


def test_bars_that_may_look_as_fits_are_text_on_workers_and_widgets_elsewhere(texts, live):
    module = auto_module()
    undo = fit_auto(module)
    _, (sink, _) = live(texts)

    class Own(module.tqdm):
        pass

    bar = as_worker(new_worker(), sink, lambda: module.tqdm([1], display=False, desc="x"))
    assert (type(bar), bar.options) == (module.asyncio_tqdm, {"desc": "x"})
    assert type(as_worker(new_worker(), sink, Own)) is Own
    assert type(module.tqdm()) is module.tqdm
    undo()
    undo()
    assert type(as_worker(new_worker(), sink, module.tqdm)) is module.tqdm
    assert fit_auto(SimpleNamespace(tqdm=int, asyncio_tqdm=int)) is None


# --- in a kernel -----------------------------------------------------------------------------------

FRAME = (
    "class Frame:\n"
    "    def __init__(self): self.worker = worker_id\n"
    "    def _repr_html_(self): return f'<table><tr><td>row of {self.worker}</td></tr></table>'\n"
    "    def __repr__(self): return f'row of {self.worker}'\n"
    "frame = Frame()\n"
)


def test_tables_are_shown_per_worker_as_values_and_as_displays(fresh):
    ran = fresh.ok(f"%%disco\n{FRAME}print(frame)\nframe")
    assert sorted(ran.lines) == [f"[{worker}] row of {worker}" for worker in range(4)]
    (result,) = [m["content"] for m in ran.messages if m["msg_type"] == "execute_result"]
    assert result["data"]["text/plain"].splitlines() == [f"[{worker}] row of {worker}" for worker in range(4)]
    assert result["data"]["text/html"].count("<table>") == 4
    ran = fresh.ok("%%disco\ndisplay(frame)")
    shown = {tuple(d["metadata"]["disco"]["workers"]): d["data"]["text/html"] for d in ran.displays}
    assert shown == {(w,): f"<table><tr><td>row of {w}</td></tr></table>" for w in range(4)}


def test_what_cannot_be_displayed_fails_its_cell_at_the_line_that_displays_it(fresh):
    bad = "class Bad:\n    def _repr_html_(self): return 1 / 0\n"
    ran = fresh.run(f"%%disco\n{bad}display(Bad())\nprint('not reached')")
    assert "----> 4 display(Bad())" in ran.traceback
    assert "[0-3] ZeroDivisionError" in ran.traceback
    assert (len([m for m in ran.messages if m["msg_type"] == "error"]), ran.lines) == (1, [])
    here = fresh.ok(f"{bad}display(Bad())\nprint('as ever')")
    assert here.lines == ["as ever"]


def test_a_bar_of_tqdm_auto_is_a_line_of_its_worker(fresh):
    pytest.importorskip("tqdm", reason="the extra 'loader' has it")
    ran = fresh.ok("%%disco\nfrom tqdm.auto import tqdm\nfor i in tqdm(range(3), desc='load'): pass")
    lines = sorted(line for line in ran.text("stderr").splitlines() if "100%" in line)
    assert [line[:15] for line in lines] == [f"[{worker}] load: 100%|" for worker in range(4)]


# --- notebooks that are committed ------------------------------------------------------------------

CELLS = """
%load_ext disco_magic
%disco start -n 4

%%disco
import sys
for i in range(9):
    print(i)
    print(i, file=sys.stderr)
worker_id

%%disco
class Pixel:
    def __repr__(self): return "pixel"
    def _repr_png_(self): return bytes([worker_id])
    def _repr_html_(self): return f"<b>{worker_id}</b>" if self.rich else None
for Pixel.rich in True, False, False:
    display(Pixel())
    print("behind")
display(Pixel())

%%disco
if worker_id == 3: raise ValueError("three")
if worker_id == 1: raise KeyError("one")

%%disco --check types
worker_id // 2
"""


def executed():
    """The outputs of a notebook of `CELLS`, as a file has them."""
    import nbformat
    from nbclient import NotebookClient

    sources = CELLS.strip().split("\n\n")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jupyter_client warns about its own defaults
        NotebookClient(
            notebook,
            timeout=60,
            allow_errors=True,
            record_timing=False,
            store_widget_state=False,
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        ).execute()
    text = json.dumps([cell.outputs for cell in notebook.cells], sort_keys=True)
    return re.sub(r"ipykernel_\d+", "ipykernel", text)


def test_an_ordered_notebook_is_the_same_byte_for_byte_however_busy_the_machine_is(monkeypatch):
    for package in ("nbclient", "nbformat"):
        pytest.importorskip(package, reason="the extra 'test' has it")
    monkeypatch.setenv("DISCO_OUTPUT", "ordered")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))))
    quiet = executed()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        loaded = executed()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert loaded == quiet
    assert quiet.count("[3] 8") == 2
