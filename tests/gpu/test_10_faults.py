"""A kernel that breaks the device: everything that waits for it has to hear of it."""

from __future__ import annotations

from tests.gpu.apart import run_apart


def test_a_fault_is_an_error_of_the_cell_and_nobody_waits_for_ever():
    outcome = run_apart("fault", deadline_s=60)
    assert "illegal memory access" in (outcome.note("first") or ""), outcome
    for cell in ("first", "second"):
        assert "cuda:0 can no longer be used by this process" in (outcome.note(cell) or ""), outcome
    assert outcome.note("closed") is True, outcome
