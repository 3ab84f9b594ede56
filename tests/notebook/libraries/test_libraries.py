"""What is changed in libraries while they are used on workers, and how it is undone."""

from __future__ import annotations

import runpy
import sys
import threading
import warnings
from functools import partial
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

from disco_magic.isolation.imported import AfterImport, Libraries, each_of, is_imported
from disco_magic.notebook.libraries.bars import fit_auto
from disco_magic.notebook.libraries.rich_console import fit_console
from disco_magic.notebook.output.formatting import worker_formatting
from tests.notebook.acting import as_worker, new_worker

# --- after an import -------------------------------------------------------------------------------


@pytest.fixture
def finder(monkeypatch):
    """``finder(actions)`` puts a finder before all others."""

    def put_first(actions):
        monkeypatch.setattr(sys, "meta_path", [AfterImport(actions), *sys.meta_path])

    return put_first


def test_a_module_is_given_to_its_action_once_it_is_there(module_of, finder):
    name, other, seen = module_of("x = 1"), module_of("x = 2"), []
    finder({name: lambda module: seen.append((module.x, type(module.__loader__).__name__))})
    module = __import__(name)
    assert (module.x, __import__(other).x) == (1, 2)
    assert seen == [(1, "SourceFileLoader")]
    assert module.__spec__.loader is module.__loader__


def test_who_only_looks_for_a_module_finds_what_its_loader_can_do(module_of, finder):
    # `runpy` finds a module without importing it, and asks the loader that it finds for the code.
    name, seen = module_of("x = 1"), []
    finder({name: seen.append})
    assert runpy.run_module(name)["x"] == 1
    assert find_spec(name).loader.get_source(name) == "x = 1"
    with pytest.raises(AttributeError, match="no_such_method"):
        find_spec(name).loader.no_such_method()
    assert (seen, name in sys.modules) == ([], False)


def test_a_finder_that_cannot_find_is_not_asked(module_of, monkeypatch):
    # The import system goes past what has no `find_spec`; ours asks all others in its place.
    name, seen = module_of("x = 1"), []
    monkeypatch.setattr(sys, "meta_path", [AfterImport({name: seen.append}), object(), *sys.meta_path])
    assert [__import__(name)] == seen


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


def test_a_module_that_a_worker_imports_sets_itself_up_as_the_process_s(module_of, finder, texts, live):
    name = module_of(
        "from disco_magic.notebook.output.streams import current_sink\nsink = current_sink.get()"
    )
    finder({name: print})
    _, (sink, _) = live(texts)
    module = as_worker(new_worker(), sink, __import__, name)
    assert module.sink is None


def test_a_module_that_is_being_imported_is_not_there_yet(module_of):
    name = module_of("from disco_magic.isolation.imported import is_imported\nearly = is_imported(__name__)")
    assert __import__(name).early is False
    assert is_imported(name)
    assert not is_imported("disco_no_such_module")


# --- who changes what ------------------------------------------------------------------------------


class User:
    """Somebody who wants libraries changed."""


@pytest.fixture
def libraries(module_of):
    """`Libraries` that changes one module that is there and one that is not; `log` says what was done."""
    there, later = module_of(""), module_of("")
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


def test_what_changes_one_library_may_import_another(module_of, background):
    # Imports under the lock call `_fit` again, on the same thread.
    user, log = User(), []
    inner, outer = module_of(""), module_of("")

    def fit_outer(module):
        __import__(inner)
        log.append(module.__name__)

    libraries = Libraries({outer: fit_outer, inner: lambda module: log.append(module.__name__)})
    libraries.enter(user)
    background(__import__, outer)()
    libraries.leave(user)
    assert log == [inner, outer]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        AttributeError("it has no such thing"),
        TypeError("it is something else"),
        ValueError("it requires a code object with 1 free vars, not 0"),
    ],
)
def test_a_library_that_is_not_as_we_know_it_stays_as_it_is(module_of, answer):
    def fit(_):
        if answer is not None:
            raise answer

    user, name = User(), module_of("")
    libraries = Libraries({name: fit})
    libraries.enter(user)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert __import__(name)
    libraries.leave(user)
    told = (
        [] if answer is None else [f"{name} is not a version that this disco_magic knows: all workers share "]
    )
    assert [str(each.message)[: len(told[0])] for each in caught] == told


