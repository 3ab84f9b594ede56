"""What tests cover is measured so that interrupts do no harm."""

from __future__ import annotations

import pytest

from tests.covered import is_whole


def test_an_interrupt_cannot_leave_the_lock_of_coverage_taken():
    whole = is_whole()
    if whole is None:
        pytest.skip("nothing is measured here")
    assert whole
