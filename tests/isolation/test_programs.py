"""`sys.argv`, `sys.path` and the environment while workers execute programs."""

from __future__ import annotations

import copy
import json
import os
import pickle
import sys
import threading

import pytest

from disco_magic.core.topology import Topology
from disco_magic.errors import CellError
from disco_magic.functions.context import WorkerContext
from disco_magic.isolation import own_environment, programs
from disco_magic.isolation.programs import Program
from tests.locks import Told, beside


@pytest.fixture
def told(session, tmp_path):
    """What a line gives in a program with arguments, on each of two workers."""
    s = session(2)

    def run(source, *arguments):
        path = tmp_path / "program.py"
        path.write_text(f"import copy, json, os, pickle, sys, threading\n{source}\n")
        s.run_file(path, *arguments)
        return s.run("told").values

    return run


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sys.argv[1:]", ["a", "b"]),
        ("sys.argv[-1], len(sys.argv), 'a' in sys.argv", ("b", 3, True)),
        ("list(sys.argv)[1:], [*sys.argv][1:], tuple(sys.argv)[1:]", (["a", "b"], ["a", "b"], ("a", "b"))),
        ("(['x'] + sys.argv)[2:], (sys.argv + ['y'])[1:]", (["a", "b"], ["a", "b", "y"])),
        ("' '.join(sys.argv)[-3:], sys.argv == ['a'], isinstance(sys.argv, list)", ("a b", False, True)),
        ("copy.copy(sys.argv)[1:], copy.deepcopy(sys.argv)[1:], sys.argv.copy()[1:]", (["a", "b"],) * 3),
        ("pickle.loads(pickle.dumps(sys.argv))[1:], json.loads(json.dumps(sys.argv))[1:]", (["a", "b"],) * 2),
        ("type(copy.copy(sys.argv)) is type(pickle.loads(pickle.dumps(sys.argv))) is list", True),
        ("repr(sys.argv)[-11:], sys.argv.index('b'), list(reversed(sys.argv))[0]", (", 'a', 'b']", 2, "b")),
    ],
)
def test_a_program_has_its_own_list(told, line, expected):
    assert told(f"told = {line}", "a", "b") == [expected, expected]


def test_each_worker_may_change_its_own(told):
    before = list(sys.argv)
    source = (
        "sys.argv.pop(1)\nsys.argv += [str(worker_id)]\nsys.argv[0] = 'me'\nbarrier()\ntold = sys.argv[:]"
    )
    assert told(source, "a", "b") == [["me", "b", "0"], ["me", "b", "1"]]
    assert sys.argv == before


def test_each_worker_may_assign_its_own(told):
    before = sys.argv
    source = "barrier()\nsys.argv = ['me', str(worker_id)]\nbarrier()\ntold = sys.argv"
    assert told(source, "a") == [["me", "0"], ["me", "1"]]
    assert sys.argv is before


def test_each_worker_has_the_rank_that_torchrun_would_tell_it(told):
    before = dict(os.environ)
    source = """
names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"
names += "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_RUN_ID"
names += "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"
barrier()
told = [os.environ[name] for name in names], os.getenv("RANK"), "RANK" in os.environ, os.environ.get("NONE")
told += "'RANK'" in repr(os.environ), dict(os.environ)["RANK"]
told += len(os.environ) - len(set(os.environ)), os.environ.copy()["WORLD_SIZE"]
barrier()
"""
    for worker, answer in enumerate(told(source)):
        rank = str(worker)
        names = [rank, rank, "2", "2", "0", "127.0.0.1", "29500"]
        names += ["1", rank, "2", "default", "none", "0", "0"]
        assert answer == (names, rank, True, None, True, rank, 0, "2")
    assert dict(os.environ) == before
    assert type(os.environ) is os._Environ


