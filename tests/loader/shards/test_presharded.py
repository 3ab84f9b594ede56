"""Parameters that were cut beforehand, one part for each worker."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import UsageMistake, WorkerError
from tests.loader.files import write_cache
from tests.loader.shards.made import WHOLE, loader_of, same, steps


def presharded(count, by_shard=True):
    parts = {name: np.split(array, count) for name, array in WHOLE.items() if name != "param_1"}
    order = [(name, rank) for rank in range(count) for name in parts] if by_shard else None
    order = order or [(name, rank) for name in parts for rank in range(count)]
    return parts, {f"{name}_shard-{rank + 1}-of-{count}": parts[name][rank] for name, rank in order}


@pytest.mark.parametrize("by_shard", [True, False])
@pytest.mark.parametrize(("n", "groups"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 2)])
def test_parts_cut_beforehand_are_read_by_their_own_worker(session, tmp_path, n, groups, by_shard):
    s = session(n, groups)
    size = n // groups
    parts, arrays = presharded(size, by_shard)
    arrays = {name.replace("param_2", "param_1"): array for name, array in arrays.items()}
    # Shard info of the whole model does no harm here.
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}), {"param_0": steps(size)["param_0"]})
    everything = s.call_packed("runtime.disco.ShardLoaderLoadAllPresharded", loader).get_all()
    second = s.call_packed("runtime.disco.ShardLoaderLoadPresharded", loader, 1).get_all()
    for worker in range(n):
        mine = [parts["param_0"][worker % size], parts["param_2"][worker % size]]
        same(everything[worker], mine)
        same([second[worker]], mine[1:])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (
            {"param_0": np.zeros(2)},
            r"'param_0' was not cut for 2 workers, expected a name like <name>_shard-1-of-2",
        ),
        (presharded(3)[1], "'param_0_shard-1-of-3' was not cut for 2 workers"),
        (
            {"a_shard-1-of-2": np.zeros(2), "a_shard-2-of-2": np.zeros(2), "b_shard-1-of-2": np.zeros(2)},
            "part 2 of 2 is missing of 1 parameters: b",
        ),
    ],
    ids=["whole", "for others", "missing"],
)
def test_parts_that_do_not_fit_the_workers_are_refused(session, tmp_path, arrays, words):
    s = session(2)
    loader = loader_of(s, write_cache(tmp_path, {"f.bin": arrays}))
    with pytest.raises(WorkerError, match=words) as caught:
        s.call_packed("runtime.disco.ShardLoaderLoadAllPresharded", loader).get_all()
    assert isinstance(caught.value.origin.exception, UsageMistake)
