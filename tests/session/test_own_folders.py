"""A worker that changes its working directory has its own from then on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from disco_magic.isolation import own_folders
from tests.conftest import given_up_comes_back

parts = pytest.mark.skipif(not own_folders.can_part(), reason="threads may not part here")
GO = "import os\nos.makedirs(f'run_{worker_id}', exist_ok=True)\nos.chdir(f'run_{worker_id}')\n"
WHERE = "os.path.basename(os.getcwd())"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(monkeypatch):
    """Threads must not part from the process's working directory, as in a container."""
    monkeypatch.setattr(own_folders, "_unshare", lambda: "unshare: Operation not permitted")
    own_folders.can_part.cache_clear()
    yield
    own_folders.can_part.cache_clear()


def folders(values):
    return [os.path.basename(value) for value in values]


@parts
def test_each_writes_to_its_own(session, home):
    s = session(3)
    write = "from pathlib import Path\nPath('log.txt').write_text(str(worker_id))\n"
    assert s.run(f"{GO}barrier()\n{write}{WHERE}").values == ["run_0", "run_1", "run_2"]
    assert [(home / f"run_{worker}" / "log.txt").read_text() for worker in range(3)] == ["0", "1", "2"]
    assert Path.cwd() == home


@parts
def test_the_next_cells_and_calls_are_there_too(session, home):
    s = session(2)
    s.run(GO)
    assert s.run(WHERE).values == ["run_0", "run_1"]
    assert folders(s.call_packed(os.getcwd).get_all()) == ["run_0", "run_1"]


@parts
def test_threads_and_processes_of_a_worker_are_there(session, home):
    s = session(2)
    s.run(GO)
    threads = "import threading\nseen = []\nt = threading.Thread(target=lambda: seen.append(os.getcwd()))\n"
    assert folders(v[0] for v in s.run(f"{threads}t.start(); t.join(); seen").values) == ["run_0", "run_1"]
    assert folders(s.call_packed(subprocess.getoutput, "pwd").get_all()) == ["run_0", "run_1"]


@parts
def test_a_thread_of_a_worker_takes_it_along(session, home):
    s = session(2)
    s.run(GO)
    go = "import threading\nt = threading.Thread(target=os.chdir, args=('..',))\nt.start(); t.join()\n"
    assert s.run(f"{go}os.getcwd()").values == [str(home)] * 2
    assert s.run("os.getcwd()").values == [str(home)] * 2
    s.run("os.chdir(f'run_{worker_id}')")
    assert Path.cwd() == home


@parts
def test_who_has_gone_nowhere_follows_the_notebook(session, home):
    s = session(2)
    s.run("import os\nif worker_id: os.chdir('/')")
    (home / "data").mkdir()
    os.chdir("data")
    assert s.run("os.getcwd()").values == [str(home / "data"), "/"]


@parts
def test_a_program_ends_where_it_began(session, home):
    s = session(2)
    (home / "train.py").write_text(f"{GO}barrier()\nwhere = os.getcwd()")
    s.run_file(home / "train.py")
    assert folders(s["where"].get_all()) == ["run_0", "run_1"]
    assert s.run("import os\nos.getcwd()").values == [str(home)] * 2
    os.chdir("run_0")  # the workers follow the notebook again
    assert s.run("os.getcwd()").values == [str(home / "run_0")] * 2


@parts
def test_a_program_that_fails_leaves_a_worker_where_it_was(session, home):
    s = session(2)
    s.run(GO)
    (home / "train.py").write_text("import os\nos.chdir('/')\n1 / 0")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        s.run_file(home / "train.py")
    assert s.run(WHERE).values == ["run_0", "run_1"]


@parts
def test_the_thread_that_replaces_a_stuck_one_goes_there_too(gated, gate, home):
    s = gated(1)
    s.run(GO)
    pending = s.run_nowait("gate()")
    gate.arrived()
    with pytest.raises(Exception, match=r"interrupted|cancelled"):
        pending.cancel() or pending.wait()
    assert s.run(WHERE).values == ["run_0"]
    given_up_comes_back(s, gate)


@parts
def test_a_restarted_session_is_where_the_notebook_is(session, home):
    s = session(2)
    s.run(GO)
    s.restart()
    assert s.run("import os\nos.getcwd()").values == [str(home)] * 2


@parts
def test_a_folder_that_was_removed_is_left_alone(session, home):
    s = session(1)
    s.run(f"{GO}os.rmdir(os.getcwd())")
    assert s.run("1 + 1").values == [2]
    os.chdir("/")
    s.run("os.chdir('/')")
    assert s.run("os.getcwd()").values == ["/"]


@parts
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
    assert os.chdir is own_folders._GO


POOL = (
    "import os, concurrent.futures as futures\n"
    "pool = futures.ThreadPoolExecutor(1)\n"
    "assert pool.submit(int).result() == 0\n"
)


@parts
def test_a_pool_that_is_older_goes_where_its_worker_has_gone(session, home):
    s = session(2)
    s.run(f"{POOL}{GO}")
    assert folders(s.run("pool.submit(os.getcwd).result()").values) == ["run_0", "run_1"]
    s.run("os.mkdir('deep'); pool.submit(os.chdir, 'deep').result()")
    assert folders(s.run("os.getcwd()").values) == ["deep", "deep"]
    assert Path.cwd() == home


@parts
@pytest.mark.parametrize("how", ["threading.Thread(target=os.chdir, args=('/',))", "pool"])
def test_a_thread_of_a_program_does_not_move_the_notebook(session, home, how):
    call = "pool.submit(os.chdir, '/').result()" if how == "pool" else f"t = {how}\nt.start(); t.join()"
    (home / "train.py").write_text(f"import threading\n{POOL}{call}")
    s = session(2)
    s.run_file(home / "train.py")
    assert Path.cwd() == home
    assert s.run("import os\nos.getcwd()").values == [str(home)] * 2


@parts
def test_the_mask_for_new_files_is_a_worker_s_own_too(session, home):
    before = own_folders.mask_of_process()
    s = session(2)
    s.run("import os\nif worker_id: os.umask(0o077)")
    assert s.run("os.umask(0o022) if worker_id else 0").values == [0, 0o077]
    (home / "train.py").write_text("import os\nos.chdir('/')\nos.umask(0o077)")
    s.run_file(home / "train.py")
    s.run("open_mode = os.open('f', os.O_CREAT | os.O_WRONLY, 0o666) if worker_id == 0 else None")
    s.run("os.close(open_mode) if worker_id == 0 else None")
    assert (home / "f").stat().st_mode & 0o777 == 0o666 & ~before
    assert own_folders.mask_of_process() == before
