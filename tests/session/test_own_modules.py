"""Modules that each worker imports for itself."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

import disco_magic as disco
from disco_magic.callers.module_classes import dictionary_of
from disco_magic.errors import CellError
from disco_magic.isolation import own_imports, own_modules, sources
from disco_magic.isolation.imported import Libraries
from disco_magic.isolation.standing_modules import IMPORTS, Standing
from tests.session.conftest import stopped
from tests.session.written import write

PYTHONS = importlib.reload  # as who has imported it before a session began has it


@pytest.fixture
def s(folder, session):
    """Three workers, to which the modules `state` and `package` are their own."""
    started = session(3, own_modules="state,package")
    started.run("import state\nstate.start(worker_id)")
    return started


def test_global_variables_are_each_workers_own(s):
    assert s.run("state.rank, state.which(), state.package.inner.seen").values == [
        (worker, worker, [worker]) for worker in range(3)
    ]
    s.run("state.rank = 10 * worker_id")
    assert s.run("state.which()").values == [0, 10, 20]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import package.inner", "package.inner.seen"),
        ("import package.inner as m", "m.seen"),
        ("from package.inner import seen", "seen"),
        ("from package import inner", "inner.seen"),
        ("from package.other import inner", "inner.seen"),
        ("import importlib\nm = importlib.import_module('package.inner')", "m.seen"),
        ("import sys\nm = sys.modules['package.inner']", "m.seen"),
        ("m = __import__('package.inner')", "m.inner.seen"),
        ("import library, sys\nm = library.sys = sys", "[library.rank()]"),
    ],
)
def test_whichever_way_it_is_imported(s, line, name):
    s.run(line)
    assert s.run(name).values == [[0], [1], [2]]


def test_a_star_brings_what_a_package_names(s):
    assert (
        s.run("from package import *\nlate.name, late.other.told is told").values
        == [("package.late", True)] * 3
    )


def test_the_notebook_has_the_process_s_own(s):
    import package
    import state

    assert state.rank is None
    state.start("mine")
    assert (state.which(), package.inner.seen, state.package.inner.seen) == ("mine", ["mine"], ["mine"])
    assert s.run("state.rank").values == [0, 1, 2]
    assert repr(state) == "<module 'state', which workers import for themselves>"
    assert "Config" in dir(state)
    del state.rank
    with pytest.raises(AttributeError):
        state.rank  # noqa: B018


def test_what_the_process_had_imported_before_it_keeps(folder, session):
    import state

    state.start("mine")
    s = session(2, own_modules=["state"])
    assert s.run("import state\nstate.rank").values == [None, None]
    import state as again

    assert again.rank == "mine"
    assert s.run("import library\nlibrary.add(1)").values == [[1, 1]] * 2  # not its own
    s.shutdown()
    assert sys.modules["state"] is state


def test_classes_are_found_where_pickle_and_dataclasses_look(s):
    s.run("import pickle, typing\nc = state.Config(worker_id)")
    assert (
        s.run("pickle.loads(pickle.dumps(c)) == c, typing.get_type_hints(state.Config)['number']").values
        == [(True, int)] * 3
    )
    assert s.run("[type(each) is state.Config for each in allgather_objects(c)]").values == [[True] * 3] * 3


def test_values_become_of_the_receiver_s_classes(s):
    import state

    s.run("c = [state.Config(worker_id)]")
    (got,) = s["c"].get(2)
    assert type(got) is state.Config
    assert got == state.Config(2)
    assert type(pickle.loads(pickle.dumps(got))) is state.Config  # noqa: S301 - our own bytes
    s["d"] = s.call_packed(lambda given: given, state.Config(7))
    assert s.run("isinstance(d, state.Config), d == state.Config(7)").values == [(True, True)] * 3
    s.run("e = broadcast_object([state.Config(8)] if worker_id == 1 else None, root=1)")
    assert s.run("type(e[0]) is state.Config").values == [True] * 3


def test_functions_become_the_receiver_s(s):
    import state

    assert s.call_packed(state.which).get_all() == [0, 1, 2]
    s.run("f = [state.which] if worker_id == 1 else None")
    s["f"] = s.call_packed(lambda given: given, s["f"].get(1))
    assert s.run("f[0]()").values == [0, 1, 2]


def test_where_the_process_cannot_have_the_module_the_notebook_gets_what_the_worker_has(folder, session):
    write(folder, {"only.py": "import disco_magic\ndisco_magic.worker()\nclass Net: pass\n"})
    s = session(2, own_modules=["only"])
    s.run("import only\nnet = only.Net()")
    assert type(s["net"].get(1)).__name__ == "Net"
    for _ in range(2):
        with pytest.raises(disco.UsageMistake, match="outside of a worker"):  # noqa: PT012 - 3.13 says it at once
            import only

            only.Net  # noqa: B018
    there = sys.modules["only"]
    assert not hasattr(there, "__version__")  # who only looks executes nothing
    assert there.__file__ == str(folder / "only.py")


def test_another_session_has_the_process_s(s, session):
    other = session(2)
    other.run("import state\nstate.start('other')")
    assert other.run("state.rank, state.package.inner.seen").values == [("other", ["other"] * 2)] * 2
    assert s.run("state.rank").values == [0, 1, 2]


def test_threads_of_a_worker_have_its_modules(s):
    s.run("from concurrent.futures import ThreadPoolExecutor")
    s.run("with ThreadPoolExecutor(1) as pool: x = pool.submit(state.which).result()")
    assert s["x"].get_all() == [0, 1, 2]


def test_new_workers_begin_anew(s):
    s.restart()
    assert s.run("import state\nstate.rank, state.package.inner.seen").values == [(None, [])] * 3


def test_after_the_last_session_all_is_as_before(folder, session):
    before, finders = dict(sys.modules), list(sys.meta_path)
    s = session(2, own_modules=["state", "package"])
    s.run("import state, package.late")
    assert isinstance(sys.modules["state"], Standing)
    s.shutdown()
    assert not {"state", "package", "package.late"} & set(sys.modules)
    assert {name for name in sys.modules if name not in before} == set()
    assert sys.meta_path == finders
    assert IMPORTS == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import nowhere", "No module named 'nowhere'"),
        ("import package.nowhere", "No module named 'package.nowhere'"),
        ("import state.part", "No module named 'state.part'; 'state' is not a package"),
        ("from state import nothing", "cannot import name 'nothing' from 'state'"),
        ("from package import nothing", "cannot import name 'nothing' from 'package'"),
        ("import broken", "division by zero"),
        ("from package import lacking", "No module named 'nowhere'"),
    ],
)
def test_what_cannot_be_imported_is_told_as_python_does_with_the_user_s_lines(s, folder, line, said):
    write(
        folder,
        {
            "broken.py": "import package.worse\n",
            "package/worse.py": "1 / 0\n",
            "package/lacking.py": "import nowhere\n",
        },
    )
    for _ in range(2):
        with pytest.raises(CellError) as caught:
            s.run(line, workers=(1,))
        told = str(caught.value)
        assert said in told
        assert "own_modules" not in told
        assert "frozen" not in told


def test_a_module_that_has_failed_is_imported_when_it_is_mended(folder, session):
    write(folder, {"broken.py": "1 / 0\n"})
    s = session(2, own_modules=["."])
    for _ in range(2):
        with pytest.raises(CellError):
            s.run("import importlib\nimportlib.import_module('broken')")
    assert "broken" not in sys.modules
    (folder / "broken.py").write_text("whole = [1]  # and longer\n")
    assert s.run("import broken\nbroken.whole").values == [[1], [1]]


def test_a_dot_stands_for_all_that_are_no_library_s(folder, session):
    s = session(2, own_modules=".")
    s.run("import library, json, numpy.linalg\nlibrary.add(worker_id)")
    assert s.run("library.kept").values == [[0], [1]]
    assert not isinstance(sys.modules["json"], Standing)
    assert not isinstance(sys.modules["numpy"], Standing)
    with pytest.raises(CellError, match="No module named 'later'"):
        s.run("import later")
    write(folder, {"later.py": "names = []", "spread/part.py": "names = []"})
    s.run("import later, spread.part\nlater.names.append(worker_id); spread.part.names.append(worker_id)")
    assert s.run("later.names, spread.part.names").values == [([0], [0]), ([1], [1])]


def test_a_library_that_is_changed_once_it_is_imported_is_found_beside_a_dot(folder, session, monkeypatch):
    write(folder, {"later.py": "names = []\n"})
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    fitted = []
    libraries = Libraries({name: lambda module: fitted.append(module.__name__) for name in ("wave", "later")})
    s = session(2, own_modules=".")
    libraries.enter(s)
    try:
        s.run("import wave, later\nlater.names.append(worker_id)")
        assert s.run("later.names").values == [[0], [1]]
        assert fitted.count("wave") == 1
    finally:
        libraries.leave(s)


@pytest.mark.parametrize(
    "line",
    ["from package import _json", "import package._json as _json", "import package\nimport package._json"],
)
def test_an_extension_module_is_there_once(folder, session, line):
    origin = getattr(importlib.util.find_spec("_json"), "origin", None)
    if origin in (None, "built-in"):
        pytest.skip("this Python has it built in")
    (folder / "package" / Path(origin).name).write_bytes(Path(origin).read_bytes())
    s = session(2, own_modules=["package"])
    s.run(f"{line}\nimport package")
    assert (
        s.call_packed(lambda: id(sys.modules["package._json"])).get_all()
        == [id(sys.modules["package._json"])] * 2
    )
    assert s.run("package._json.make_scanner is not None").values == [True] * 2
    there = {}
    exec(f"{line}\nimport package", there)
    assert there["package"]._json is sys.modules["package._json"]
    assert not isinstance(sys.modules["package._json"], Standing)
    s.shutdown()
    exec("import package._json", there)
    assert there["package"]._json is sys.modules["package._json"]


def test_a_module_that_was_struck_as_its_import_began_is_imported_by_the_next(folder, session, monkeypatch):
    struck = []

    def bind(holder, name, value):
        setattr(holder, name, value)
        if name == "inner" and not struck:
            struck.append(name)
            raise KeyboardInterrupt

    monkeypatch.setattr(own_modules, "setattr", bind, raising=False)
    s = session(1, own_modules=["package"])
    with pytest.raises(CellError):
        s.run("import package.inner")
    assert s.run("import package.inner\npackage.inner.seen").values == [[]]
    assert struck


def test_a_module_may_put_something_else_in_its_place(folder, session):
    write(folder, {"odd.py": "import sys\nclass Odd:\n    mine = []\nsys.modules[__name__] = Odd()\n"})
    s = session(2, own_modules=["odd"])
    s.run("import odd\nodd.mine.append(worker_id)")
    assert s.run("import odd as again\nagain is odd, odd.mine, type(odd).__name__").values == [
        (True, [worker], "Odd") for worker in range(2)
    ]


def test_modules_that_are_forgotten_are_read_again(s, folder):
    write(folder, {"state.py": "rank = 'new'\n"})
    sources.forget(str(folder))
    assert s.run("import state\nstate.rank").values == ["new"] * 3


def test_an_import_that_is_stopped_can_be_made_again(folder, session, here, monkeypatch):
    write(folder, {"slow.py": "from holder import here, over\nhere()\nwhile not over: pass\n"})
    holder = ModuleType("holder")
    holder.here, holder.over = here, []
    monkeypatch.setitem(sys.modules, "holder", holder)
    s = session(2, own_modules=["slow"])
    pending = s.run_nowait("import slow")
    here.arrived(2)
    pending.cancel()
    assert len(stopped(pending)) == 2
    holder.over.append(True)
    assert s.run("import slow\nslow.over").values == [[True]] * 2


def test_what_ends_twice_or_never_began_is_left_alone(s):
    (worker, *_) = IMPORTS
    own_imports.end(worker)
    own_imports.end(worker)
    assert worker not in IMPORTS


def test_what_stands_for_a_module_outlives_its_dictionary(s):
    standing = sys.modules["state"]
    for dictionary in (vars(standing), dictionary_of(standing)):
        dictionary.clear()
    spec = standing.__spec__
    assert (standing.__name__, spec.name, standing.__file__) == ("state", "state", spec.origin)
    assert vars(standing)["__file__"] == spec.origin
    s.run("import state\nstate.start(worker_id + 5)")
    assert s.run("state.which()").values == [5, 6, 7]
    assert __import__("state").rank is None


@pytest.mark.parametrize("reload", [importlib.reload, PYTHONS])
def test_what_workers_alone_have_imported_is_not_there_for_who_reloads_all_in_the_notebook(s, folder, reload):
    standing = sys.modules["state"]
    (folder / "state.py").write_text("raise AssertionError('executed')\n")
    assert reload(standing) is standing
    for change in (partial(setattr, standing, "rank", 1), partial(delattr, standing, "rank")):
        with pytest.raises(AttributeError, match="'state' was imported only on workers"):
            change()
    assert s.run("state.rank").values == [0, 1, 2]


def test_what_the_notebook_has_emptied_and_reloads_by_python_s_own_function_is_executed_again(s):
    import state

    vars(state).clear()
    assert PYTHONS(state) is state
    assert (state.rank, state.__name__, state.package.inner.seen) == (None, "state", [])
    assert vars(state)["__builtins__"]["__import__"] is not __import__
    assert s.run("state.rank").values == [0, 1, 2]
