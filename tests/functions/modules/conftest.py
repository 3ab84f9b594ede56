"""Files to load, and nothing of what a test has loaded stays."""

from __future__ import annotations

import os
import sys

import pytest

from disco_magic.functions import claims, modules
from disco_magic.functions.tvm_values import TVMFunction

MODEL = """
import json
from os.path import join
from functools import partial
SIZE = 4
class Layer:
    def __init__(self, size=SIZE): self.size = size
    def __eq__(self, other): return vars(self) == vars(other)
def mlp(x): return x * SIZE
def _helper(): return "private"
double = partial(mlp, 2)
"""


@pytest.fixture(autouse=True)
def nothing_loaded():
    """Takes away what a test loaded and registered."""
    loaders, before = list(modules._loaders), set(sys.modules)
    yield
    modules._loaders[:] = loaders
    modules._loaded.clear()
    assert not claims.claims
    for name in [name for name in sys.modules if name.startswith("_disco_") and name not in before]:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    """Writes files, ``write("pkg/part.py", source)``; a file written again gets another time."""
    clock = iter(range(1_000_000, 2_000_000))

    def put(name, source=""):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        tick = next(clock)
        os.utime(path, ns=(tick, tick))
        return path

    return put


@pytest.fixture(scope="module")
def tvm():
    found = pytest.importorskip("tvm", reason="apache-tvm is not installed")
    if found.support.cc.get_cc() is None:
        pytest.skip("TVM links what it exports with a C compiler, and there is none")
    return found


@pytest.fixture
def ffi():
    return pytest.importorskip("tvm_ffi", reason="apache-tvm is not installed")


@pytest.fixture
def through(ffi):
    """``through(function)``: a Python function as TVM calls it."""
    return lambda function: TVMFunction("test", ffi.convert(function))
