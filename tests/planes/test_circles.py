from __future__ import annotations

from disco_magic.planes.circles import circle


class Wait:
    """Waits for the given workers."""

    def __init__(self, *needed, complete=False, verdict=None):
        self.needed, self.complete, self.verdict = list(needed), complete, verdict

    def missing(self):
        return self.needed


def test_a_worker_that_waits_for_one_who_does_not_wait_is_in_no_circle():
    assert circle({0: Wait(1)}, 0) == []


def test_a_worker_that_waits_for_itself_is_a_circle():
    assert circle({0: Wait(0)}, 0) == [0]


def test_the_circle_is_given_in_the_order_of_waiting():
    assert circle({0: Wait(2), 2: Wait(1), 1: Wait(0)}, 0) == [0, 2, 1]


def test_only_the_members_of_the_circle_are_in_it():
    waiting = {0: Wait(3, 1, 2), 1: Wait(4), 2: Wait(0), 5: Wait(0)}
    assert circle(waiting, 0) == [0, 2]


def test_a_circle_among_others_is_theirs_to_find():
    assert circle({0: Wait(1), 1: Wait(2), 2: Wait(1)}, 0) == []


def test_one_who_is_about_to_be_woken_closes_no_circle():
    assert circle({0: Wait(1), 1: Wait(0, complete=True)}, 0) == []
    assert circle({0: Wait(1), 1: Wait(0, verdict="given up")}, 0) == []


def test_a_chain_of_thousands_is_followed_to_its_end():
    chain = {worker: Wait(worker + 1) for worker in range(5000)}
    assert circle(chain, 0) == []
    assert circle({**chain, 5000: Wait(0)}, 0) == [*range(5001)]


def test_a_way_that_leads_nowhere_is_left_for_the_next():
    waiting = {0: Wait(1), 1: Wait(2, 3), 2: Wait(4), 3: Wait(4, 5), 5: Wait(1, 0)}
    assert circle(waiting, 0) == [0, 1, 3, 5]
