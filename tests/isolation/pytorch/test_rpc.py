"""PyTorch's RPC on workers, on a stand-in for its beginning."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError
from tests.isolation.pytorch.torch_module import install

NAME = "torch.distributed.rpc"


@pytest.fixture
def rpc(monkeypatch):
    begun = []
    return install(monkeypatch, NAME, init_rpc=lambda name, rank=0: begun.append((name, rank)), begun=begun)


def test_several_workers_are_told_that_there_is_one_agent(session, rpc):
    s = session(2, extras=lambda _: {"rpc": rpc})
    with pytest.raises(CellError, match="one agent in a process, and workers are threads of one") as caught:
        s.run("rpc.init_rpc(f'w{worker_id}', rank=worker_id)")
    assert list(caught.value.failures) == [0, 1]
    assert rpc.begun == []


def test_a_single_worker_and_the_notebook_have_it(session, rpc):
    s = session(1, extras=lambda _: {"rpc": rpc})
    s.run("rpc.init_rpc('w')")
    rpc.init_rpc("notebook", rank=1)
    assert rpc.begun == [("w", 0), ("notebook", 1)]
    begin = rpc.init_rpc
    s.shutdown()
    assert rpc.init_rpc is not begin
