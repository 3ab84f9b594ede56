"""Packages that each worker imports for itself, and the notebook beside them."""

from __future__ import annotations

import importlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from types import ModuleType

import pytest

from disco_magic.errors import CellError
from tests.session.written import write

PACKAGE = {
    "whole/__init__.py": "from . import base\nfrom .sub import thing\nregistered = {}\n__version__ = '1.0'\n",
    "whole/base.py": "z = []\n",
    "whole/sub.py": "from whole import base\nimport whole.base\nthing = whole.base.z\n",
    "whole/module.py": "import whole\nwhole.registered['module'] = 1\n_lock = _spec = 'mine'\n",
    "whole/one.py": "from . import two\ndef other(): return two\n",
    "whole/two.py": "from whole import one\ndef other(): return one\n",
}


@pytest.fixture
def whole(folder, session):
    """Three workers that import a package for themselves, whose parts know each other."""
    write(folder, PACKAGE)
    return session(3, own_modules=["whole"])


@pytest.mark.parametrize("is_first", [True, False])
def test_the_notebook_imports_a_package_as_ever(whole, is_first):
    if not is_first:
        whole.run("import whole.module, whole.one")
    import whole as notebooks
    from whole.sub import thing

    assert notebooks.base.z is thing
    assert notebooks.__version__ == "1.0"
    import whole.one

    assert whole.one.other().other().other is whole.one.other().other().other
    assert sys.modules["whole"].registered == {}


def test_whoever_imports_it_by_its_name_has_it_executed(whole):
    whole.run("import importlib\nimportlib.import_module('whole.module')\nimport whole")
    assert whole.run("whole.registered, whole.__version__").values == [({"module": 1}, "1.0")] * 3
    assert whole.run("import sys\nsys.modules['whole'].module._lock").values == ["mine"] * 3
    import whole.module

    assert whole.registered == {"module": 1}
    assert (whole.module._lock, whole.module._spec) == ("mine", "mine")


MEETS = """
import disco_magic as disco
disco.worker().barrier()
runs = globals().get("runs", 0) + 1
if disco.worker().id == 1:
    raise RuntimeError("not here")
"""


@pytest.mark.parametrize(
    "line", ["importlib.import_module('meets.all')", "importlib.import_module('.all', 'meets')"]
)
def test_modules_imported_by_name_may_meet_and_fail_by_themselves(folder, session, line):
    write(folder, {"meets/__init__.py": "", "meets/all.py": MEETS})
    s = session(3, own_modules=["meets"])
    with pytest.raises(CellError, match="not here") as caught:
        s.run(f"import importlib, sys\nmodule = {line}", timeout=20)
    assert sorted(caught.value.failures) == [1]
    seen = s.run("module.runs, sys.modules['meets.all'].runs", workers=(0, 2))
    assert seen.values == [(1, 1), (1, 1)]


def test_modules_that_import_each_other_have_each_other_s_own(whole):
    whole.run("import whole.one\nimport sys")
    assert (
        whole.run("type(whole.one.two).__name__, whole.one.two.one is whole.one").values
        == [("module", True)] * 3
    )


def test_a_module_can_be_loaded_anew(whole):
    import importlib

    whole.run(
        "import importlib, whole.module, whole.base\nwhole.base.z.append(worker_id); whole.registered.clear()"
    )
    whole.run("same = importlib.reload(whole.base) is whole.base\nimportlib.reload(whole.module)")
    assert whole.run("same, whole.base.z, whole.registered").values == [(True, [], {"module": 1})] * 3
    assert importlib.reload(json) is json
    whole.shutdown()
    assert importlib.reload.__name__ == "reload"


def test_what_the_notebook_has_imported_first_is_each_workers_own_all_the_same(folder, session):
    import library
    import state

    state.start("mine")
    s = session(2, own_modules=".")
    assert (
        s.run("import importlib, library\nimportlib.import_module('state').rank, library.rank()").values
        == [(None, None)] * 2
    )
    assert library.rank() == "mine"
    s.shutdown()
    assert (sys.modules["library"], sys.modules["state"]) == (library, state)


def test_what_the_notebook_imports_meanwhile_stays(whole):
    import whole.sub as notebooks

    whole.run("import whole.sub")
    whole.shutdown()
    import whole.sub

    assert whole.sub.thing is notebooks.thing
    assert type(sys.modules["whole.sub"]) is ModuleType


def test_what_the_notebook_has_of_it_stays_what_it_is_after_the_session(folder, session):
    s = session(2, own_modules=["state", "package"])
    s.run("import state, package.late")
    import package
    import state

    state.start("mine")
    kept = [state, package]
    for _ in range(2):
        s.shutdown()
        assert kept[0].which() == "mine"
        assert kept[0].rank is sys.modules["state"].rank
        assert kept[1].inner is sys.modules["package.inner"]
        assert type(sys.modules["package.inner"]) is ModuleType
        assert "package.late" not in sys.modules  # which only workers have imported
        s = session(2, own_modules=["state", "package"])
        assert s.run("import state\nstate.rank").values == [None] * 2


