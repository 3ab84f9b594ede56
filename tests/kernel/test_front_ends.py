"""Programs that execute notebooks or talk to kernels, each with the Disco kernel."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.kernels import QUIET
from tests.unfinished import apart

pytest.importorskip("nbformat")
pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
LIMIT_S = 100


@pytest.fixture
def call(place, tmp_path, monkeypatch):
    """Runs ``python -m MODULE ...`` in an empty folder; what it wrote to stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    env = {**os.environ, **QUIET, "DISCO_OUTPUT": "ordered", "IPYTHONDIR": str(tmp_path / "ipython")}

    def run(*arguments, typed=""):
        done = subprocess.run(  # noqa: S603 - this interpreter's modules
            [sys.executable, "-m", *arguments],
            input=typed,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=env,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        run.stderr = done.stderr
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stdout)

    return run


@pytest.fixture
def notebook(tmp_path):
    """A notebook with a parameter, a cell on the workers and one of the notebook's own."""
    import nbformat

    cells = [
        nbformat.v4.new_code_cell("n = 1", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("print('worker', worker_id)\nallreduce(n)"),
        nbformat.v4.new_code_cell("%%local\nn = 10\nn"),
    ]
    metadata = {"kernelspec": {"name": "disco", "display_name": "Disco (SPMD)", "language": "python"}}
    path = tmp_path / "asked.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    return path.name


def outputs(name):
    """The texts of an executed notebook's cells."""
    import nbformat

    written = nbformat.read(name, as_version=4)
    return [
        "".join(each.get("text") or each.get("data", {}).get("text/plain", "") for each in cell.outputs)
        for cell in written.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize(
    ("program", "command", "total"),
    [
        ("nbclient", ["jupyter", "execute", "--output=done.ipynb", "{}"], 4),
        ("nbconvert", ["jupyter", "nbconvert", "--to=notebook", "--execute", "--output=done.ipynb", "{}"], 4),
        ("papermill", ["papermill", "{}", "done.ipynb", "-p", "n", "5", "--no-progress-bar"], 20),
    ],
)
def test_what_executes_notebooks_runs_their_cells_on_all_workers(call, notebook, program, command, total):
    pytest.importorskip(program)
    call(*(part.format(notebook) for part in command))
    *_, on_workers, own = outputs("done.ipynb")
    assert on_workers == f"[0] worker 0\n[1] worker 1\n[2] worker 2\n[3] worker 3\n[0-3] {total}"
    assert own == "10"


@pytest.mark.parametrize("kernel", ["disco", "python3"])
def test_the_terminal_tells_of_cells_that_the_end_of_the_notebook_has_cut_off(call, tmp_path, kernel):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    cells = [
        nbformat.v4.new_code_cell("%load_ext disco_magic"),
        nbformat.v4.new_code_cell("%%disco --nowait\nwhile True: pass"),
        nbformat.v4.new_code_cell(
            "%%local\nimport disco_magic\n"
            "while {each.state for each in disco_magic.session().doctor().positions} != {'executing'}: pass"
        ),
    ]
    metadata = {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), tmp_path / "cut.ipynb")
    call("jupyter", "execute", "cut.ipynb")
    [said], _ = apart(call.stderr)
    assert "[0-3] are executing Cell In[2]" in said


def test_an_executed_notebook_has_what_cells_print_that_were_not_waited_for(call, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    late = "%%disco --nowait\nimport threading\nthreading.Event().wait(0.3)\nprint('late', worker_id)"
    cells = [nbformat.v4.new_code_cell(source) for source in (late, "%disco sync")]
    metadata = {"kernelspec": {"name": "disco", "display_name": "disco", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), tmp_path / "late.ipynb")
    call("jupyter", "execute", "--inplace", "late.ipynb")
    [first, _] = outputs("late.ipynb")
    assert "[0] late 0\n[1] late 1\n[2] late 2\n[3] late 3" in first


def test_jupyter_run_executes_a_file_on_all_workers(call, tmp_path):
    (tmp_path / "asked.py").write_text("print('worker', worker_id)\nallreduce(1)\n")
    out = call("jupyter", "run", "--kernel=disco", "asked.py")
    assert "[0] worker 0\n[1] worker 1\n[2] worker 2\n[3] worker 3\n[0-3] 4" in out


def test_a_console_shows_the_banner_and_what_workers_and_notebook_say(call):
    pytest.importorskip("jupyter_console")
    # The console waits for ever for the end of a cell that it was told of before it listened: it asks for the
    # kernel on another channel. So the first one takes a while.
    typed = "import time; time.sleep(2)\nworker_id * 11\nexit\n"
    out = call("jupyter", "console", "--kernel=disco", "--simple-prompt", typed=typed)
    assert "cells run on all workers; %%local runs one here" in out
    assert "[0] 0\n[1] 11\n[2] 22\n[3] 33" in out