def test_who_is_warned_of_one_can_wait_for_a_thread_that_enters(module_of, monkeypatch):
    def fit(module):
        return module.what_is_not_there

    def show(*_):
        thread = threading.Thread(target=libraries.enter, args=[User()])
        thread.start()
        thread.join(20.0)
        ended.append(not thread.is_alive())

    user, name, ended = User(), module_of(""), []
    libraries = Libraries({name: fit})
    __import__(name)
    monkeypatch.setattr(warnings, "showwarning", show)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        libraries.enter(user)
    assert ended == [True]


def test_where_warnings_are_errors_a_session_starts_all_the_same(module_of):
    name = module_of("")
    libraries, user = Libraries({name: lambda module: module.what_is_not_there}), User()
    libraries.enter(user)
    assert __import__(name)
    libraries.leave(user)


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
    wrapper = worker_formatting(shell)
    wrapper.put()
    with pytest.raises(ValueError, match="no picture"):
        as_worker(new_worker(), sink, formatters.show, shell, told)
    formatters.show(shell, told)
    as_worker(new_worker(), sink, shell.showtraceback, told)
    as_worker(new_worker(), sink, formatters.show, shell)
    assert shell.shown == [told, told, None]
    wrapper.take()
    assert "showtraceback" not in vars(shell)
    shell.showtraceback = own = shell.shown.append
    wrapper = worker_formatting(shell)
    wrapper.put()
    wrapper.take()
    assert shell.showtraceback is own


def test_what_others_put_over_ours_stays():
    # Tracebacks are made pretty by replacing `showtraceback` of the shell, maybe while a cell runs.
    shell, theirs = Told(), print
    wrapper = worker_formatting(shell)
    wrapper.put()
    shell.showtraceback = theirs
    wrapper.take()
    assert shell.showtraceback is theirs
    wrapper = worker_formatting(shell)
    wrapper.put()
    del shell.showtraceback
    wrapper.take()
    assert "showtraceback" not in vars(shell)


# --- rich and tqdm.auto ----------------------------------------------------------------------------

RICH = """
_console = None


def get_console():
    global _console
    if _console is None:
        _console = "everybody's"
    return _console
"""


def test_every_worker_has_a_console_of_its_own_and_the_notebook_has_the_common_one(module_of, monkeypatch):
    made = []

    class Console:
        def __init__(self, **options):
            made.append(options)

    monkeypatch.setitem(sys.modules, "rich.console", SimpleNamespace(Console=Console))
    module = __import__(module_of(RICH))
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


@pytest.mark.parametrize(
    "wrapped",
    [
        "import functools\nget_console = functools.cache(get_console)",
        "def decorated(f):\n    return lambda: f()\nget_console = decorated(get_console)",
    ],
    ids=["object", "closure"],
)
def test_a_console_that_somebody_has_wrapped_is_everybody_s(module_of, wrapped):
    # Code without a closure cannot be put into a function with one, nor into what is no function.
    module = __import__(module_of(f"{RICH}\n\n{wrapped}\n"))
    ask = module.get_console
    assert fit_console(module) is None
    assert module.get_console is ask
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


class Owner:
    """Who wants libraries changed."""


def test_of_modules_that_are_there_the_first_one_is_changed_first_and_undone_last(monkeypatch):
    names = [f"there_{number}" for number in range(20)]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    steps = []

    def fit(module):
        steps.append(module.__name__)
        return lambda: steps.append(f"not {module.__name__}")

    libraries, owner = Libraries(dict.fromkeys(names, fit)), Owner()
    libraries.enter(owner)
    libraries.leave(owner)
    assert steps == names + [f"not {name}" for name in reversed(names)]


def test_one_that_cannot_be_undone_keeps_none_of_the_others(monkeypatch):
    undone = []

    def undo(name):
        undone.append(name)
        if name == "there_1":
            raise ValueError(name)

    names = [f"there_{number}" for number in range(3)]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    libraries, owner = (
        Libraries({name: lambda module: partial(undo, module.__name__) for name in names}),
        Owner(),
    )
    libraries.enter(owner)
    with pytest.raises(ValueError, match="there_1"):
        libraries.leave(owner)
    assert undone == ["there_2", "there_1", "there_0"]
    libraries.enter(owner)
    with pytest.raises(ValueError, match="there_1"):
        libraries.leave(owner)
    assert len(undone) == 6


def test_several_changes_of_a_module_do_not_need_each_other():
    undone = []

    def unknown(module):
        return module.what_is_not_there

    def known(number):
        return lambda _: lambda: undone.append(number)

    undo = each_of(known(1), unknown, lambda _: None, known(2))(ModuleType("there"))
    undo()
    assert undone == [2, 1]
