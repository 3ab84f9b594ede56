"""Modules as programs of all workers, as ``python -m package.train`` runs one."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import pytest

from disco_magic.errors import CellError, UsageMistake
from disco_magic.session.current import session as current_session
from tests.conftest import DEADLINE_S

TRAIN = '''\
"""Trains."""
from __future__ import annotations

import sys

from .model import scale
from . import model

if __name__ == "__main__":
    print("trained", scale(float(sys.argv[1])), __package__)
    total = allreduce(worker_id)
    here, argv = __file__, sys.argv
'''


@contextmanager
def imported_from(folder, monkeypatch):
    before = set(sys.modules)
    monkeypatch.chdir(folder)
    try:
        yield folder
    finally:
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder to work in, with a package that is a program, and has some."""
    package = tmp_path / "shop"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("BEGUN = True\n")
    (package / "model.py").write_text("def scale(x): return 2 * x\n")
    (package / "train.py").write_text(TRAIN)
    (package / "__main__.py").write_text("from .model import scale\nprint('main', scale(1))\n")
    (package / "deep" / "wrong.py").write_text("from ..model import scale\n\nscale(1) / 0\n")
    (tmp_path / "alone.py").write_text("print('alone', __package__)\n")
    with imported_from(tmp_path, monkeypatch):
        yield tmp_path


def test_a_module_is_found_from_the_working_folder_and_imports_from_its_package(session, project):
    before = list(sys.path)
    s = session(2)
    result = s.run_module("shop.train", "4")
    assert result.stdout == dict.fromkeys(range(2), "trained 8.0 shop\n")
    path = str(project / "shop" / "train.py")
    assert s.run("here, argv, total").values == [(path, [path, "4"], 1)] * 2
    assert sys.path == before
    assert s.run("import shop\nshop.BEGUN").values == [True, True]


def test_cells_after_it_import_as_it_does_until_another_program_has_run(session, project):
    s = session(1)
    s.run_module("shop.train", "4")
    assert s.run("from .model import scale as again\nagain(3)").values == [6]
    s.run_file("alone.py")
    with pytest.raises(CellError, match=r"no known parent package|can't resolve package"):
        s.run("from .model import scale as again")


def test_a_file_may_say_which_package_it_is_in(session, project):
    (project / "shop" / "script.py").write_text(
        "if __package__ is None:\n    import shop\n    __package__ = 'shop'\n"
        "from .model import scale\nprint(scale(1))\n"
    )
    s = session(1)
    s.run("import sys; sys.path.append('.')")
    try:
        assert s.run_file("shop/script.py").stdout == {0: "2\n"}
    finally:
        sys.path.remove(".")


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("shop", "main 2"),
        ("shop.__main__", "main 2"),
        ("alone", "alone None"),
    ],
)
def test_a_package_is_its_main_module_and_a_module_may_stand_alone(session, project, name, printed):
    assert session(1).run_module(name).stdout == {0: f"{printed}\n"}


def test_it_is_found_where_modules_are_imported_from(session, project, tmp_path_factory, monkeypatch):
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert session(1).run_module("shop").stdout == {0: "main 2\n"}


def test_folders_without_init_are_packages_too(session, project):
    s = session(1)
    with pytest.raises(CellError, match=r"ZeroDivisionError") as caught:
        s.run_module("shop.deep.wrong")
    assert 'File "shop/deep/wrong.py", line 3' in caught.value.origin.traceback_text
    (project / "plain").mkdir()
    (project / "plain" / "one.py").write_text("print(__package__)\n")
    assert s.run_module("plain.one").stdout == {0: "plain\n"}


