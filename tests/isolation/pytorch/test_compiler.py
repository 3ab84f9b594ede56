"""What PyTorch's compiler is told of cells, on a stand-in for the part of it that is told."""

from __future__ import annotations

import re
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from disco_magic.isolation.pytorch.compiler import clear_names, fit_compile_lock, fit_compiler
from disco_magic.isolation.worker_mutex import WORKER_MUTEX


class Constants:
    def __init__(self):
        self.ids = {id(True), id(7)}

    def __call__(self):
        return self.ids

    def add(self, key):
        self.ids.add(key)

    def remove(self, key):
        self.ids.remove(key)


class Rules:
    def __init__(self):
        self._builtin_constant_ids = Constants()
        self.SKIP_DIRS = ["/lib/abc.py"]
        self._recompile_re()

    def add(self, name):
        self.SKIP_DIRS.append(f"/site/{name}/")
        self._recompile_re()

    def _recompile_re(self):
        self.SKIP_DIRS_RE = re.compile("|".join(self.SKIP_DIRS))


def test_it_leaves_the_package_out_and_takes_what_cells_are_given_for_constants():
    rules = Rules()
    undo = fit_compiler(rules)
    assert rules.SKIP_DIRS_RE.match("/site/disco_magic/functions/collectives.py")
    assert {id(0), id(256), id(np)} <= rules._builtin_constant_ids()
    undo()
    assert not rules.SKIP_DIRS_RE.match("/site/disco_magic/functions/collectives.py")
    assert rules.SKIP_DIRS_RE.match("/lib/abc.py")
    assert rules._builtin_constant_ids() == {id(True), id(7)}


def test_what_is_not_there_is_left_alone():
    with pytest.raises(AttributeError):  # which whoever changes libraries expects
        fit_compiler(object())


@pytest.mark.parametrize("is_there", [False, True])
def test_a_namespace_is_emptied_but_for_what_the_compiler_takes_out_itself(monkeypatch, is_there):
    # "Exception ignored in ...: KeyError: '__builtins_dict___0'", at the end of a session.
    names, other = {"x": 1, "__compiled": 2}, {"__compiled": 3}
    hooks = [SimpleNamespace(scope=names, name="__compiled"), SimpleNamespace(scope=other, name="x")]
    if is_there:
        manager = SimpleNamespace(instance=SimpleNamespace(values={1: hooks}))
        utils = SimpleNamespace(CleanupManager=manager)
        monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    else:
        monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    clear_names(names)
    assert names == ({"__compiled": 2} if is_there else {})


def test_who_compiles_has_our_mutex_first_and_gives_back_both(background):
    frames = SimpleNamespace(compile_lock=threading.RLock())
    before = frames.compile_lock
    undo = fit_compile_lock(frames)
    got = []

    def compile_twice():
        with frames.compile_lock, frames.compile_lock:
            got.append("both")

    with WORKER_MUTEX.taken("models are traced"):
        waiting = background(compile_twice)
        with before:  # not held by who waits for the mutex
            assert not got
    waiting()
    assert got == ["both"]
    with pytest.raises(OSError, match="no"), frames.compile_lock:
        raise OSError("no")
    assert background(compile_twice)() is None
    undo()
    assert frames.compile_lock is before
