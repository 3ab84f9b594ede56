"""Modules through sessions: Python files and packages on every worker, imports by name."""

from __future__ import annotations

import builtins
import queue
import sys

import pytest

from disco_magic.errors import SessionClosed, UnknownName, UsageMistake, WorkerError, WorkerInterrupt
from disco_magic.functions import claims, modules

MODEL = """
import disco_magic as disco
LOADED = []
LOADED.append(1)
SIZE = 2
def rank(): return disco.worker().id
def scale(x, by=SIZE): return x * by
def loads(): return len(LOADED)
class Counter:
    def __init__(self): self.count = disco.worker().id
    def __call__(self): self.count += 1; return self.count
"""


@pytest.fixture(autouse=True)
def nothing_loaded():
    """Takes away what a test loaded."""
    before = set(sys.modules)
    yield
    modules._loaded.clear()
    for name in [name for name in sys.modules if name.startswith("_disco_") and name not in before]:
        del sys.modules[name]


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


@pytest.fixture
def folder(model, monkeypatch):
    """The current directory, with ``model.py`` and ``data.csv``."""
    monkeypatch.chdir(model.parent)
    (model.parent / "data.csv").touch()


# --- loading -------------------------------------------------------------------------------------------


def test_a_class_makes_an_object_per_worker(session, model):
    s = session(2)
    counter = s.load_vm_module(model)["Counter"]().as_function("counter")
    counter()
    assert counter().get_all() == [2, 3]


def test_a_cell_can_use_a_module_and_its_functions(session, model):
    s = session(2)
    module = s.load_vm_module(model)
    s["model"], s["scale"] = module, module["scale"]
    s.run("a = scale(worker_id, 10); b = model.get_function('rank')()")
    assert (s["a"].get_all(), s["b"].get_all()) == ([0, 10], [0, 1])


def test_a_worker_that_comes_late_gets_what_the_others_got(gated, gate, model):
    s = gated(3)
    held = s.run_nowait("if worker_id == 2: gate(worker_id)")
    first = s.load_vm_module(model)
    s.sync_worker(0)
    model.write_text(MODEL.replace("SIZE = 2", "SIZE = 300"))
    second = s.load_vm_module(model)
    s.sync_worker(0)
    gate.open()
    held.wait()
    assert first["scale"](1).get_all() == [2, 2, 2]
    assert second["scale"](1).get_all() == [300, 300, 300]


def test_a_collective_in_the_body_of_a_module_is_told_at_once(session, tmp_path):
    path = tmp_path / "meets.py"
    path.write_text("import disco_magic as disco\ndisco.worker().barrier()\n")
    s = session(3, timeout=60)
    s.load_vm_module(path)
    with pytest.raises(
        WorkerError, match=r"can never complete: workers .* are waiting in the load of .*meets"
    ):
        s.sync_all()
    assert s.run("worker_id").values == [0, 1, 2]


def test_a_path_is_that_of_the_controller_not_of_a_worker(session, model, tmp_path, monkeypatch):
    s = session(2)
    monkeypatch.chdir(tmp_path)
    module = s.load_vm_module("model.py")
    monkeypatch.chdir("/")
    assert module["loads"]().get_all() == [1, 1]


@pytest.mark.parametrize(
    ("path", "device", "text"),
    [
        ("gone.py", None, "there is no module 'gone.py'"),
        ("data.csv", None, "which is not a module"),
        (5, None, "a module is loaded by its path"),
        ("model.py", "cuda:1", "load_vm_module: device 'cuda:1' does not exist"),
    ],
    ids=str,
)
def test_what_cannot_be_loaded_is_refused_and_nothing_is_sent(session, folder, path, device, text):
    s = session(2)
    before = s.ledger.seq
    with pytest.raises(UsageMistake, match=text):
        s.load_vm_module(path, device)
    assert s.ledger.seq == before


def test_an_error_while_loading_is_the_users_with_its_line(session, model):
    s = session(2)
    model.write_text("def f(): return 1\nraise ValueError('at the top')")
    module = s.load_vm_module(model)
    with pytest.raises(WorkerError) as caught:
        module["f"]
    assert set(caught.value.failures) == {0, 1}
    for failure in caught.value.failures.values():
        assert str(failure.exception) == "at the top"
        assert f'File "{model}", line 2' in failure.traceback_text
        assert "disco_magic" not in failure.traceback_text
    model.write_text(MODEL)
    assert s.load_vm_module(model)["loads"]().get_all() == [1, 1]


