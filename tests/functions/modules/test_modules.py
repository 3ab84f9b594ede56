"""What workers load by path: finding the loader, one load per process, what workers are asked to do."""

from __future__ import annotations

import contextvars
import os
import queue
import threading

import pytest

from disco_magic.core.device import Device
from disco_magic.core.topology import Topology
from disco_magic.errors import MissingDependency, UnknownName, UsageMistake
from disco_magic.functions import claims, modules
from disco_magic.functions.context import WorkerContext, enter_worker
from disco_magic.functions.modules import Module, check_device, load, locate, register_loader
from tests.functions.modules.conftest import MODEL


class Text(Module):
    """A module of one function, which says what is in the file."""

    def __init__(self, path):
        super().__init__(path)
        self.text = path.read_text()

    def find(self, name, *, imports=True):
        return (lambda: self.text) if name == "text" else None

    def function_names(self):
        return ["text"]


def _text_loader(load, **how):
    register_loader("a text (.txt)", lambda path: path.suffix == ".txt", load, **how)


# --- which loader ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("model.p", r"there is no module '.*model\.p' \(expected it at .*\); did you mean 'model\.py'\?"),
        ("zzzzzzz", r"expected it at .*; check the path"),
        ("no/where/model.py", r"expected it at .*; check the path"),
        ("empty", r"is a directory without __init__\.py, which is not a module; expected a Python file"),
        (
            "data.csv",
            r"is a file ending in '\.csv', which is not a module; expected .*, or a library that TVM",
        ),
    ],
)
def test_what_is_no_module_is_refused(write, tmp_path, name, text):
    write("model.py")
    write("data.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageMistake, match=text):
        locate(tmp_path / name)


@pytest.mark.parametrize("path", [5, None, b"model.py", "a\0b", "~nobody_of_that_name/model.py"], ids=repr)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(UsageMistake, match="a module is loaded by its path, got"):
        locate(path)


def test_links_and_relative_paths_lead_to_the_same_file(write, tmp_path, monkeypatch):
    path = write("model.py")
    (tmp_path / "link.py").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("model.py", "link.py", "./model.py", "~/model.py", path):
        assert locate(name)[0] == path


def test_a_loader_whose_package_is_missing_names_what_to_install(write, monkeypatch):
    monkeypatch.setattr(modules, "has_package", lambda name: False)
    with pytest.raises(
        MissingDependency, match=r"lib\.so' needs the package tvm, .* pip install \"disco-magic\[tvm\]\""
    ):
        locate(write("lib.so"))
    _text_loader(Text, needs="textlib")
    with pytest.raises(MissingDependency, match='pip install "textlib"'):
        locate(write("a.txt"))


def test_a_loader_can_be_added_and_the_last_one_is_asked_first(write):
    path = write("a.txt", "hello")
    _text_loader(lambda path: pytest.fail("the first one was asked"))
    _text_loader(Text)
    assert load(path).get_function("text")() == "hello"


# --- once per process --------------------------------------------------------------------------------


def test_a_path_is_loaded_once(write):
    path = write("model.py", "def f(): return f")
    assert load(path) is load(str(path))
    assert load(path).get_function("f") is load(path).get_function("f")


def test_a_module_that_was_edited_is_loaded_again_and_the_former_one_goes_on(write):
    former = load(write("model.py", "SIZE = 1\ndef f(): return SIZE"))
    edited = load(write("model.py", "SIZE = 2\ndef f(): return SIZE"))  # of the same size
    assert [former.get_function("f")(), edited.get_function("f")()] == [1, 2]


def test_another_size_is_an_edit_also_within_one_tick_of_the_clock(write):
    path = write("model.py", "def f(): return 1")
    load(path)
    before = path.stat().st_mtime_ns
    path.write_text("def f(): return 'other'")
    os.utime(path, ns=(before, before))
    assert load(path).get_function("f")() == "other"


def test_an_edited_part_of_a_package_counts_as_an_edit_of_it(write, tmp_path):
    write("pkg/__init__.py", "from .part import f")
    write("pkg/part.py", "def f(): return 1")
    assert load(tmp_path / "pkg").get_function("f")() == 1
    write("pkg/part.py", "def f(): return 'two'")
    assert load(tmp_path / "pkg").get_function("f")() == "two"


class Claim(claims.Claim):
    """Says when somebody waits for it."""

    waiting = queue.SimpleQueue()

    def __init__(self, key):
        super().__init__(key)
        self.over = self
        self.event = threading.Event()
        self.set = self.event.set

    __slots__ = ("event", "set")

    def wait(self, timeout):
        self.waiting.put(self)
        self.event.wait(timeout)


@pytest.fixture
def waiting(monkeypatch):
    monkeypatch.setattr(modules, "Claim", Claim)
    Claim.waiting = queue.SimpleQueue()
    return Claim.waiting


def test_workers_that_come_while_it_is_loaded_get_the_same_one(write, background, gate, waiting):
    def slow(path):
        gate("loading")
        return Text(path)

    _text_loader(slow)
    path = write("a.txt")
    results = [background(load, path) for _ in range(4)]
    gate.arrived()
    for _ in range(3):
        waiting.get(timeout=60)
    gate.open()
    assert len({result() for result in results}) == 1
    with pytest.raises(queue.Empty):
        gate._arrivals.get_nowait()


def test_who_waited_for_a_load_that_failed_tries_again(write, background, gate, waiting):
    outcomes = [ValueError("boom"), None]

    def slow(path):
        gate("loading")
        error = outcomes.pop(0)
        if error is not None:
            raise error
        return Text(path)

    _text_loader(slow)
    path = write("a.txt")
    first = background(load, path)
    gate.arrived()
    second = background(load, path)
    waiting.get(timeout=60)
    gate.open()
    with pytest.raises(ValueError, match="boom"):
        first()
    assert isinstance(second(), Text)


def test_a_module_that_loads_itself_is_refused(write):
    path = write("model.py", "from disco_magic.functions.modules import load\nload(__file__)")
    with pytest.raises(UsageMistake, match=r"model\.py' loads itself while it is being loaded"):
        load(path)


# --- what workers are asked to do --------------------------------------------------------------------


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", Device("cpu")], ids=repr)
def test_the_cpu_is_there_under_all_its_names(device):
    assert check_device(device) == (None if device is None else "cpu")


@pytest.mark.parametrize("device", ["cuda", "cpu:1", Device("cuda", 1), "toaster", 5], ids=repr)
def test_other_devices_are_not(device):
    with pytest.raises(UsageMistake, match="device"):
        check_device(device)


def test_a_module_is_asked_for_its_functions_by_tvms_name(write):
    module = modules.load_vm_module(str(write("model.py", MODEL)))
    assert modules.module_get_function(module, "mlp", False)(1) == 4
    assert modules.module_get_function(module, "join")("a", "b") == os.path.join("a", "b")
    with pytest.raises(UnknownName):
        modules.module_get_function(module, "join", query_imports=False)
    assert modules.names_of(module) == ["Layer", "double", "mlp"]
    assert modules.lack_of(module, "mlp") is None
    assert "did you mean 'mlp'" in modules.lack_of(module, "mpl")


@pytest.mark.parametrize("ask", [modules.module_get_function, modules.lack_of])
def test_what_is_no_module_has_no_functions(ask):
    with pytest.raises(UsageMistake, match="the register holds int, expected a module"):
        ask(5, "f")


def test_modules_that_load_each_other_on_two_threads_are_a_mistake_and_no_deadlock(tmp_path):
    import threading

    for mine, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{mine}.py").write_text(
            "import builtins\nfrom disco_magic.functions import modules\n"
            f"builtins.disco_test_meet({mine!r})\nmodules.load({str(tmp_path / f'{other}.py')!r})\n"
        )
    import builtins

    both, met, errors = threading.Barrier(2), set(), []

    def meet(name):
        if name not in met:  # who finds the other one failed tries again, alone
            met.add(name)
            both.wait(30)

    builtins.disco_test_meet = meet

    def load(name):
        try:
            modules.load(tmp_path / f"{name}.py")
        except UsageMistake as error:
            errors.append(str(error))

    threads = [threading.Thread(target=load, args=(name,)) for name in "ab"]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    finally:
        del builtins.disco_test_meet
    assert errors
    assert all("loads itself while it is being loaded" in error for error in errors)


def test_a_users_thread_that_carries_a_workers_context_keeps_its_claim(write, background, gate, waiting):
    # asyncio.to_thread copies the context: the thread was taken for one that had been given up.
    def slow(path):
        gate("loading")
        return Text(path)

    _text_loader(slow)
    path = write("b.txt")
    context = WorkerContext(0, Topology(1), None, None, session_id=9997)
    inside = contextvars.copy_context()
    inside.run(enter_worker, context)  # the worker's thread is this one, not the one that loads
    first = background(inside.run, load, path)
    gate.arrived()
    second = background(load, path)
    waiting.get(timeout=60)
    gate.open()
    assert first() is second()
