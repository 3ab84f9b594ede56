"""What workers get begins where compiled code can take it: large arrays at a multiple of 64 bytes."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.functions.aligned import LARGE_NBYTES, new_array
from disco_magic.loader.plan import Shard
from tests.loader.files import write_safetensors

COUNT = LARGE_NBYTES  # float32: four times as many bytes, a large part for each of 4 workers
HOST = np.arange(4 * COUNT, dtype="f4").reshape(4, -1)

MAKE = {
    "an argument": lambda s: s.call_packed(lambda x: x, HOST),
    "copied to worker 0": lambda s: s.copy_to_worker_0(HOST),
    "broadcast": lambda s: s.broadcast(HOST),
    "scatter": lambda s: s.scatter(HOST),
    "allreduce": lambda s: s.allreduce(s.scatter(HOST)),
    "allgather": lambda s: s.allgather(s.scatter(HOST)),
    "reduce_scatter": lambda s: s.reduce_scatter(s.broadcast(HOST)),
    "alltoall": lambda s: s.alltoall(s.broadcast(HOST)),
    "empty": lambda s: s.empty(HOST.shape),
}


def offset(x):
    return 0 if x is None else x.ctypes.data % 64


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_large_arrays_that_workers_get_are_aligned(session, make):
    s = session(4)
    made = [make(s) for _ in range(4)]  # by chance one in four is
    assert [s.call_packed(offset, each).get_all() for each in made] == [[0] * 4] * 4


def test_small_ones_are_numpys_own():
    assert new_array((3, 2), np.dtype("f4")).flags.owndata
    assert not new_array((LARGE_NBYTES,), np.dtype("u1")).flags.owndata


def test_parameters_from_files_are_aligned(session, tmp_path):
    path = write_safetensors(tmp_path / "m.safetensors", {f"w{n}": HOST[n] for n in range(4)})
    s = session(2)
    loaded = s.load_safetensors(path, {"w1": Shard(0)})
    assert [s.call_packed(offset, each).get_all() for each in loaded.values()] == [[0, 0]] * 4
