"""pyplot on workers: each has its own figures, which are shown under its id; formulas; settings."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

matplotlib = pytest.importorskip("matplotlib", reason="the extra 'lab' has it")

from tests.kernels import Kernel  # noqa: E402
from tests.notebook.libraries.drawings import IMAGE, PLOT, decoded, pictures  # noqa: E402
from tests.sampled import one_in  # noqa: E402

# --- which figures are shown where -----------------------------------------------------------------


def test_at_the_end_of_a_cell_the_figures_of_all_workers_stand_side_by_side(plots):
    ran = plots.ok("%%disco\nplot('first', 'second')\nprint('drawn')")
    (shown,) = [display for display in ran.displays if display["metadata"].get("disco")]
    assert shown["metadata"]["disco"] == {"workers": [0, 1, 2, 3]}
    lines, figures = pictures(ran)[:4], pictures(ran)[4:]
    assert sorted(lines) == [(f"[{w}] drawn", "") for w in range(4)]
    assert figures == [(f"[{w}]", f"{name} of w{w}") for name in ("first", "second") for w in range(4)]


SLOWLY = """
import threading
import matplotlib.pyplot as plt
choose, chosen = plt.switch_backend, []
def slowly(name):
    chosen.append(threading.current_thread().name)
    threading.Event().wait(0.3)
    choose(name)
