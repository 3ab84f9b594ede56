"""How often threads take turns: the shortest interval that anybody holds."""

from __future__ import annotations

import sys

import pytest

from disco_magic.threads.switching import Switching


@pytest.fixture
def before():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    yield pytest.approx(0.004)
    sys.setswitchinterval(interval)


def test_the_shortest_one_counts_and_what_was_there_before_comes_back_at_the_end(before):
    switching = Switching()
    switching.hold("cells", 0.002)
    with switching.held(1e-4):
        assert sys.getswitchinterval() == pytest.approx(1e-4)
        switching.hold("others", 0.003)
        assert sys.getswitchinterval() == pytest.approx(1e-4)
    assert sys.getswitchinterval() == pytest.approx(0.002)
    switching.release("cells")
    assert sys.getswitchinterval() == pytest.approx(0.003)
    switching.release("others")
    switching.release("others")
    assert sys.getswitchinterval() == before


def test_who_holds_one_already_keeps_it(before):
    switching = Switching()
    switching.hold("pursuit", 0.001)
    switching.hold("pursuit", 0.003)
    assert sys.getswitchinterval() == pytest.approx(0.001)
    switching.release("pursuit")
    assert sys.getswitchinterval() == before


def test_nobody_makes_it_longer_than_it_was(before):
    switching = Switching()
    with switching.held(0.016):
        assert sys.getswitchinterval() == before


def test_who_begins_while_another_one_holds_it_does_not_take_that_for_what_was_before(before):
    switching = Switching()
    switching.hold("pursuit", 1e-6)
    switching.hold("cells", 0.001)
    switching.release("pursuit")
    switching.release("cells")
    assert sys.getswitchinterval() == before
