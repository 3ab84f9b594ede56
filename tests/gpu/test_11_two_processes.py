"""NCCL between two processes on one GPU, which believe to be on two hosts: what bare cupy does there.

That is what our plane relies on: a collective alone can be aborted, a dead peer does not block the abort, and
memory can be given back while a peer waits.
"""

from __future__ import annotations

import pytest

from tests.gpu.apart import Outcome, run_apart, run_pair
from tests.gpu.machine import SIMULATED
from tests.gpu.nccl import needs_nccl

pytestmark = needs_nccl
# On this machine's loopback, without InfiniBand.
NETWORK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}
DEADLINE_S = 60.0


def ranks(scene):
    """The outcomes of both; of a rehearsal's one process, twice."""
    if not SIMULATED:
        return run_pair(scene, deadline_s=DEADLINE_S, environment=NETWORK)
    both = run_apart(scene, "both", module="tests.gpu.ranks", deadline_s=DEADLINE_S)
    return [both, both]


def says(outcome: Outcome, **expected):
    found = {name: outcome.note(name) for name in expected}
    assert found == expected, outcome


def test_collectives():
    for outcome in ranks("collectives"):
        says(
            outcome,
            **{"allreduce 2": True, "allreduce 1000": True, "allreduce 1048576": True},
            broadcast=True,
            sent=True,
        )


def test_a_lone_collective_is_aborted_and_both_connect_anew():
    first, second = ranks("lone_abort")
    says(first, before=True, waited=True, error="None", freed=True, alive=10, after=True)
    says(second, alive=10, after=True)


def test_a_dead_peer_does_not_block_the_abort(record_property):
    first, second = ranks("peer_dies")
    says(first, before=True, freed=True, alive=10)
    record_property("what NCCL said of the dead peer", first.note("error"))
    if not SIMULATED:
        assert second.status == 9


@pytest.mark.skipif(
    SIMULATED, reason="the ranks of a rehearsal are in one process, whose memory waits for both"
)
def test_memory_is_freed_while_a_peer_waits():
    first, second = ranks("memory_is_freed_while_a_peer_waits")
    says(first, before=True, ended=True)
    says(second, freed=True, ended=True)
