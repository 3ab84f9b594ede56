"""Stored tensors."""

from __future__ import annotations

import os

import numpy as np
import pytest

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
