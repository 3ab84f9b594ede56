"""What the tests of NCCL share."""

from __future__ import annotations

import pytest

from disco_magic.devices import find
from disco_magic.errors import MissingDependency
from disco_magic.planes.nccl import load_nccl
from tests.doubles import nccl as doubles
from tests.gpu import machine

# The first version that takes two ranks on one GPU, if it is told to.
FIRST_TO_SHARE = 23000
# What it has to be told, before it is loaded.
TWO_RANKS = {
    "NCCL_MULTI_RANK_GPU_ENABLE": "1",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
    "NCCL_DEBUG": "WARN",
    # Two ranks' kernels wait for each other on one GPU: to load another kernel then would wait for both.
    "CUDA_MODULE_LOADING": "EAGER",
}


def absent() -> str | None:
    """Why there is no NCCL to be tested; None if there is. Loads it."""
    if machine.SIMULATED:
        return doubles.available()
    if doubles.load.cache_info().currsize:
        return "this process has the double of NCCL: run these tests by themselves"
    try:
        load_nccl(find.load_cupy())
    except MissingDependency as reason:
        return str(reason)
    return None


# Looks for NCCL when the first test runs: where these are collected with others, that would be too early.
needs_nccl = pytest.mark.usefixtures("nccl")