def test_a_program_may_change_its_ranks(told):
    source = """
from unittest import mock
with mock.patch.dict(os.environ, {"RANK": "7"}):
    patched = os.environ["RANK"]
os.environ["LOCAL_RANK"] = "5"
popped = os.environ.pop("RANK"), os.environ.pop("WORLD_SIZE", None), "WORLD_SIZE" in os.environ
told = patched, os.environ["LOCAL_RANK"], popped
"""
    assert told(source) == [("7", "5", (str(worker), "2", False)) for worker in range(2)]
    assert not {*own_environment.RANKS} & {*os.environ}
    with pytest.raises(CellError, match="str expected, not int"):
        told("os.environ['RANK'] = 7")


def test_others_may_read_the_environment_while_the_last_program_ends(told, monkeypatch):
    mine = own_environment._own

    def while_it_ends():
        found = mine()
        if found is None:  # another thread, which has come so far
            os.environ.__class__ = os._Environ
        return found

    monkeypatch.setattr(own_environment, "_own", while_it_ends)
    for read in (lambda: os.environ.get("PATH"), lambda: list(os.environ)):
        os.environ.__class__ = own_environment._Environment
        assert read()
    assert type(os.environ) is os._Environ


def test_what_a_program_puts_into_the_environment_is_its_own_and_for_c_the_process_s_meanwhile(
    told, monkeypatch
):
    monkeypatch.setenv("DISCO_TEST", "before")
    monkeypatch.setenv("RANK", "the process's")
    source = """
barrier()
if worker_id == 1: os.environ['DISCO_TEST'] = os.environ['DISCO_NEW'] = 'after'
barrier()
data, coded = os.environ._data, os.environ.encodekey
told = os.environ['DISCO_TEST'], os.environ['RANK'], os.environ.get('DISCO_NEW')
told += data[coded('DISCO_TEST')].decode(), coded('DISCO_NEW') in data
barrier()
"""
    assert told(source) == [
        ("before", "0", None, "after", True),
        ("after", "1", "after", "after", True),
    ]
    assert os.environ["DISCO_TEST"] == "before"
    assert "DISCO_NEW" not in os.environ
    assert os.environ["RANK"] == "the process's"


def test_a_program_begins_without_what_those_of_other_workers_have_set_before(told, monkeypatch):
    # 1. Worker 0 sets a variable, which goes to the process; 2. worker 1 begins with a copy of the process's.
    monkeypatch.setenv("DISCO_TEST", "before")
    source = """
from disco_magic.callers.current import calling_worker
from disco_magic.isolation.own_environment import environment_of
if worker_id == 0: os.environ['DISCO_TEST'] = os.environ['DISCO_NEW'] = 'of 0'
barrier()
begun = environment_of(calling_worker())
told = begun['DISCO_TEST'], begun.get('DISCO_NEW'), begun['RANK']
barrier()
"""
    assert told(source) == [("before", None, "0"), ("before", None, "1")]


def test_what_each_sets_or_removes_it_finds_and_so_do_its_processes(told, monkeypatch):
    monkeypatch.setenv("DISCO_TEST", "before")
    monkeypatch.setenv("DISCO_GONE", "before")
    source = """
import multiprocessing, subprocess, sys
from unittest import mock
def ask(queue): queue.put((os.environ["DISCO_TEST"], os.environ.get("DISCO_GONE")))
if __name__ == "__main__":
    os.environ["DISCO_TEST"] = f"of {worker_id}"
    if worker_id: del os.environ["DISCO_GONE"]
    barrier()
    line = "import os; print(os.environ['DISCO_TEST'], os.environ.get('DISCO_GONE'))"
    run = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True).stdout
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=ask, args=(queue,))
    process.start()
    spawned = queue.get()
    process.join()
    gone = "DISCO_GONE" in os.environ, list(os.environ).count("DISCO_TEST")
    gone += len(os.environ) == len(dict(os.environ)), os.environ.setdefault("DISCO_SET", str(worker_id))
    with mock.patch.dict(os.environ, {"DISCO_TEST": f"patched {worker_id}"}, clear=True):
        barrier()
        patched = dict(os.environ)
        barrier()
    try: del os.environ["DISCO_GONE"]
    except KeyError: gone += "missing",
    told = os.environ["DISCO_TEST"], run, spawned, patched, gone
"""
    assert told(source) == [
        ("of 0", "of 0 before\n", ("of 0", "before"), {"DISCO_TEST": "patched 0"}, (True, 1, True, "0")),
        (
            "of 1",
            "of 1 None\n",
            ("of 1", None),
            {"DISCO_TEST": "patched 1"},
            (False, 1, True, "1", "missing"),
        ),
    ]
    assert (os.environ["DISCO_TEST"], os.environ["DISCO_GONE"]) == ("before", "before")
    assert "DISCO_SET" not in os.environ


