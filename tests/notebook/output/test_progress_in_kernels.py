"""What a cell that takes long shows of its workers, in real kernels."""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
AREA = ("display_data", "update_display_data")


def area_text(message):
    return message["content"]["data"]["text/plain"] if message["msg_type"] in AREA else None


def until_shown(kernel, text):
    return kernel.until(lambda message: text in (area_text(message) or ""))


@pytest.fixture
def door(tmp_path):
    """A file that a test makes when workers may go on, and the code that waits for it in Python, spinning."""
    path = tmp_path / "door"
    return path, f"import os\nwhile not os.path.exists({str(path)!r}):\n    i = 1\n"


def test_a_notebook_shows_it_in_place_while_four_workers_spin_and_it_goes(fresh, door):
    path, wait = door
    cell = fresh.send(f"%%disco --progress-after 0\nprint('begun')\n{wait}\nworker_id")
    before = until_shown(fresh, "[0-3] Cell In[")  # first, perhaps, who has begun and who has not
    before += until_shown(fresh, "[0-3] Cell In[")
    path.touch()
    ran = fresh.finish(cell, before)
    shown = [message["content"] for message in ran.messages if message["msg_type"] in AREA]
    assert len({content["transient"]["display_id"] for content in shown}) == 1
    assert len(ran.displays) == 1
    assert shown[-1]["data"] == {"text/plain": "", "text/html": ""}
    assert sorted(ran.lines) == [f"[{worker}] begun" for worker in range(4)]
    assert ran.late == []


def test_the_stop_button_works_while_it_is_shown_and_takes_it_away(fresh, door):
    _, wait = door
    cell = fresh.send(f"%%disco --progress-after 0\n{wait}")
    before = until_shown(fresh, "Cell In[")
    fresh.interrupt()
    ran = fresh.finish(cell, before)
    assert ran.error["ename"] == "KeyboardInterrupt"
    assert ran.saved == ["", "KeyboardInterrupt"]
    assert fresh.ok("%%disco\nworker_id").value


def test_the_stop_button_ends_a_cell_alone_that_comes_after_one_sent_with_nowait(fresh, door):
    path, wait = door
    began = fresh.send(f"%%disco --nowait -o training\nprint('begun', flush=True)\n{wait}'trained'")
    fresh.until_text(began, "begun\n", times=4)
    look = fresh.send("%%disco --progress-after 0\nworker_id")
    before = until_shown(fresh, "the stop button ends this cell only")
    fresh.interrupt()
    ran = fresh.finish(look, before)
    assert ran.error["ename"] == "KeyboardInterrupt"
    assert "was stopped before any worker had begun it. " in ran.traceback
    assert " goes on - .cancel() stops it" in ran.traceback
    path.touch()
    assert fresh.ok("set(training.wait().values)").value == "{'trained'}"


def test_bars_of_an_asynchronous_cell_move_in_its_own_output(fresh, door):
    path, wait = door
    source = "import sys\nsys.stderr.write('\\r50%')\nsys.stderr.flush()\n"
    started = fresh.send(f"%%disco --nowait -w 0,1 -o handle\n{source}{wait}")
    fresh.finish(started)
    second = fresh.send("handle.wait()\nprint('next')")
    before = until_shown(fresh, "50%")  # a cell that is waited for shows its bars
    path.touch()
    ran = fresh.finish(second, before)
    assert ran.lines == ["next"]
    assert not [message for message in ran.messages if message["msg_type"] in AREA]
    late = [message for message in ran.late if message["msg_type"] in AREA]
    assert {message["parent_header"]["msg_id"] for message in late} == {started}
    assert area_text(late[-1]) == ""


def test_captured_cells_hold_no_bars_and_no_progress(fresh, door):
    path, wait = door
    path.touch()
    source = f"import sys\nsys.stdout.write('\\r50%')\n{wait}print('\\r100%')"
    fresh.ok(f"%%capture caught\n%%disco -w 0 --progress-after 0\n{source}")
    assert fresh.ok("caught.stdout, caught.outputs").value == "('[0] 100%\\n', [])"
    fresh.ok(f"%%capture --no-stdout --no-stderr shown\n%%disco -w 0 --progress-after 0\n{source}")
    assert fresh.ok("shown.outputs").value == "[]"


def test_an_executed_notebook_holds_nothing_of_it(tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="the extra 'lab' has it")
    nbformat = pytest.importorskip("nbformat")
    # The cell goes on when its live area was drawn, which shows nothing.
    prepare = """
    import builtins, threading
    from disco_magic.notebook.output.livearea import Screen
    drawn = builtins.drawn = threading.Event()
    Screen.show = lambda self, rows: drawn.set()
    """
    sources = [
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n%load_ext disco_magic\n%disco start -n 2",
        textwrap.dedent(prepare),
        "%%disco --progress-after 0\nimport builtins\nprint(1)\nassert builtins.drawn.wait(30)\nworker_id",
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernelspec})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jupyter_client warns about its own defaults
        nbclient.NotebookClient(notebook, timeout=60, store_widget_state=False).execute()
    outputs = notebook.cells[-1].outputs
    assert {output.output_type for output in outputs} == {"stream", "execute_result"}
