"""What tests cover is measured so that interrupts do no harm."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.covered import is_whole


def test_an_interrupt_cannot_leave_the_lock_of_coverage_taken():
    whole = is_whole()
    if whole is None:
        pytest.skip("nothing is measured here")
    assert whole


@pytest.mark.no_cover
def test_what_is_not_to_be_measured_is_not(request):
    plugin = request.config.pluginmanager.getplugin("_cov")
    if plugin is None or plugin.cov_controller is None:
        pytest.skip("nothing is measured here")
    with ThreadPoolExecutor(1) as pool:
        assert (sys.gettrace(), pool.submit(sys.gettrace).result()) == (None, None)
