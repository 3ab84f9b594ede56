"""The price of a traceback: `inspect` looks through all modules for the one that a frame's code is from."""

from __future__ import annotations

import inspect
import sys
import types

import pytest

from disco_magic.errors import WorkerError
from disco_magic.notebook.repeats import moduleless


class Asked(types.ModuleType):
    """A module that counts how often somebody asks for its file."""

    count = 0

    def __getattr__(self, name):
        Asked.count += name == "__file__"
        raise AttributeError(name)


@pytest.fixture
def asked(monkeypatch):
    monkeypatch.setattr(Asked, "count", 0)
    monkeypatch.setitem(sys.modules, "asked_for_its_file", Asked("asked_for_its_file"))
    return Asked


def frame_of(file):
    """A frame that executes code of that file."""
    names = {"sys": sys}
    exec(compile("frame = sys._getframe()", file, "exec"), names)
    return names["frame"]


def test_a_cell_that_fails_is_shown_without_a_search_through_all_modules(four, asked):
    # There were four searches for each frame.
    four.fail("%%disco\ndef f():\n    1 / worker_id\nf()", WorkerError)
    assert "----> 4 f()" in four.out + four.err
    assert asked.count == 0


def test_code_of_such_a_file_is_in_no_module(asked):
    frame = frame_of("<cell 1>")
    with moduleless(["<cell 1>"]):
        assert inspect.getmodule(frame) is None
        assert inspect.getmodule(frame, "<cell 1>") is None
    assert asked.count == 0


def test_afterwards_inspect_knows_what_it_knew_before():
    before = dict(inspect.modulesbyfile)
    with pytest.raises(ZeroDivisionError), moduleless(["<cell 1>", "a.py"]):
        raise ZeroDivisionError
    assert inspect.modulesbyfile == before


def test_a_deleted_folder_does_not_keep_a_cells_error_from_being_shown(four, tmp_path, monkeypatch):
    # What has no absolute name has none there at all: IPython wrote of that in place of the error.
    gone = tmp_path / "gone"
    gone.mkdir()
    with monkeypatch.context() as there:
        there.chdir(gone)
        gone.rmdir()
        four.fail("%%disco\n1 / 0", WorkerError)
    assert "----> 2 1 / 0" in four.out + four.err


def test_a_file_that_is_a_modules_stays_the_modules():
    assert inspect.getmodule(frame_of(inspect.__file__)) is inspect
    with moduleless([inspect.__file__]):
        assert inspect.getmodule(frame_of(inspect.__file__)) is inspect
    assert inspect.getmodule(frame_of(inspect.__file__)) is inspect
