"""A program runs with its own modules also where others of their names were imported before."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import SourceFileLoader

import pytest

NAMES = ("config_of", "middle_of", "shop_of", "bare_of")


@pytest.fixture
def projects(tmp_path, monkeypatch):
    """Two folders, each with a program and modules of the same names; and one that both import from."""
    for letter in "AB":
        folder = tmp_path / letter
        (folder / "shop_of").mkdir(parents=True)
        (folder / "bare_of" / "deep").mkdir(parents=True)
        (folder / "config_of.py").write_text(f"name = {letter!r}\nseen = []\nclass Thing: pass\n")
        (folder / "shop_of" / "__init__.py").write_text("")
        (folder / "shop_of" / "model.py").write_text(f"name = {letter!r}\n")
        (folder / "bare_of" / "deep" / "model.py").write_text(f"name = {letter!r}\n")
    (tmp_path / "A" / "shop_of" / "only_a.py").write_text("")
    common = tmp_path / "common"
    common.mkdir()
    (common / "middle_of.py").write_text("from config_of import name\n")
    (common / "alone_of.py").write_text("self = []\n")
    monkeypatch.syspath_prepend(str(common))
    yield tmp_path
    for name in list(sys.modules):
        if name.partition(".")[0] in (*NAMES, "alone_of"):
            del sys.modules[name]


@pytest.fixture
def run(projects, session):
    """Executes these lines as a program in one of the folders, or on some workers; returns `found`."""
    s = session(2)

    def execute(letter, source, **options):
        path = projects / letter / "program.py"
        path.write_text(source)
        s.run_file(path, **options)
        return s.run("found").values

    execute.session = s
    return execute


@pytest.mark.parametrize(
    "source",
    [
        "import config_of\nfound = config_of.name",
        "from shop_of.model import name as found",
        "from bare_of.deep.model import name as found",  # a package without a file
        "import middle_of\nfound = middle_of.name",  # the same file has imported another one
        "import importlib\nfound = importlib.import_module('config_of').name",
        "import sys\nimport middle_of\nfound = sys.modules['config_of'].name",
        "import sys\nimport config_of\nfound = sys.modules['config_of'].__file__.split('/')[-2]",
        "import config_of, inspect\nfound = inspect.getsource(config_of)[8]",
        "import config_of, inspect\nfound = inspect.getsourcefile(config_of.Thing).split('/')[-2]",
    ],
)
def test_the_second_program_has_its_own(run, source):
    assert [run(letter, source) for letter in "ABA"] == [["A"] * 2, ["B"] * 2, ["A"] * 2]


def test_a_module_that_the_second_program_lacks_is_missing_from_its_package(run):
    run("A", "import shop_of.only_a as found\nfound = found.__name__")
    source = "try: import shop_of.only_a\nexcept ImportError as error: found = error.name\n"
    assert run("B", source) == ["shop_of.only_a"] * 2


def test_the_folder_that_a_program_adds_counts(run, projects):
    source = "import sys\nsys.path.insert(0, FOLDER)\nimport config_of\nfound = config_of.name\n"
    for letter in "AB":
        assert run("common", source.replace("FOLDER", repr(str(projects / letter)))) == [letter] * 2


def test_modules_of_a_package_may_be_run_in_two_checkouts(run, projects, monkeypatch):
    for letter in "AB":
        (projects / letter / "shop_of" / "train.py").write_text("from shop_of.model import name as found\n")
        monkeypatch.chdir(projects / letter)
        run.session.run_module("shop_of.train")
        assert run.session.run("found").values == [letter] * 2


def test_each_worker_keeps_the_modules_of_the_program_that_it_has_executed(run, projects):
    for letter in "AB":
        (projects / letter / "program.py").write_text("import config_of\nfound = config_of.name\n")
    s = run.session
    s.run_file(projects / "A" / "program.py", workers=[0])
    s.run_file(projects / "B" / "program.py", workers=[1])
    assert s.run("found").values == ["A", "B"]
    assert s.run("import config_of\nconfig_of.name").values == ["A", "B"]
    assert run("B", "import config_of\nbarrier()\nfound = config_of.name\n") == ["B", "B"]


def test_what_is_the_same_file_is_not_executed_again(run):
    # Otherwise objects in registers were not of its classes any more.
    source = "import alone_of, config_of\nalone_of.self.append(1)\nfound = len(alone_of.self)\n"
    assert [run(letter, source) for letter in "AB"] == [[1, 1], [2, 2]]
    again = "import config_of\nconfig_of.seen.append(1)\nfound = len(config_of.seen)\n"
    assert [run("B", again) for _ in range(2)] == [[1, 1], [2, 2]]


def test_cells_go_on_with_the_last_program_s_and_objects_with_theirs(run):
    run("A", "import config_of\nfound = None\nthing = config_of.Thing()\n")
    run("B", "import config_of\nfound = None\n")
    seen = "import config_of\nconfig_of.name, type(thing) is config_of.Thing, type(thing).__name__"
    assert run.session.run(seen).values == [("B", False, "Thing")] * 2


def test_a_module_that_was_made_by_hand_stays(run):
    made = "import sys, types\nsys.modules['config_of'] = types.ModuleType('config_of')\n"
    run("A", f"{made}sys.modules['config_of'].name = 'made'\nfound = None")
    assert run("B", "import config_of\nfound = config_of.name") == ["made"] * 2


@pytest.mark.parametrize("name", ["config_of", "shop_of.model", "bare_of.deep.model"])
def test_the_notebook_keeps_what_it_has_imported_from_elsewhere(projects, session, monkeypatch, name):
    # The program was told that it shares the notebook's, and --reload did not help.
    monkeypatch.syspath_prepend(str(projects / "A"))
    mine = __import__(name, fromlist=["name"])
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(projects / "A")])
    s = session(2)
    path = projects / "B" / "program.py"
    path.write_text(f"from {name} import name as found\n")
    s.run_file(path)  # warnings are errors
    assert s.run("found").values == ["B", "B"]
    assert mine.name == "A"
    assert __import__(name, fromlist=["name"]).name == "A"
    s.shutdown()
    assert sys.modules[name] is mine


def test_only_what_is_elsewhere_is_imported_anew_from_the_notebook_s(projects, session, monkeypatch):
    monkeypatch.syspath_prepend(str(projects / "A"))
    import alone_of

    s = session(2)
    path = projects / "B" / "program.py"
    path.write_text("import alone_of, config_of\nfound = config_of.name\nalone_of.self.append(worker_id)\n")
    with pytest.warns(UserWarning, match="alone_of was imported before"):
        s.run_file(path)
    assert (s.run("found").values, sorted(alone_of.self)) == (["B", "B"], [0, 1])


def test_an_edit_of_the_second_program_s_module_is_told(run, projects):
    source = "import config_of\nfound = config_of.name\n"
    for letter in "AB":
        run(letter, source)
    (projects / "B" / "config_of.py").write_text("name = 'edited'\n")
    with pytest.warns(UserWarning, match=r"config_of\.py has changed"):
        assert run("B", source) == ["B", "B"]
    assert run("B", source, reload=True) == ["edited"] * 2


def test_a_link_to_the_same_file_is_no_other_one(run, projects):
    run("A", "import config_of\nconfig_of.seen.append(1)\nfound = None\n")
    linked = projects / "linked"
    linked.mkdir()
    os.symlink(projects / "A" / "config_of.py", linked / "config_of.py")
    assert run("linked", "import config_of\nfound = config_of.seen\n") == [[1], [1]]


class Other:
    """Something in `sys.modules` that counts who wants to know where it is from."""

    def __init__(self):
        self.looks = 0

    @property
    def __spec__(self):
        self.looks += 1


def test_of_thousands_of_other_modules_a_program_looks_at_none_but_the_packages_once(run, monkeypatch):
    package, inner = Other(), Other()
    monkeypatch.setitem(sys.modules, "other_of", package)
    monkeypatch.setitem(sys.modules, "other_of.inner", inner)
    for letter in "AB":
        assert run(letter, "import middle_of\nfound = middle_of.name") == [letter] * 2
    assert (package.looks, inner.looks) == (2, 0)  # of two workers


class Asked(MetaPathFinder):
    """Finds nothing, and notes for what it was asked."""

    def __init__(self):
        self.names = []

    def find_spec(self, name, path, target=None):
        self.names.append(name)


def test_a_package_without_a_file_is_looked_for_and_what_is_in_its_first_folder_is_not(
    projects, session, monkeypatch
):
    # Each of its modules was looked for by every worker, at the first import of every program. Many projects
    # have a `src` without an `__init__.py`.
    monkeypatch.syspath_prepend(str(projects / "A"))
    importlib.import_module("bare_of.deep.model")
    s = session(2)
    program = projects / "common" / "program.py"
    program.write_text("import config_of\nfound = config_of.name\n")
    asked = Asked()
    monkeypatch.setattr(sys, "meta_path", [asked, *sys.meta_path])
    s.run_file(program)
    assert s.run("found").values == ["A", "A"]
    assert "bare_of" in asked.names
    assert not [each for each in asked.names if each.startswith("bare_of.")]


def test_files_are_read_once_to_see_what_they_import_and_again_after_a_reload(projects, session, monkeypatch):
    # Every worker read and compiled all modules of the notebook's packages, for each of its programs.
    monkeypatch.syspath_prepend(str(projects / "A"))
    import alone_of
    import config_of

    read, get_code = [], SourceFileLoader.get_code
    monkeypatch.setattr(
        SourceFileLoader, "get_code", lambda self, name: (read.append(name), get_code(self, name))[1]
    )
    s = session(2)
    path = projects / "B" / "program.py"
    path.write_text("import config_of\nfound = config_of.name\n")
    times = []
    for _ in range(2):
        s.run_file(path)
        assert s.run("found").values == ["B", "B"]
        times.append(read.count("alone_of"))
    assert times in ([1, 1], [2, 2])  # the workers may read it at the same moment
    (projects / "common" / "alone_of.py").write_text(
        "def name():\n    from config_of import name\n    return name\n"
    )
    importlib.reload(alone_of)
    assert (alone_of.name(), config_of.name) == ("A", "A")
    path.write_text("import alone_of\nfound = alone_of.name()\n")
    s.shutdown()
    s = session(2)
    s.run_file(path)
    assert s.run("found").values == ["B", "B"]


@pytest.mark.parametrize("before", ["file", "package"])
def test_a_folder_without_an_init_file_is_another_package_than_what_was_imported(run, projects, before):
    """A namespace package has no file to compare: the second program went on with the first one's module."""
    if before == "file":
        (projects / "A" / "middle_of.py").write_text("name = 'A'\n")
    else:
        (projects / "A" / "middle_of").mkdir()
        (projects / "A" / "middle_of" / "__init__.py").write_text("name = 'A'\n")
    (projects / "common" / "middle_of.py").unlink()
    (projects / "B" / "middle_of").mkdir()
    (projects / "B" / "middle_of" / "model.py").write_text("name = 'B'\n")
    assert run("A", "import middle_of\nfound = middle_of.name") == ["A", "A"]
    assert run("B", "from middle_of.model import name as found") == ["B", "B"]


def test_a_worker_that_comes_later_gets_its_program_s_module_where_the_notebook_has_one(
    projects, session, monkeypatch
):
    """The first worker to import it left in `sys.modules` what stands for everybody's module. Workers that
    came later found nothing there to compare, and went on with the notebook's.
    """
    monkeypatch.syspath_prepend(str(projects / "A"))
    importlib.import_module("config_of")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(projects / "A")])
    s = session(2)
    program = projects / "B" / "program.py"
    program.write_text("")
    s.run_file(program)  # from here on, each worker knows what it shares
    program.write_text("import config_of\nfound = config_of.name")
    s.run_file(program, workers=[0])
    s.run_file(program, workers=[1])
    assert s.run("found").values == ["B", "B"]


def test_a_program_may_put_the_working_directory_first(run, projects, monkeypatch):
    """It is the empty text there, which was taken for the folder of packages without a file."""
    assert run("A", "from bare_of.deep.model import name as found") == ["A", "A"]
    monkeypatch.chdir(projects / "B")
    source = "import sys\nsys.path.insert(0, '')\nfrom bare_of.deep.model import name as found"
    assert run("common", source) == ["B", "B"]
