"""Which files are libraries'."""

from __future__ import annotations

import glob
import sys

import pytest

from disco_magic.libraries import is_of_library, read_import_path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of the import path, and what writes files there."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


INSTALLED = {
    "wheel": {"net-1.0.dist-info/RECORD": "net/__init__.py,sha256=a,1\none.py,,\n../bin/net,,\n"},
    "wheel that lists its packages": {
        "net-1.0.dist-info/RECORD": "net/__init__.py,,\n",
        "net-1.0.dist-info/top_level.txt": "net\none\n",
    },
    "source": {
        "net.egg-info/installed-files.txt": "../net/__init__.py\n",
        "net.egg-info/top_level.txt": "net\none\n",
    },
}


@pytest.mark.parametrize("how", INSTALLED)
def test_what_pip_has_installed_into_a_folder_of_the_import_path_is_a_library_s(folder, how):
    # Each worker executed it for itself, which takes long, or fails where names are registered once.
    home = folder(**INSTALLED[how])
    read_import_path()
    assert is_of_library(str(home / "net" / "deep" / "layers.py"))
    assert is_of_library(str(home / "one.py"))
    assert not is_of_library(str(home / "mine.py"))  # what the user has put beside it
    assert not is_of_library(str(home / "network" / "layers.py"))


@pytest.mark.parametrize(
    "files",
    [
        {"net.egg-info/top_level.txt": "net\n", "net.egg-info/SOURCES.txt": "net/__init__.py\n"},
        {"net-1.0.dist-info/RECORD": "__editable__.net-1.0.pth,,\nnet-1.0.dist-info/RECORD,,\n"},
        {},
    ],
)
def test_a_project_that_is_only_built_there_stays_the_user_s(folder, files):
    home = folder(**files)
    read_import_path()
    assert not is_of_library(str(home / "net" / "layers.py"))


def test_asking_about_a_file_reads_no_folders(folder, monkeypatch):
    # Threads that decide about interrupts ask, and every call that is shown as the user's.
    home = folder(**INSTALLED["wheel"])
    monkeypatch.setattr(glob, "glob", lambda *_: pytest.fail("a folder was read"))
    assert not is_of_library(str(home / "net" / "layers.py"))


def test_what_a_cell_imports_from_a_folder_that_it_adds_is_a_library_s(folder, session, monkeypatch):
    home = folder(**{"net_of_cell-1.0.dist-info/RECORD": "net_of_cell.py,,\n", "net_of_cell.py": ""})
    s = session(2)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(home)])
    s.run(f"import sys\nif worker_id == 0: sys.path.append({str(home)!r})\nbarrier()\nimport net_of_cell")
    monkeypatch.delitem(sys.modules, "net_of_cell")
    assert is_of_library(str(home / "net_of_cell.py"))


def test_a_program_imports_it_once_for_all_workers(folder, session, monkeypatch):
    monkeypatch.setattr(sys, "executed", [], raising=False)
    about = {"net_of_all-1.0.dist-info/RECORD": "net_of_all.py,,\n"}
    home = folder(**about, **{"net_of_all.py": "import sys\nsys.executed.append(1)\n"})
    (home / "program.py").write_text("import net_of_all\n")
    session(3).run_file(home / "program.py")
    monkeypatch.delitem(sys.modules, "net_of_all")
    assert sys.executed == [1]