# The stop may strike between opening the file and the `with` that closes it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_loading_can_be_interrupted_also_on_those_who_wait_for_it(session, model, monkeypatch):
    s = session(3)
    started = queue.SimpleQueue()
    monkeypatch.setattr(sys, "started", started, raising=False)
    model.write_text("import sys\nsys.started.put(None)\nwhile True: pass")
    s.load_vm_module(model)
    started.get(timeout=60)
    s.interrupt()
    with pytest.raises(WorkerError) as caught:
        s.sync_all(timeout=60)
    assert {type(f.exception) for f in caught.value.failures.values()} == {WorkerInterrupt}
    assert set(caught.value.failures) == {0, 1, 2}
    assert not claims.claims


# --- looking up ----------------------------------------------------------------------------------------


def test_a_missing_function_is_an_error_at_the_look_up(session, model):
    s = session(2)
    module = s.load_vm_module(model)
    with pytest.raises(UnknownName, match=r"no function 'scal' in '.*model\.py'; did you mean 'scale'\?"):
        module["scal"]
    with pytest.raises(UnknownName, match=r"'SIZE' in .* is int, which cannot be called"):
        module["SIZE"]
    with pytest.raises(UsageMistake, match="functions have names, got int"):
        module[5]
    s.sync_all()  # nothing failed on a worker


def test_names_are_there_to_look_at(session, model):
    module = session(2).load_vm_module(model)
    names = ["Counter", "loads", "rank", "scale"]
    assert module.function_names() == list(module) == names
    assert "scale" in module
    assert "scal" not in module
    assert 5 not in module


def test_a_function_that_is_not_listed_is_found_too(session, model):
    model.write_text("from os.path import join\ndef _own(): return 'private'")
    module = session(2).load_vm_module(model)
    assert "join" in module
    assert "join" not in module.function_names()
    assert module["join"]("a", "b").get(1) == "a/b"
    assert module["_own"]().get(1) == "private"


def test_the_repr_says_what_was_loaded_and_what_is_known_of_it(session, model):
    s = session(2)
    module = s.load_vm_module(model)
    assert repr(module) == f"<DModule #{module.register} on 2 workers of session {s.id}, '{model}'>"
    module.function_names()
    assert repr(module).endswith(f"'{model}': Counter, loads, rank, scale>")


def test_a_module_in_a_register_is_asked_by_tvms_function(session, model):
    s = session(2)
    module = s.load_vm_module(model)
    for more in ((), (False,), (True,)):
        function = s.call_packed("runtime.ModuleGetFunction", module, "rank", *more)
        assert s.call_packed(function).get_all() == [0, 1]
    raw = s.call_packed("runtime.disco.load_vm_module", str(model), None)
    assert s.call_packed(s.call_packed("runtime.ModuleGetFunction", raw, "rank")).get_all() == [0, 1]


def test_a_missing_function_asked_on_the_workers_is_their_error(session, model):
    s = session(2)
    missing = s.call_packed("runtime.ModuleGetFunction", s.load_vm_module(model), "ranc", True)
    with pytest.raises(WorkerError, match="did you mean 'rank'"):
        s.call_packed(missing).get(1)


# --- life ----------------------------------------------------------------------------------------------


def test_a_dropped_module_frees_its_register_and_leaves_its_functions(session, model):
    s = session(2)
    module = s.load_vm_module(model)
    register, rank = module.register, module["rank"]
    del module
    assert rank().get_all() == [0, 1]
    s.sync_all()
    assert all(register not in worker.registers.values for worker in s._launcher.workers)


def test_a_module_ends_with_a_restart(session, model):
    s = session(2)
    module = s.load_vm_module(model)
    rank = module["rank"]
    s.restart()
    for use in (lambda: module["rank"], lambda: module["loads"], rank, module.get):
        with pytest.raises(SessionClosed, match="is from before the restart"):
            use()
    assert s.load_vm_module(model)["rank"]().get_all() == [0, 1]


def test_a_module_comes_back_as_itself(session, model):
    module = session(2).load_vm_module(model).get(1)
    assert module.get_function("scale")(4) == 8


# --- import by name ------------------------------------------------------------------------------------


def test_a_module_that_never_ends_loading_does_not_hold_up_those_who_come_after_its_thread(
    gated, gate, tmp_path
):
    # The thread that sits in it was given up; its claim was not, and whoever came later waited for ever.
    path = tmp_path / "slow.py"
    path.write_text("import builtins\nbuiltins.slow_gate()\ndef f():\n    return 5\n")
    builtins.slow_gate = gate
    try:
        s = gated(2)
        module = s.load_vm_module(path)
        gate.arrived()
        s.interrupt()
        assert s.replace_stuck((0, 1))
        with pytest.raises(WorkerError):
            s.sync_all()
        del module
        builtins.slow_gate = lambda: None
        assert s.load_vm_module(path)["f"]().get_all() == [5, 5]
    finally:
        gate.open()
        for thread in s._launcher.stuck:  # it takes what it has begun out of sys.modules
            thread.join()
        del builtins.slow_gate
