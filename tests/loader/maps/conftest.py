"""Stored tensors, and a kernel that is watched."""

from __future__ import annotations

import errno
import os
import sys

import numpy as np
import pytest

from disco_magic.loader import pages
from disco_magic.loader.pages import Pages
from disco_magic.loader.safetensors import open_safetensors
from tests.loader.files import write_safetensors


@pytest.fixture
def stored_as(tmp_path):
    """Stores an array as the last one of a safetensors file; its StoredTensor."""

    def store(array, name="m"):
        path = write_safetensors(tmp_path / f"{name}.safetensors", {"odd": np.zeros(3, "i1"), "x": array})
        os.utime(path, (10**9, 10**9))  # long ago: there are systems whose clock for files stands for 4 ms
        return open_safetensors(path).tensors["x"]

    return store


@pytest.fixture
def tensor(stored_as):
    """Of 16 rows of 4 MiB."""
    return stored_as(np.arange(2**24, dtype="u4").reshape(16, -1))


@pytest.fixture
def copied(monkeypatch):
    """The kernel copies, nothing is read; what it is asked for: (number of rows, bytes of one)."""
    if sys.platform != "linux":
        pytest.skip("Linux copies")
    source, target, asked = np.arange(8, dtype="u1"), np.zeros((1, 8), "u1"), []
    copy_out = pages._copy_out
    if copy_out(source.ctypes.data, 8, target) in (errno.EPERM, errno.ENOSYS):
        pytest.skip("it may not here")

    def noted(address, stride, out):
        asked.append((len(out), out[0].nbytes))
        return copy_out(address, stride, out)

    def read(self, begin, stride, out):
        raise AssertionError("it is read")

    monkeypatch.setattr(pages, "_copy_out", noted)
    monkeypatch.setattr(Pages, "_read", read)
    return asked
