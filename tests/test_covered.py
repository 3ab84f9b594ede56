"""What tests cover is measured so that interrupts do no harm."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.covered import is_whole, unmeasured


def test_an_interrupt_cannot_leave_the_lock_of_coverage_taken():
    whole = is_whole()
    if whole is None:
        pytest.skip("nothing is measured here")
    assert whole


def measured():
    """Whether anything follows the steps of this thread, and of a new one."""
    with ThreadPoolExecutor(1) as pool:
        return [each is not None for each in (sys.gettrace(), pool.submit(sys.gettrace).result())]


@pytest.fixture
def before(request):
    plugin = request.config.pluginmanager.getplugin("_cov")
    if plugin is None or plugin.cov_controller is None:
        pytest.skip("nothing is measured here")
    found = measured()
    yield found
    assert measured() == found


@pytest.mark.unmeasured
def test_what_is_not_to_be_measured_is_not_nor_what_it_needs(before):
    assert before == measured() == [False, False]


def test_what_comes_after_it_is_measured_again(before):
    assert before == measured() == [True, True]


def test_a_thread_is_not_followed_for_a_while_and_others_are(before):
    with unmeasured():
        assert measured() == [False, True]
    assert measured() == before
