"""What is changed in libraries while they are used on workers, and how it is undone."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from disco_magic.notebook.libraries.bars import fit_auto
from disco_magic.notebook.libraries.rich_console import fit_console, fit_traceback
from disco_magic.notebook.output.publisher import worker_formatting
from tests.notebook.acting import as_worker, new_worker

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


def test_a_worker_that_installs_rich_s_tracebacks_leaves_the_notebook_s_errors_alone(module_of):
    module = __import__(
        module_of("shown = []\ndef install(**options):\n    shown.append(options)\n    return 7\n")
    )
    undo = fit_traceback(module)
    assert as_worker(new_worker(0), None, lambda: module.install(show_locals=True)) is sys.excepthook
    assert module.shown == []
    assert module.install(width=80) == 7
    assert module.shown == [{"width": 80}]
    undo()
    assert as_worker(new_worker(0), None, module.install) == 7


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