def test_its_package_that_fails_is_shown_at_its_own_line(session, project):
    (project / "shop" / "__init__.py").write_text("x = 1\ny = x / 0\n")
    s = session(2)
    with pytest.raises(CellError, match="ZeroDivisionError") as caught:
        s.run_module("shop.train", "4")
    told = caught.value.origin.traceback_text
    assert f'File "{project / "shop" / "__init__.py"}", line 2' in told
    assert "disco_magic" not in told
    assert s.run("'scale' in globals()").values == [False, False]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "there is no module 'nothing' in "),
        ("shop.nothing", "there is no module 'nothing' in the package 'shop', "),
        ("shop.trian", r"there is no module 'trian' in .*; did you mean 'train'\?$"),
        ("shp", r"there is no module 'shp' in .* or on the import path; did you mean 'shop'\?$"),
        ("shop.deep", "'shop.deep' is a package without __main__.py"),
        ("shop.train.more", "there is no module 'shop.train.more': 'shop.train' is a module, not a package"),
        ("sys", "'sys' has no source that could be run: it is built-in"),
        ("_ctypes", "'_ctypes' has no source that could be run"),
        ("alone.py", "there is no module 'alone.py': 'alone' is a module, not a package"),
        ("./alone.py", "is not the name of a module.*'./alone.py' without -m runs a file"),
        ("", "is not the name of a module"),
        (".train", "is not the name of a module"),
    ],
)
def test_what_cannot_be_run_is_said_and_nothing_is_imported(session, project, name, said):
    s = session(1)
    with pytest.raises(UsageMistake, match=said):
        s.run_module(name)
    assert "shop" not in sys.modules
    assert s.names() == ()


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (("--nproc-per-node", "2", "train.py", "--lr", "3"), "train.py --lr 3"),
        (("--help",), "the program itself"),
    ],
)
def test_what_starts_processes_for_ranks_is_not_run_on_every_worker(session, project, arguments, instead):
    folder = project / "horovod" / "runner" / "launch"
    folder.mkdir(parents=True)
    for name in ("__init__", "__main__"):
        (folder / f"{name}.py").write_text("raise SystemExit('started')\n")
    s = session(2)
    with pytest.raises(UsageMistake, match=f"nothing was run; run {instead} instead: its ranks are the"):
        s.run_module("horovod.runner.launch", *arguments)
    (project / "torchrun").write_text("raise SystemExit('started')\n")
    with pytest.raises(UsageMistake, match=f"nothing was run; run {instead} instead"):
        s.run_file(project / "torchrun", *arguments)
    (project / "accelerate").write_text("found = 1\n")
    s.run_file(project / "accelerate", "env")


def test_a_package_of_each_worker_s_own_is_imported_by_each(session, project):
    (project / "shop" / "model.py").write_text(
        "STATE = []\ndef scale(x):\n    STATE.append(x)\n    return len(STATE)\n"
    )
    s = session(2, own_modules=["shop"])
    assert s.run_module("shop.train", "4").stdout == dict.fromkeys(range(2), "trained 1 shop\n")
    assert len(set(s.run("id(model)").values)) == 2


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_it_starts_import_it_by_its_name(session, project, method):
    (project / "shop" / "pool.py").write_text(
        "import multiprocessing as mp\n"
        "from .model import scale\n"
        "def work(x): return scale(x), __name__, __package__\n"
        "if __name__ == '__main__':\n"
        f"    with mp.get_context({method!r}).Pool(1) as pool: told = pool.map(work, [3])\n"
    )
    s = session(1)
    s.run_module("shop.pool", timeout=DEADLINE_S)
    assert s.run("told").values == [[(6, "__mp_main__", "shop")]]


def test_modules_beside_it_that_have_changed_are_told_of_and_imported_anew(session, project):
    s = session(1)
    s.run_module("shop")
    (project / "shop" / "model.py").write_text("def scale(x): return 'changed'\n")
    with pytest.warns(UserWarning, match=r"^shop.model.py has changed since .* reload=True") as warned:
        assert s.run_module("shop").stdout == {0: "main 2\n"}
    assert warned[0].filename == __file__
    assert s.run_module("shop", reload=True).stdout == {0: "main changed\n"}


def test_the_magic_takes_a_module_and_its_arguments(four, project):
    four.run("%disco run -m shop.train 4 -w 1 -m x")
    assert sorted(four.lines) == [f"[{worker}] trained 8.0 shop" for worker in range(4)]
    assert current_session().run("argv[1:]").values == [["4", "-w", "1", "-m", "x"]] * 4
    four.run("%disco run -w 2 -m shop")
    assert four.lines == ["[2] main 2"]
    four.run("%disco run -mw 1 shop")
    assert four.lines == ["[1] main 2"]
    assert "there is no module 'shopp'" in str(four.fail("%disco run -m shopp", UsageMistake))
    error = four.fail("%disco run -m shop.deep.wrong", CellError)
    assert str(error).startswith("shop/deep/wrong.py failed on worker 0")
