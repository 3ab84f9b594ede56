"""NCCL between all GPUs of a machine, a worker on each, in processes of their own; one GPU skips this."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.apart import run_apart
from tests.gpu.contract import NAMES, kept
from tests.gpu.nccl import needs_nccl
from tests.gpu.several import LONG_S, devices

pytestmark = needs_nccl
TOLD = {"NCCL_DEBUG": "WARN"}


@pytest.fixture(autouse=True, scope="module")
def workers(cupy):
    if cupy is None:
        pytest.skip("needs GPUs")
    there = devices(cupy)
    if len(there) < 2:
        pytest.skip("needs two GPUs")
    return len(there)


@pytest.fixture(scope="module")
def findings():
    return kept(
        lambda *done: run_apart(
            "contract", *done, module="tests.gpu.several", deadline_s=300, environment=TOLD
        )
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_nccl_plane_keeps_the_contract(name, findings):
    assert name in findings, "other checks hang"
    assert findings[name] is None, findings[name]


@pytest.fixture
def played(workers):
    """What a scene says; afterwards its session works."""

    def play(scene):
        outcome = run_apart(scene, module="tests.gpu.several", deadline_s=120, environment=TOLD)
        assert outcome.note("after") == [[workers, workers // 2]] * workers, outcome
        return outcome

    return play


def test_numbers_are_right_to_the_last_one(played):
    outcome = played("numbers")
    assert [outcome.note(name) for name in ("total", "everything", "former")] == [True] * 3


def test_sums_go_over_the_axes_of_a_mesh(played, workers):
    ids = np.arange(1, workers + 1).reshape(2, -1)
    ends = [workers + 1, *range(2, workers), workers + 1]
    rows, columns = (np.broadcast_to(ids.sum(axis, keepdims=True), ids.shape).ravel() for axis in (1, 0))
    wanted = np.stack([rows, columns, ends], axis=1).tolist()
    assert played("axes").note("sums") == wanted


def test_memory_sent_from_a_null_stream_is_not_used_again_before_it_was_copied(played):
    assert played("null_stream").note("got") == [7.0]


def test_a_stop_ends_what_waits_for_a_gpu_that_computes_for_long(played, workers):
    outcome = played("interrupted")
    assert outcome.note("error") == "CellError"
    assert outcome.note("seconds") < LONG_S / 2
    assert outcome.note("left") == [False] * workers


def test_a_cell_goes_on_after_a_collective_that_could_not_be_started(played, workers):
    assert played("failed").note("outcomes") == [["PlaneError", worker, workers] for worker in range(workers)]


def test_a_restart_does_not_wait_for_a_gpu_that_computes_for_long(played):
    assert played("restarted").note("seconds") < LONG_S / 2
