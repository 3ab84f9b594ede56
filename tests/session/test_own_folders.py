"""A worker that changes its working directory has its own from then on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from disco_magic.isolation import own_folders
from tests.conftest import given_up_comes_back

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux keeps the working directory per thread"
)
GO = "import os\nos.makedirs(f'run_{worker_id}', exist_ok=True)\nos.chdir(f'run_{worker_id}')\n"
WHERE = "os.path.basename(os.getcwd())"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(monkeypatch):
    """Threads must not part from the process's working directory, as in a container."""
    monkeypatch.setattr(own_folders, "_part", lambda: "unshare: Operation not permitted")
    own_folders.can_part.cache_clear()
    yield
    own_folders.can_part.cache_clear()


def folders(values):
    return [os.path.basename(value) for value in values]


def test_each_writes_to_its_own(session, home):
    s = session(3)
    write = "from pathlib import Path\nPath('log.txt').write_text(str(worker_id))\n"
    assert s.run(f"{GO}barrier()\n{write}{WHERE}").values == ["run_0", "run_1", "run_2"]
    assert [(home / f"run_{worker}" / "log.txt").read_text() for worker in range(3)] == ["0", "1", "2"]
    assert Path.cwd() == home


def test_the_next_cells_and_calls_are_there_too(session, home):
    s = session(2)
    s.run(GO)
    assert s.run(WHERE).values == ["run_0", "run_1"]
    assert folders(s.call_packed(os.getcwd).get_all()) == ["run_0", "run_1"]


def test_threads_and_processes_of_a_worker_are_there(session, home):
    s = session(2)
    s.run(GO)
    threads = "import threading\nseen = []\nt = threading.Thread(target=lambda: seen.append(os.getcwd()))\n"
    assert folders(v[0] for v in s.run(f"{threads}t.start(); t.join(); seen").values) == ["run_0", "run_1"]
    assert folders(s.call_packed(subprocess.getoutput, "pwd").get_all()) == ["run_0", "run_1"]


def test_a_thread_of_a_worker_takes_it_along(session, home):
    s = session(2)
    s.run(GO)
    go = "import threading\nt = threading.Thread(target=os.chdir, args=('..',))\nt.start(); t.join()\n"
    assert s.run(f"{go}os.getcwd()").values == [str(home)] * 2
    assert s.run("os.getcwd()").values == [str(home)] * 2
    s.run("os.chdir(f'run_{worker_id}')")
    assert Path.cwd() == home


def test_who_has_gone_nowhere_follows_the_notebook(session, home):
    s = session(2)
    s.run("import os\nif worker_id: os.chdir('/')")
    (home / "data").mkdir()
    os.chdir("data")
    assert s.run("os.getcwd()").values == [str(home / "data"), "/"]


def test_a_program_ends_where_it_began(session, home):
    s = session(2)
    (home / "train.py").write_text(f"{GO}barrier()\nwhere = os.getcwd()")
    s.run_file(home / "train.py")
    assert folders(s["where"].get_all()) == ["run_0", "run_1"]
    assert s.run("import os\nos.getcwd()").values == [str(home)] * 2
    os.chdir("run_0")  # the workers follow the notebook again
    assert s.run("os.getcwd()").values == [str(home / "run_0")] * 2


def test_a_program_that_fails_leaves_a_worker_where_it_was(session, home):
    s = session(2)
    s.run(GO)
    (home / "train.py").write_text("import os\nos.chdir('/')\n1 / 0")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        s.run_file(home / "train.py")
    assert s.run(WHERE).values == ["run_0", "run_1"]


def test_the_thread_that_replaces_a_stuck_one_goes_there_too(gated, gate, home):
    s = gated(1)
    s.run(GO)
    pending = s.run_nowait("gate()")
    gate.arrived()
    with pytest.raises(Exception, match=r"interrupted|cancelled"):
        pending.cancel() or pending.wait()
    assert s.run(WHERE).values == ["run_0"]
    given_up_comes_back(s, gate)


def test_a_restarted_session_is_where_the_notebook_is(session, home):
    s = session(2)
    s.run(GO)
    s.restart()
    assert s.run("import os\nos.getcwd()").values == [str(home)] * 2


def test_a_folder_that_was_removed_is_left_alone(session, home):
    s = session(1)
    s.run(f"{GO}os.rmdir(os.getcwd())")
    assert s.run("1 + 1").values == [2]
    os.chdir("/")
    s.run("os.chdir('/')")
    assert s.run("os.getcwd()").values == ["/"]


def test_fchdir_counts_as_well(session, home):
    s = session(2)
    (home / "data").mkdir()
    s.run("import os\nfd = os.open('data', os.O_RDONLY)\nos.fchdir(fd)\nos.close(fd)")
    assert s.run(WHERE).values == ["data"] * 2
    assert Path.cwd() == home


@pytest.mark.usefixtures("refused")
def test_where_threads_have_to_share_one_that_is_told(session, home):
    s = session(2)
    with pytest.warns(RuntimeWarning, match=r"of all workers and of the notebook \(unshare: Operation not"):
        s.run("import os\nbarrier()\nos.chdir('/')")
    assert os.getcwd() == "/"


@pytest.mark.usefixtures("refused")
def test_where_threads_have_to_share_one_a_program_puts_it_back(session, home):
    s = session(2)
    (home / "train.py").write_text("import os, warnings\nwarnings.simplefilter('ignore')\nos.chdir('/')")
    s.run_file(home / "train.py")
    assert Path.cwd() == home


def test_without_sessions_it_is_python_s_own(session):
    session(1).shutdown()
    assert os.chdir.__name__ == "chdir"
    assert os.chdir is own_folders._FIRST
