"""Our plane on NCCL with two workers on one GPU: threads of one process, as they are on several GPUs.

NCCL 2.30 and later allow that, if they are told to before they are loaded; so all of it is in processes of
its own. A check that hangs costs its deadline, and the others go on without it.
"""

from __future__ import annotations

import pytest

from tests.gpu.apart import run_apart
from tests.gpu.contract import NAMES, kept
from tests.gpu.machine import SIMULATED
from tests.gpu.nccl import FIRST_TO_SHARE, TWO_RANKS, needs_nccl

pytestmark = needs_nccl


@pytest.fixture(autouse=True)
def new_enough(nccl):
    if not SIMULATED and nccl.get_version() < FIRST_TO_SHARE:
        pytest.skip(f"NCCL {nccl.get_version()} takes no two ranks on one GPU, {FIRST_TO_SHARE} does")


@pytest.fixture(scope="module")
def findings():
    return kept(lambda *done: run_apart("contract", *done, deadline_s=300, environment=TWO_RANKS))


@pytest.mark.parametrize("name", NAMES)
def test_the_nccl_plane_keeps_the_contract(name, findings):
    assert name in findings, "other checks hang"
    assert findings[name] is None, findings[name]


def played(scene):
    outcome = run_apart(scene, deadline_s=60, environment=TWO_RANKS)
    assert outcome.note("before") == [[2.0] * 4] * 2, outcome
    assert outcome.note("after") == [[2.0] * 4] * 2, outcome
    return outcome.note("outcomes")


def test_a_lone_collective_is_aborted_and_the_next_one_works():
    assert played("lone_abort") == ["PlaneAborted", "NoneType"]  # the other one has nothing to wait for


def test_a_rank_that_cannot_start_fails_both_and_the_next_one_works():
    outcomes = played("peer_fails")
    assert all(text.startswith("PlaneError") and "no memory for that" in text for text in outcomes)


def test_memory_is_freed_while_a_peer_waits():
    assert played("memory_is_freed_while_a_peer_waits") == [[2.0] * 4] * 2
