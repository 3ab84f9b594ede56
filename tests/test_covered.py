"""What tests cover is measured so that interrupts do no harm."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from types import ModuleType

import pytest

from tests.covered import imports_followed, is_whole, unmeasured

FOLLOWED_IN_A_COLLECTION = sys.gettrace()


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


@pytest.mark.parametrize("case", range(3))
def test_of_a_table_the_first_case_is_measured(before, case):
    assert before == measured() == [case == 0] * 2


def test_what_comes_after_it_is_measured_again(before):
    assert before == measured() == [True, True]


def test_so_is_what_comes_then(before):
    # The thread of the tests was lost to coverage.py after the first one.
    assert before == measured() == [True, True]


def test_a_thread_is_not_followed_for_a_while_and_others_are(before):
    with unmeasured():
        assert measured() == [False, True]
    assert measured() == before


def test_what_collects_tests_is_not_measured(before):
    assert FOLLOWED_IN_A_COLLECTION is None


@pytest.mark.parametrize(("name", "followed"), [("disco_magic.made", True), ("disco", False)])
def test_of_what_is_imported_meanwhile_the_package_is(tmp_path, name, followed):
    (tmp_path / "made.py").write_text("import sys\nfollow = sys.gettrace()\n")
    made = ModuleType(name)

    def follow(*_):
        return None

    with unmeasured(), imports_followed(follow):
        SourceFileLoader(name, str(tmp_path / "made.py")).exec_module(made)
        assert sys.gettrace() is None
    assert made.follow is (follow if followed else None)