plt.switch_backend = slowly
"""


def test_one_worker_chooses_the_backend_and_the_first_figures_of_all_are_shown():
    # Of four that import it at once one may find it half imported, and makes figures that nobody notes.
    fresh = Kernel()
    try:
        fresh.ok("%load_ext disco_magic\n%disco start -n 4")
        fresh.ok(SLOWLY)
        ran = fresh.ok(f"%%disco\n{PLOT}\nplot('first')")
        (shown,) = [display for display in ran.displays if display["metadata"].get("disco")]
        assert shown["metadata"]["disco"] == {"workers": [0, 1, 2, 3]}
        # The backend chooses itself once more as it is imported, and IPython in the notebook's own thread.
        assert fresh.ok("len({name for name in chosen if name.startswith('disco-')})").value == "1"
    finally:
        fresh.close()


def test_many_figures_with_formulas_from_all_workers_at_once_are_all_there_and_right(plots):
    source = (
        "for i in range(2):\n"
        "    plot(f'n{i}')\n"
        "    plt.axis('off')\n"
        "    plt.text(0, 1, rf'$x_{{{n}}}^{{{worker_id}}} + \\alpha$')\n"
    )
    for n in one_in(3, range(8)):
        ran = plots.ok(f"%%disco\nn = {n}\n{source}")
        assert pictures(ran) == [(f"[{w}]", f"n{i} of w{w}") for i in range(2) for w in range(4)]


def test_what_a_worker_does_after_it_showed_a_figure_comes_behind_it(plots):
    ran = plots.ok("%%disco\nprint('before')\nplot('it')\nplt.show()\nprint('after')")
    shown = pictures(ran)
    for worker in range(4):
        mine = [line for line in shown if line[0].startswith(f"[{worker}]")]
        assert mine == [
            (f"[{worker}] before", ""),
            (f"[{worker}]", f"it of w{worker}"),
            (f"[{worker}] after", ""),
        ]


def test_figures_that_are_shown_last_stand_side_by_side_too(plots):
    ran = plots.ok("%%disco --progress-after none\nplot('it')\nplt.show()")
    assert pictures(ran) == [(f"[{w}]", f"it of w{w}") for w in range(4)]
    assert len(ran.displays) == 1


def test_a_figure_that_is_the_cell_s_value_is_shown_as_that_and_once(plots):
    ran = plots.ok("%%disco -w 2\nplot('it')\nplt.gcf()")
    html = next(m for m in ran.messages if m["msg_type"] == "execute_result")["content"]["data"]["text/html"]
    drawings = [html, *(decoded(image) for _, image in IMAGE.findall(html))]
    assert (sum(drawing.count(">it of w2<") for drawing in drawings), ran.displays) == (1, [])
    assert plots.ok("%%disco -w 2\nplt.get_fignums()").value == "[2] []"


def test_one_figure_is_an_ordinary_display(plots):
    ran = plots.ok("%%disco -w 1\nplot('it')")
    assert pictures(ran) == [("[1]", "it of w1")]
    assert set(ran.displays[0]["data"]) == {"text/plain", "image/svg+xml"}


@pytest.mark.parametrize(("option", "labels"), [("--show 3", ["[3]"]), ("--output none", [])])
def test_figures_of_workers_that_are_not_shown_are_not_shown(plots, option, labels):
    ran = plots.ok(f"%%disco {option}\nplot('it')")
    assert [label for label, _ in pictures(ran)] == labels


def test_equal_figures_are_shown_once_where_equal_output_is(plots):
    plots.ok("%config InlineBackend.figure_formats = ['png']")  # the names of an SVG's parts are random
    ran = plots.ok("%%disco --output grouped\nplt.figure(figsize=(1, 1))\nplt.plot([worker_id // 2, 3]);")
    plots.ok("%config InlineBackend.figure_formats = ['svg']")
    html = ran.displays[0]["data"]["text/html"]
    assert re.findall(r"\[[\d-]+\]", html) == ["[0-1]", "[2-3]"]


def test_in_an_ordered_cell_figures_are_ordered_by_worker(plots):
    ran = plots.ok("%%disco --output ordered\nplot('a')\nplt.show()\nprint('x')\nplot('b', 'c')\nplt.show()")
    lines = [pair for w in range(4) for pair in ((f"[{w}]", f"a of w{w}"), (f"[{w}] x", ""))]
    assert pictures(ran) == lines + [(f"[{w}]", f"{name} of w{w}") for w in range(4) for name in "bc"]


def test_a_failing_cell_shows_the_figures_it_has_made(plots):
    ran = plots.run("%%disco\nplot('it')\n1 / 0")
    assert (ran.status, len(pictures(ran))) == ("error", 4)


# --- the notebook's own ----------------------------------------------------------------------------


def test_the_notebook_s_figures_and_the_workers_do_not_mix(plots):
    plots.ok("import builtins, threading\nbuiltins.gate = threading.Event()")
    started = plots.send("%%disco --nowait -o handle\nimport builtins\nplot('it')\nbuiltins.gate.wait(20)")
    plots.finish(started)
    ran = plots.ok("plt.figure(figsize=(1, 1))\nplt.title('mine of w9')\nprint(plt.get_fignums())")
    assert pictures(ran) == [("[1]", "mine of w9")]
    later = plots.ok("builtins.gate.set()\nhandle.wait()\nprint(plt.get_fignums())")
    assert later.lines == ["[]"]
    late = SimpleNamespace(settled=later.late)
    assert pictures(late) == [(f"[{w}]", f"it of w{w}") for w in range(4)]
    assert {message["parent_header"]["msg_id"] for message in later.late} == {started}


def test_a_worker_goes_on_with_its_figure_where_the_notebook_does(plots):
    plots.ok("%config InlineBackend.close_figures = False")
    try:
        assert len(pictures(plots.ok("%%disco\nplot('it');"))) == 4
        ran = plots.ok("%%disco\nplt.title(f'more of w{worker_id}')\nplt.get_fignums()")
        assert ran.value == "[0-3] [1]"
        assert pictures(plots.ok("%%disco\nplt.show()")) == [(f"[{w}]", f"more of w{w}") for w in range(4)]
        assert plots.ok("plt.get_fignums()").value == "[]"
    finally:
        plots.ok("%config InlineBackend.close_figures = True")
        plots.ok("%%disco\nplt.close('all')")


def test_figures_are_gone_when_they_were_shown(plots):
    before = plots.left("matplotlib.figure", "Figure")
    plots.ok("%%disco\nplot('a', 'b')")
    plots.ok("%%disco\nplot('it')\nplt.show()")
    assert plots.left("matplotlib.figure", "Figure", besides=before) <= 0


# --- what goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", ["", "plt.show()", "plt.gcf()"])
def test_a_figure_that_cannot_be_drawn_fails_its_cell(plots, shown):
    ran = plots.run(f"%%disco\nplot('it')\nif worker_id: plt.xlabel(r'$\\nonsense$')\n{shown}")
    assert ran.status == "error"
    assert "failed on worker 1 and on 2 others" in ran.traceback
    assert "Unknown symbol: \\nonsense" in ran.traceback
    assert len([m for m in ran.messages if m["msg_type"] == "error"]) == 1
    assert len(pictures(plots.ok("%%disco\nplot('next')"))) == 4


def test_of_a_failing_cell_the_figure_that_cannot_be_drawn_is_a_note(plots):
    ran = plots.run("%%disco\nplot('it')\nplt.xlabel(r'$\\nonsense$')\n1 / 0")
    assert "[0-3] ZeroDivisionError" in ran.traceback
    assert "its figures could not be drawn: ValueError" in ran.traceback


STUCK = {
    "Python code": "while True:\n            i = 1",
    "C code": "import queue\n        queue.Queue().get()",
}


@pytest.mark.parametrize("where", STUCK)
def test_an_interrupt_in_a_formula_leaves_neither_the_parser_locked_nor_figures_behind(plots, where):
    plots.ok(
        "import sys\nfrom matplotlib import _mathtext\nparse = _mathtext.Parser.parse\n"
        "def stuck(self, text, *args):\n"
        "    if 'stuck' in text:\n"
        "        print('parsing', file=sys.stdout, flush=True)\n"
        f"        {STUCK[where]}\n"
        "    return parse(self, text, *args)\n"
        "_mathtext.Parser.parse = stuck"
    )
    cell = plots.send("%%disco\nplot('it')\nplt.xlabel('$stuck$')")
    before = plots.until_text(cell, "parsing\n")
    plots.interrupt()
    ran = plots.finish(cell, before)
    assert (ran.status, ran.error["ename"]) == ("error", "KeyboardInterrupt")
    ran = plots.ok("%%disco\nplot('next')\nplt.xlabel(f'$x^{worker_id}$')")
    plots.ok("_mathtext.Parser.parse = parse")
    assert pictures(ran) == [(f"[{w}]", f"next of w{w}") for w in range(4)]


def test_a_figure_of_an_interrupted_cell_is_not_drawn(plots):
    cell = plots.send("%%disco\nplot('it')\nprint('ready', flush=True)\nwhile True:\n    i = 1\n    i += 1")
    before = plots.until_text(cell, "ready\n", times=4)
    plots.interrupt()
    assert "data:image" not in str(plots.finish(cell, before).messages)
    assert plots.ok("%%disco\nplt.get_fignums()").value == "[0-3] []"


# --- settings --------------------------------------------------------------------------------------


def test_a_style_that_holds_for_a_block_holds_for_that_worker_alone_and_ends_with_it(plots):
    ran = plots.ok(
        "%%disco\ncolours, mine = set(), {'text.color': f'C{worker_id}'}\nfor i in range(20):\n"
        "    with plt.style.context(mine):\n        colours.add(plt.rcParams['text.color'])\n"
        "colours, plt.rcParams['text.color']"
    )
    assert ran.value.splitlines() == [f"[{w}] ({{'C{w}'}}, 'black')" for w in range(4)]
    assert plots.ok("plt.rcParams['text.color']").value == "'black'"


def test_settings_of_the_notebook_hold_on_workers_and_those_of_a_worker_on_it(plots):
    plots.ok("plt.rcParams['figure.dpi'] = 50")
    plots.ok("%%disco -w 1\nplt.rcParams['figure.dpi'] = 60")
    assert plots.ok("%%disco\nplt.rcParams['figure.dpi']").value == "[0,2-3] 50.0\n[1]     60.0"
    plots.ok("plt.rcParams['figure.dpi'] = 70")
    assert plots.ok("%%disco\nplt.rcParams['figure.dpi']").value == "[0,2-3] 70.0\n[1]     60.0"
    plots.ok("%%disco -w 1\nplt.rcParams['figure.dpi'] = 70")
    assert plots.ok("plt.rcParams['figure.dpi'] = 80\nplt.rcParams['figure.dpi']").value == "80.0"
    assert plots.ok("%%disco\nplt.rcParams['figure.dpi']").value == "[0-3] 80.0"


# --- it comes and goes with what it is for ---------------------------------------------------------


def test_a_cell_on_all_workers_may_be_the_first_that_imports_pyplot():
    kernel = Kernel()
    try:
        kernel.ok("%load_ext disco_magic\n%disco start -n 4")
        kernel.ok("%%disco\nprint('nothing is plotted')")
        assert kernel.ok("import sys\n'matplotlib' in sys.modules").value == "False"
        kernel.ok(
            f"%%disco\nimport matplotlib\nmatplotlib.rcParams['svg.fonttype'] = 'none'\n{PLOT}plot('it')"
        )
        kernel.ok("%config InlineBackend.figure_formats = ['svg']")
        assert pictures(kernel.ok("%%disco\nplot('it')")) == [(f"[{w}]", f"it of w{w}") for w in range(4)]
    finally:
        kernel.close()


def test_unloading_takes_everything_out_again(plots):
    plots.ok("%unload_ext disco_magic")
    ran = plots.ok(
        "import collections, matplotlib, sys\nfrom matplotlib import _pylab_helpers, mathtext\n"
        "from matplotlib_inline import backend_inline\n"
        "print(type(_pylab_helpers.Gcf.figs) is collections.OrderedDict)\n"
        "print(type(matplotlib.rcParams) is matplotlib.RcParams)\n"
        "print([each.__module__ for each in (matplotlib.rc_context, mathtext.MathTextParser.parse, "
        "backend_inline.show)])\n"
        "print([each for each in sys.meta_path if 'disco' in type(each).__module__])\n"
        "print([name for name in vars(get_ipython()) if name == 'showtraceback'])"
    )
    modules = ["matplotlib", "matplotlib.mathtext", "matplotlib_inline.backend_inline"]
    assert ran.lines == ["True", "True", str(modules), "[]", "[]"]
    plots.ok("%load_ext disco_magic\n%disco start -n 4")
    plots.ok(f"%%disco\n{PLOT}")