def test_who_ends_first_leaves_the_others_theirs(told):
    source = "if worker_id: recv(0)\ntold = sys.argv[1:]\nif not worker_id: send(1, 1)"
    assert told(source, "a") == [["a"], ["a"]]
    assert type(os.environ) is os._Environ


def test_threads_of_a_program_have_its_arguments(told):
    source = "told = []\nt = threading.Thread(target=lambda: told.extend(sys.argv[1:]))\nt.start()\nt.join()"
    assert told(source, "a") == [["a"], ["a"]]


def test_the_process_sees_its_own_meanwhile(gated, gate, tmp_path):
    s, before = gated(1), sys.argv
    path = tmp_path / "program.py"
    path.write_text("gate()\n")
    thread = threading.Thread(target=s.run_file, args=(path, "a"))
    thread.start()
    gate.arrived()
    try:
        assert sys.argv == before
        assert before == list(sys.argv)
        for copied in (copy.copy(sys.argv), pickle.loads(pickle.dumps(sys.argv))):  # noqa: S301 - our own
            assert type(copied) is list
            assert copied == before
        assert json.dumps(sys.argv) == json.dumps(before)
        assert str(tmp_path) not in sys.path
    finally:
        gate.open()
        thread.join(60)
    assert sys.argv is before


def test_where_a_program_imports_from_is_its_own(told, tmp_path):
    kept = sys.path
    before = list(kept)
    (tmp_path / "added").mkdir()
    (tmp_path / "added" / "only_there.py").write_text("value = 5\n")
    source = f"""
first = sys.path[0]
barrier()
sys.path.insert(0, {str(tmp_path / "added")!r} if worker_id else "/nowhere")
barrier()
try:
    import only_there
    found = only_there.value
except ImportError:
    found = None
sys.path = sys.path[:2]
told = first, sys.path, found
"""
    folder = str(tmp_path)
    assert told(source) == [
        (folder, ["/nowhere", folder], None),
        (folder, [f"{folder}/added", folder], 5),
    ]
    assert sys.path is kept
    assert kept == before


def test_a_test_that_patches_the_import_path_leaves_the_program_s(told, tmp_path):
    source = "from unittest import mock\nwith mock.patch.object(sys, 'path', ['/x']): told = sys.path[:]\n"
    assert told(f"{source}told += sys.path[:1]") == [["/x", str(tmp_path)]] * 2


def test_a_thread_that_was_given_up_leaves_the_program_of_its_successor(monkeypatch):
    # It had seen that its own was there, and took away what was there a moment later.
    worker = WorkerContext(0, Topology(1), None, None, session_id=9999)
    former, later = (
        programs.Execution(Program((name,), name, "", ""), [name], {}) for name in ("former.py", "later.py")
    )
    threads, told = [], Told(programs._lock)
    monkeypatch.setattr(programs, "_lock", told)

    class Looked(dict):
        def get(self, key, default=None):
            found = super().get(key, default)
            if not threads:
                threads.append(beside(lambda: programs.begin(worker, later), told.awaited))
            return found

    monkeypatch.setattr(programs, "_executions", Looked())
    programs.begin(worker, former)
    programs.end(worker, former)
    threads[0].join()
    assert programs.execution_of(worker) is later
    programs.end(worker)