def test_what_others_put_among_the_modules_is_found(folder, session):
    write(folder, {"alias/__init__.py": "import sys, json\nsys.modules[__name__ + '.fake'] = json\n"})
    s = session(2, own_modules=["alias"])
    assert s.run("from alias import fake\nimport json, alias.fake\nfake is json").values == [True] * 2
    del sys.modules["alias.fake"]


def test_a_package_that_looks_in_other_places_finds_what_is_there(folder, session):
    write(
        folder,
        {
            "wide/__init__.py": f"__path__ = [*__path__, {str(folder / 'more')!r}]\n",
            "more/extra.py": "x = 1\n",
        },
    )
    s = session(2, own_modules=["wide"])
    assert (
        s.run("import importlib, wide.extra\nimportlib.import_module('wide.extra').x, wide.extra.x").values
        == [(1, 1)] * 2
    )
    import wide.extra

    assert wide.extra.x == 1


SCANNED = {
    "plugged/__init__.py": "found = {}\n",
    "plugged/kinds/__init__.py": "",
    "plugged/kinds/one.py": "from plugged import found\nname = 'one'\nfound[name] = found\n",
}
SCAN = """
import importlib.util, pkgutil, sys, warnings
import plugged.kinds as around
def execute(name, spec):  # as Hydra does
    if (made := sys.modules.get(name)) is None:
        made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    sys.modules[name] = made
    return made
def load(name, spec):
    return spec.loader.load_module(name)
def scan():
    for finder, name, _ in pkgutil.walk_packages(around.__path__, 'plugged.kinds.'):
        return {}(name, finder.find_spec(name))
warnings.simplefilter("ignore", DeprecationWarning)  # load_module
made = scan()
"""


LOADS = pytest.mark.skipif(not hasattr(SourceFileLoader, "load_module"), reason="Python 3.15 has it no more")


@pytest.mark.parametrize("way", ["execute", pytest.param("load", marks=LOADS)])
def test_plugins_that_a_package_finds_in_its_own_folder_are_each_workers_own(folder, session, way):
    write(folder, SCANNED)
    s = session(3, own_modules=["plugged"])
    scan = SCAN.format(way)
    s.run(scan, workers=[1])
    s.run(f"{scan}\nimport plugged, plugged.kinds.one as one\nplugged.found['me'] = worker_id")
    assert s.run("made.found['one']['me'], one.found['me'], made.name").values == [
        (0, 0, "one"),
        (1, 1, "one"),
        (2, 2, "one"),
    ]
    s.run("plugged.found.clear()\nscan()")
    assert s.run("list(one.found)").values == [["one"]] * 3, "it was not executed again"


def test_files_that_are_no_part_of_a_package_are_executed_as_often_as_asked(folder, session):
    write(folder, {**SCANNED, "plugged/kinds/other/one.py": "marks = []\n", "settings.py": "marks = []\n"})
    s = session(2, own_modules=["plugged", "settings"])
    s.run("import plugged.kinds, settings, importlib.util")
    for name, file in (("settings", "settings.py"), ("plugged.kinds.one", "plugged/kinds/other/one.py")):
        s.run(f"""
def read():
    spec = importlib.util.spec_from_file_location({name!r}, {str(folder / file)!r})
    spec.loader.exec_module(made := importlib.util.module_from_spec(spec))
    return made
one, other = read(), read()
""")
        assert s.run("one.marks is other.marks, settings.marks is one.marks").values == [(False, False)] * 2


def test_threads_that_import_what_needs_each_other_do_not_wait_for_ever(whole, folder):
    write(
        folder,
        {
            "whole/pooled.py": """
        from concurrent.futures import ThreadPoolExecutor
        def get():
            import whole.sub
            return whole.sub.thing
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(get).result()
    """
        },
    )
    assert whole.run("import whole.pooled\nwhole.pooled.found is whole.base.z").values == [True] * 3
    names = ["whole.one", "whole.two"]
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(importlib.import_module, names)
    assert one.other is not two.other


def test_an_object_of_the_notebook_is_of_a_class_that_the_worker_has_not_imported_yet(folder, session):
    s = session(2, own_modules=["state"])
    import state

    s["c"] = s.call_packed(lambda given: given, state.Config(3))
    assert s.run("import state\ntype(c) is state.Config").values == [True] * 2


def test_a_thread_that_goes_on_after_the_end_imports_the_process_s(folder, session):
    s = session(1, own_modules=["state"])
    s.run("def late():\n    import state\n    return state")
    late = s["late"].get(0)
    s.shutdown()
    assert late() is sys.modules["state"]
    assert type(sys.modules["state"]) is ModuleType
