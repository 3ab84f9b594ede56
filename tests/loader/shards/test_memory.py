"""What a ShardLoader holds beyond the workers' parts."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from disco_magic.loader import shards
from disco_magic.loader.shards import spilled
from tests.loader.files import write_cache
from tests.loader.shards.made import loader_of, same

ROWS = ["test.axis_0", [[2, 512, 256], "float32"], 2]
MINUS = ["test.negated", [[1024, 256], "float32"]]


@pytest.mark.parametrize("halved", [False, True], ids=["stored", "halved"])
@pytest.mark.parametrize("cut", [[], [ROWS], [MINUS, ROWS], [MINUS, MINUS, ROWS]], ids=len)
def test_worker_0_holds_one_parameter_at_most_beyond_its_own_parts(session, tmp_path, cut, halved):
    nbytes, count = 2**20, 6
    arrays = {f"param_{i}": np.full((1024, 256), i, "f4") for i in range(count)}
    path = write_cache(tmp_path, {"f.bin": arrays}, halved=arrays if halved else ())
    s = session(2)
    loader = loader_of(s, path, dict.fromkeys(arrays, cut) if cut else "")
    s.sync_all()
    del arrays
    tracemalloc.start()
    try:
        loaded = s.call_packed("runtime.disco.ShardLoaderLoadAll", loader)
        s.sync_all()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept > count * nbytes * (1 if cut else 2)
    assert peak - kept < nbytes * (1.2 if cut else 0.2)
    assert loaded.get(1)[5][0, 0] == (-5 if len(cut) == 2 else 5)


def test_what_is_small_beside_the_largest_parameter_needs_no_file(session, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(shards, "spilled", lambda *given: made.append(given[0]) or spilled(*given))
    arrays = {
        "large": np.ones((4, 64), "f4"),
        "small": np.ones((4, 32), "f4"),
        "less": np.ones((4, 33), "f4"),
    }
    info = {
        name: [["test.negated", [[4, n], "float32"]], ["test.axis_0", [[2, 2, n], "float32"], 2]]
        for name, n in (("large", 64), ("small", 32), ("less", 33))
    }
    s = session(2)
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}), info)
    values = s.call_packed("runtime.disco.ShardLoaderLoadAll", loader).get_all()
    for got in values:
        same(got, [-np.ones((2, n), "f4") for n in (64, 32, 33)])
    # Input and output of 32 columns are together no more than 64, of 33 they are.
    assert made == [(4, 64), (4, 33)]


def test_a_parameter_that_lies_oddly_is_copied_to_where_compiled_functions_take_it_as_it_is(
    session, tmp_path
):
    seen = []

    def look(whole, out):
        seen.append(whole.ctypes.data % 64)
        out[:] = whole.reshape(out.shape)

    s = session(2)
    arrays = {"odd": np.zeros(1, "f4"), "p": np.ones((4, 64), "f4")}
    info = {"p": [["look", [[2, 2, 64], "float32"]]]}
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}), info, {"look": look})
    same(s.call_packed("runtime.disco.ShardLoaderLoad", loader, 1).get_all(), [np.ones((2, 64), "f4")] * 2)
    assert seen == [0]
