"""Plots that are drawn again and again in a loop: seen while it runs, in one place, and saved as it ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("matplotlib", reason="the extra 'lab' has it")

from tests.notebook.libraries.drawings import pictures

TURNS = 3
ALL = range(4)


@pytest.fixture
def loop(plots, tmp_path):
    """``loop(body, labels)`` runs it in turns; the next one begins when those workers' figures were seen."""
    plots.ok(
        "%%disco\nimport threading\nfrom pathlib import Path\nfrom IPython.display import clear_output\n"
        "def until_seen():\n"
        f"    while not Path({str(tmp_path)!r}, str(turn)).exists():\n"
        "        threading.Event().wait(0.02)"
    )

    def run(body, workers):
        cell = plots.send(
            f"%%disco\nfor turn in range({TURNS}):\n    {body}\n    until_seen()\n    barrier()"
        )
        messages = []
        for turn in range(TURNS):
            messages += plots.until(
                lambda message, turn=turn: (
                    figures(message) == [(f"[{w}]", f"n{turn} of w{w}") for w in workers]
                )
            )
            (tmp_path / str(turn)).touch()
        return plots.finish(cell, messages)

    return run


def figures(message):
    """Labels and titles of the figures in one message."""
    is_shown = message["msg_type"] in ("display_data", "update_display_data")
    return pictures(SimpleNamespace(settled=[{**message, "msg_type": "display_data"}])) if is_shown else []


def walls(outputs):
    """What they show, but for the lines that say who is where in a cell that takes long."""
    return [each["data"] for each in outputs if each.get("metadata", {}).get("disco")]


DRAW = "clear_output(wait=True); plot(f'n{turn}'); plt.show()"


def test_a_plot_of_one_worker_is_seen_in_every_turn_and_replaced_in_its_place(loop):
    ran = loop(f"if worker_id == 0: {DRAW}", [0])
    assert pictures(ran) == [("[0]", "n2 of w0")]
    assert len(walls(ran.displays)) == 1


def test_plots_of_all_workers_are_replaced_side_by_side(loop):
    ran = loop(DRAW, ALL)
    assert pictures(ran) == [(f"[{w}]", f"n2 of w{w}") for w in ALL]
    assert len(walls(ran.displays)) == 1


def test_what_a_worker_prints_about_its_plot_goes_with_it(loop):
    ran = loop(f"{DRAW}; print('turn', turn)", ALL)
    assert pictures(ran) == [(f"[{w}]", f"n2 of w{w}") for w in ALL]
    (html,) = [data["text/html"] for data in walls(m["content"] for m in ran.settled)]
    assert (html.count("turn 2"), html.count("turn 1"), ran.text()) == (4, 0, "")


def test_without_clearing_each_turn_s_figures_come_at_once_one_below_the_other(loop):
    ran = loop("plot(f'n{turn}'); plt.show()", ALL)
    assert pictures(ran) == [(f"[{w}]", f"n{turn} of w{w}") for turn in range(TURNS) for w in ALL]


def test_in_a_cell_that_nobody_waits_for_a_plot_is_live_too(plots):
    plots.ok("import builtins, threading\nbuiltins.gate = threading.Event()")
    started = plots.send(
        "%%disco --nowait -o handle\nimport builtins\nfrom IPython.display import clear_output\n"
        "for turn in range(3): clear_output(wait=True); plot(f'n{turn}'); plt.show()\nbuiltins.gate.wait(20)"
    )
    whole = [(f"[{w}]", f"n2 of w{w}") for w in ALL]
    before = plots.until(lambda message: figures(message) == whole)
    plots.ok("builtins.gate.set()\nhandle.wait()")
    assert {each["parent_header"]["msg_id"] for each in before if figures(each)} == {started}


def test_nothing_that_shows_a_plot_later_is_taken_for_a_thread_of_the_cell_s(plots):
    plots.ok(
        "%%disco --nowait -o handle\nfrom IPython.display import clear_output\n"
        "from disco_magic.isolation.adopted import may_write_to\n"
        "from disco_magic.isolation.streams import current_writer\nseen = set()\n"
        "for turn in range(3):\n"
        "    clear_output(wait=True); plot(f'n{turn}'); plt.show()\n"
        "    seen.add(may_write_to(current_writer.get()))"
    )
    # While somebody waits, it is that thread which looks.
    plots.ok("import threading\nwhile not handle.done(): threading.Event().wait(0.01)\nhandle.wait()")
    assert plots.ok("%%disco\nseen").value == "[0-3] {False}"


def test_a_notebook_that_was_executed_by_a_tool_has_the_last_plots(monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    from tests.kernels import QUIET

    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    source = (
        "%%disco\n"
        "import threading\nimport matplotlib.pyplot as plt\nfrom IPython.display import clear_output\n"
        "for turn in range(3):\n    clear_output(wait=True)\n"
        "    plt.figure(figsize=(1, 1))\n    plt.plot([1])\n    plt.show()\n"
        "    print('turn', turn)\n    barrier()\n    threading.Event().wait(0.3)"
    )
    cells = [nbformat.v4.new_code_cell(code) for code in ("%load_ext disco_magic\n%disco start -n 2", source)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    (html,) = [data["text/html"] for data in walls(notebook.cells[1].outputs)]
    assert (html.count("data:image/png"), html.count("turn 2"), html.count("turn 1")) == (2, 2, 0)
