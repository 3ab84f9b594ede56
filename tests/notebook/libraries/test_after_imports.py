"""Libraries that are imported after their changes were asked for."""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec

import pytest

from disco_magic.isolation.imported import AfterImport, each_of, is_imported
from tests.notebook.acting import as_worker, new_worker


def _after(actions):
    return AfterImport(actions, lambda name, module, _: actions[name](module))


@pytest.fixture
def finder(monkeypatch):
    """``finder(actions)`` puts a finder before all others."""

    def put_first(actions):
        monkeypatch.setattr(
            sys,
            "meta_path",
            [_after(actions), *sys.meta_path],
        )

    return put_first


def test_a_module_is_given_to_its_action_once_it_is_there(module_of, finder):
    name, other, seen = module_of("x = 1"), module_of("x = 2"), []
    finder({name: lambda module: seen.append((module.x, type(module.__loader__).__name__))})
    module = __import__(name)
    assert (module.x, __import__(other).x) == (1, 2)
    assert seen == [(1, "SourceFileLoader")]
    assert module.__spec__.loader is module.__loader__


def test_who_only_looks_for_a_module_finds_what_its_loader_can_do(module_of, finder):
    # `runpy` finds a module without importing it, and asks the loader that it finds for the code.
    name, seen = module_of("x = 1"), []
    finder({name: seen.append})
    assert runpy.run_module(name)["x"] == 1
    assert find_spec(name).loader.get_source(name) == "x = 1"
    with pytest.raises(AttributeError, match="no_such_method"):
        find_spec(name).loader.no_such_method()
    assert (seen, name in sys.modules) == ([], False)


def test_a_finder_that_cannot_find_is_not_asked(module_of, monkeypatch):
    # The import system goes past what has no `find_spec`; ours asks all others in its place.
    name, seen = module_of("x = 1"), []
    monkeypatch.setattr(sys, "meta_path", [_after({name: seen.append}), object(), *sys.meta_path])
    assert [__import__(name)] == seen


def test_a_module_that_is_not_there_is_not_found(finder):
    finder({"disco_no_such_module": print})
    with pytest.raises(ModuleNotFoundError):
        __import__("disco_no_such_module")


def test_a_folder_without_code_is_found_as_ever(finder, tmp_path, monkeypatch):
    (tmp_path / "disco_bare_folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    finder({"disco_bare_folder": seen.append})
    assert __import__("disco_bare_folder").__path__
    assert seen == []
    del sys.modules["disco_bare_folder"]


def test_a_module_that_a_worker_imports_sets_itself_up_as_the_process_s(module_of, finder, texts, live):
    name = module_of(
        "from disco_magic.notebook.output.streams import current_sink\nsink = current_sink.get()"
    )
    finder({name: print})
    _, (sink, _) = live(texts)
    module = as_worker(new_worker(), sink, __import__, name)
    assert module.sink is None


def test_a_module_that_is_being_imported_is_not_there_yet(module_of):
    name = module_of("from disco_magic.isolation.imported import is_imported\nearly = is_imported(__name__)")
    assert __import__(name).early is False
    assert is_imported(name)
    assert not is_imported("disco_no_such_module")


def test_changes_of_a_module_that_an_interrupt_cuts_off_are_undone():
    # What undoes them was known to nobody: a class of ours stayed in `builtins` after a stopped start.
    changed = []

    def fit(module):
        changed.append(module)
        return changed.clear

    def struck(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        each_of(fit, struck)(sys)
    assert not changed
