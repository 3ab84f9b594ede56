"""A small model in a file, and what sessions have to hold of it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from disco_magic.loader.plan import Shard
from tests.loader.files import write_safetensors

WHOLE = {
    "embed.weight": np.arange(144, dtype="f4").reshape(12, 12),
    "l.0.weight": np.arange(72, dtype="f2").reshape(6, 12),
    "l.0.bias": np.arange(5, dtype="i8"),
    "scale": np.array(3.0),
    "none": np.zeros((0, 12), "f4"),
}
PLAN = {"embed.*": Shard(axis=0), "*.weight": Shard(axis=-1), "none": Shard(axis=0)}


def expected(name, rank, count):
    axes = {"embed.weight": 0, "l.0.weight": 1, "none": 0}
    return np.split(WHOLE[name], count, axes[name])[rank] if name in axes else WHOLE[name]


def check(params, n, share_of):
    """All registers hold what ``share_of(worker)``, a rank and a count, says."""
    assert list(params) == list(WHOLE)
    for name, dref in params.items():
        for worker, got in enumerate(dref.get_all()):
            wanted = expected(name, *share_of(worker))
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_array_equal(got, wanted)
    assert n == dref.session.num_workers


@pytest.fixture
def path(tmp_path):
    """A safetensors file of `WHOLE`."""
    return write_safetensors(tmp_path / "m.safetensors", WHOLE, {"format": "np"})


def registers(s):
    """Numbered registers that are still there, once all workers have done what they were told."""
    gc.collect()
    s.flush()
    s.sync_all()
    return [row.name for row in s.registers(numbered=True).rows]
