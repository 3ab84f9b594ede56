"""A process group of three workers, on stand-ins for tensors."""

from __future__ import annotations

import pytest

from tests.functions.process_groups import c10d

PRELUDE = """
import torch.distributed as dist
from types import SimpleNamespace
from tests.doubles.arrays import tensor
dist.init_process_group()
world, me = dist.world(), float(worker_id)

def t(*elements, dtype="f4"):
    return tensor(np.array(elements, dtype), device="cpu")

def seen(*tensors):
    return [each.numpy().tolist() for each in tensors]

def opts(op="SUM", root=0):
    return SimpleNamespace(reduceOp=SimpleNamespace(op=f"RedOpType.{op}"), rootRank=root)
"""


@pytest.fixture
def s(monkeypatch, session):
    """Three workers, each with `world`, a group of all, and `t`, which makes tensors."""
    c10d.install(monkeypatch)
    started = session(3)
    started.run(PRELUDE)
    return started


@pytest.fixture
def gives(s):
    """What each worker sees in tensors that a line has filled."""

    def run(line, shown):
        return s.run(f"{line}\nseen({shown})").values

    return run
