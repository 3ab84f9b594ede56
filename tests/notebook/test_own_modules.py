"""Modules that each worker imports for itself, as a notebook asks for them."""

from __future__ import annotations

import importlib
import os
import sys

import pytest
from IPython.core.error import UsageError

from disco_magic.errors import UsageMistake
from disco_magic.session.current import session


@pytest.fixture
def helper(tmp_path, monkeypatch):
    """The name of a module beside the notebook that keeps a number."""
    (tmp_path / "kept_number.py").write_text(
        "number = None\ndef keep(x):\n    global number\n    number = x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "kept_number"
    sys.modules.pop("kept_number", None)


@pytest.mark.parametrize(
    ("configured", "line", "wanted"),
    [
        ("", "", None),
        ("", "--own-modules kept_number", ("kept_number",)),
        ("kept_number", "", ("kept_number",)),
        ("megatron, utils", "--own-modules .", (".",)),
        ("megatron", "--own-modules none", ()),
        ("none", "", ()),
    ],
)
def test_they_are_named_when_a_session_starts_or_in_the_settings(shell, configured, line, wanted):
    shell.ip.run_line_magic("config", f"DiscoMagics.own_modules = {configured!r}")
    shell.run(f"%disco start -n 2 {line}")
    assert session().own_modules == wanted


def test_each_worker_keeps_its_own_and_so_does_the_notebook(shell, helper):
    shell.run("%disco start -n 3 --own-modules kept_number")
    shell.run("%%disco\nimport kept_number\nkept_number.keep(worker_id)")
    assert session().run("kept_number.number").values == [0, 1, 2]
    shell.run("import kept_number\nkept_number.keep('mine')")
    assert shell.ip.user_ns["kept_number"].number == "mine"
    shell.run("%disco restart")
    assert session().run("import kept_number\nkept_number.number").values == [None] * 3


def test_a_program_has_modules_beside_it_of_its_own(shell, tmp_path):
    (tmp_path / "beside.py").write_text("steps = []\n")
    (tmp_path / "train.py").write_text(
        "import beside\nbeside.steps.append(worker_id)\nfound = list(beside.steps)\n"
    )
    shell.run("%disco start -n 3 --own-modules .")
    shell.run(f"%disco run {tmp_path / 'train.py'}")
    assert session()["found"].get_all() == [[0], [1], [2]]
    (tmp_path / "beside.py").write_text("steps = ['new']  # and longer\n")
    shell.run(f"%disco run {tmp_path / 'train.py'}")
    assert "beside.py has changed since it was imported" in shell.err + shell.out
    assert session()["found"].get_all() == [[worker] * 2 for worker in range(3)]
    shell.run(f"%disco run --reload {tmp_path / 'train.py'}")
    assert session()["found"].get_all() == [["new", worker] for worker in range(3)]
    sys.modules.pop("beside", None)


@pytest.mark.parametrize("asked", ["a.b", "os", "numpy"])
def test_what_cannot_be_is_refused_with_the_option(shell, asked):
    said = str(shell.fail(f"%disco start --own-modules {asked}", UsageError))
    assert "--own-modules" in said
    assert repr(asked) in said


def test_a_session_that_runs_has_those_it_was_started_with(shell):
    shell.run("%disco start -n 2 --own-modules megatron")
    shell.run("%disco start -n 2 --own-modules megatron")
    said = str(shell.fail("%disco start -n 2 --own-modules utils", UsageMistake))
    assert "for --own-modules utils end it first" in said


@pytest.fixture(params=["2", "2-", "3"])
def reloading(shell, request):
    """A shell with autoreload, which looks at all modules before each cell, in each of its ways."""
    shell.run("%load_ext autoreload")
    shell.run(f"%autoreload {request.param}")
    yield shell
    shell.run("%autoreload 0")


@pytest.fixture
def edit():
    """Writes a file, each time later than before, whatever the clock's steps are."""
    later = iter(range(10, 100, 10))

    def write(path, source):
        path.write_text(source)
        at = path.stat().st_mtime + next(later)
        os.utime(path, (at, at))

    return write


def test_a_cell_that_imports_what_has_changed_says_so_until_it_is_reloaded(shell, helper, tmp_path, edit):
    file = tmp_path / f"{helper}.py"
    shell.run("%disco start -n 2")
    shell.run(f"%%disco\nimport {helper}\nimport importlib, json")
    edit(file, "added = 5\n")
    shell.run("%%disco\n2")
    assert "has changed" not in shell.out
    module = f"sys.modules['{helper}']"
    for line, found, then in (
        (f"import {helper}", helper, ""),
        (f"import {helper} as other", module, ""),
        (f"from {helper} import number", module, ", then import from it again"),
    ):
        shell.run(f"%%disco\n{line}")
        assert shell.lines[0] == (
            f"{os.path.relpath(file)} has changed since it was imported; the imported version is still used; "
            f"importlib.reload({found}) in a cell imports the new source{then}"
        )
    shell.run(f"%%disco\nimport {helper}\nimportlib.reload({helper}).added")
    assert "has changed" not in shell.out  # the cell does what was asked for
    shell.run(f"%%disco\nimport {helper}\n{helper}.added")
    assert shell.lines == ["[0-1] 5"]


def test_where_autoreload_mends_modules_nothing_is_said(reloading, helper, tmp_path, edit):
    # It patches them in place, which nobody sees: the cell had the new source, and was told of the old one.
    file = tmp_path / f"{helper}.py"
    reloading.run("%disco start -n 2")
    reloading.run(f"import {helper}")
    reloading.run(f"%%disco\nimport {helper}")
    for number in (1, 2):
        edit(file, f"def keep(x): return x + {number}\n")
        reloading.run(f"%%disco\nimport {helper}")
        assert "has changed" not in reloading.out


def test_autoreload_that_is_off_mends_nothing(shell, helper, tmp_path, edit):
    shell.run("%load_ext autoreload")
    shell.run("%disco start -n 2")
    shell.run(f"%%disco\nimport {helper}")
    edit(tmp_path / f"{helper}.py", "added = 5\n")
    shell.run(f"%%disco\nimport {helper}")
    assert "has changed since it was imported" in shell.lines[0]


def test_autoreload_reloads_what_workers_import_for_themselves_before_each_cell(
    reloading, helper, tmp_path, edit
):
    # Each cell had the old source, and nothing was said.
    file = tmp_path / f"{helper}.py"
    reloading.run(f"%disco start -n 3 --own-modules {helper}")
    edit(file, "def two(): return 2\nclass Net:\n    def name(self): return 'old'\n")
    reloading.run(f"%%disco\nimport {helper} as m\nfrom {helper} import two\nnet = m.Net()")
    edit(file, "def two(): return 'two'\nclass Net:\n    def name(self): return 'new'\nadded = 5\n")
    reloading.run("%%disco -w 0\nm.added, m.two(), two(), net.name()")
    assert reloading.lines == ["[0] (5, 'two', 'two', 'new')"]
    reloading.run("%%disco -w 0\nm.mine = 1")  # what has not changed is left as it is
    reloading.run("%%disco\nm.added, m.two(), two(), net.name(), hasattr(m, 'mine')")
    assert reloading.lines == [
        "[0]   (5, 'two', 'two', 'new', True)",
        "[1-2] (5, 'two', 'two', 'new', False)",
    ]


def test_a_module_that_cannot_be_reloaded_stays_what_it_was_and_says_so(reloading, helper, tmp_path, edit):
    file = tmp_path / f"{helper}.py"
    reloading.run(f"%disco start -n 2 --own-modules {helper}")
    reloading.run(f"%%disco\nimport {helper} as m\nm.keep(worker_id)")
    for source, said in (("def (:\n", "SyntaxError: "), ("import none_of_these\n", "ModuleNotFoundError: ")):
        edit(file, source)
        reloading.run("%%disco\nm.number")
        assert f"%autoreload: {helper} is still what it was: {said}" in reloading.err
        assert reloading.lines == ["[0] 0", "[1] 1"]
    edit(file, "number = 'mended'\n")
    reloading.run("%%disco\nm.number")
    assert (reloading.err, reloading.lines) == ("", ["[0-1] 'mended'"])


def test_what_autoreload_is_told_to_skip_is_said_to_have_changed(shell, helper, tmp_path, edit):
    shell.run("%load_ext autoreload")
    shell.run("%autoreload 2")
    shell.run(f"%aimport -{helper}")
    shell.run(f"%disco start -n 2 --own-modules {helper}")
    shell.run(f"%%disco\nimport {helper}")
    edit(tmp_path / f"{helper}.py", "added = 5\n")
    shell.run(f"%%disco\nimport {helper}\nhasattr({helper}, 'added')")
    assert "has changed since it was imported" in shell.lines[0]
    assert shell.lines[-1] == "[0-1] False"
    shell.run("%autoreload 0")


def test_autoreload_reloads_the_modules_of_programs_before_they_run(reloading, tmp_path, edit):
    # It emptied what stands for them, and no program ran any more, nor was any error shown.
    helper, main = tmp_path / "beside.py", tmp_path / "train.py"
    edit(helper, "def go(): return 'one'\n")
    edit(main, "import beside\nfound = beside.go()\n")
    reloading.run("%disco start -n 2")
    reloading.run(f"%disco run {main}")
    edit(helper, "import none_of_these\ndef go(): return 'two'\nadded = []\n")
    reloading.run(f"%disco run {main}")
    assert "%autoreload: beside is still what it was: ModuleNotFoundError: " in reloading.err
    assert session()["found"].get_all() == ["one"] * 2
    edit(helper, "def go(): return 'two'\n")
    reloading.run(f"%disco run {main}")
    assert (reloading.err, reloading.lines) == ("", [])
    assert session()["found"].get_all() == ["two"] * 2
    edit(helper, "def go(): return 'three'\nfor each in (): pass\n")
    reloading.run(f"%disco run --reload {main}")
    assert (reloading.err, reloading.lines) == ("", [])
    assert session()["found"].get_all() == ["three"] * 2
    sys.modules.pop("beside", None)


def test_a_program_whose_shared_module_autoreload_has_mended_is_told_nothing_of_it(
    reloading, helper, tmp_path, edit
):
    # It printed the new value, below a line that said that the old source was used.
    file, main = tmp_path / f"{helper}.py", tmp_path / "train.py"
    edit(main, f"import {helper}\nfound = {helper}.keep(1)\n")
    reloading.run("%disco start -n 2 --own-modules none")
    reloading.run(f"%%disco\nimport {helper}")
    edit(file, "def keep(x): return 'new'\n")
    reloading.run(f"%disco run {main}")
    assert "has changed" not in reloading.out + reloading.err
    assert session()["found"].get_all() == ["new"] * 2


def test_the_notebook_and_the_workers_have_a_copy_each_and_both_are_reloaded(
    reloading, helper, tmp_path, edit
):
    file, keep = tmp_path / "kept_number.py", "def keep(x):\n    global number\n    number = x\n"
    reloading.run("%disco start -n 2 --own-modules kept_number")
    reloading.run("%%disco\nimport kept_number\nkept_number.keep(worker_id)")
    reloading.run("import kept_number\nkept_number.keep('mine')")
    assert session().run("kept_number.number").values == [0, 1]
    edit(file, f"number = 'edited'\nfor each in (): pass\n{keep}")
    assert reloading.run("kept_number.number, kept_number.__name__") == ("edited", "kept_number")
    assert session().run("kept_number.number").values == [0, 1]  # no cell of the notebook
    reloading.run("%%disco\nseen = kept_number.number")
    assert session()["seen"].get_all() == ["edited"] * 2
