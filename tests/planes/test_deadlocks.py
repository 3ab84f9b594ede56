from __future__ import annotations

from disco_magic.planes.deadlocks import circle, stuck


class Wait:
    """Waits for the given workers, all of them or any."""

    def __init__(self, *needed, complete=False, verdict=None, any_suffices=False, scope=1, ends=False):
        self.needed, self.complete, self.verdict = list(needed), complete, verdict
        self.any_suffices, self.scope, self.ends = any_suffices, scope, ends

    def missing(self):
        return [] if self.complete else self.needed


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


HERE = [0] * 6  # nobody has left scope 1


def any_of(*workers, scope=1):
    return Wait(*workers, any_suffices=True, scope=scope)


def test_who_waits_for_any_of_several_closes_no_circle():
    assert circle({0: any_of(1), 1: Wait(0)}, 0) == []
    assert circle({0: any_of(1), 1: Wait(0)}, 1) == []


def test_who_waits_only_so_long_is_not_stuck_nor_is_who_waits_for_it():
    waiting = {0: Wait(1, any_suffices=True, ends=True), 1: any_of(0)}
    assert stuck(waiting, 0, HERE) == []
    assert stuck(waiting, 1, HERE) == []


def test_who_waits_for_any_of_several_can_go_on_as_long_as_one_of_them_can():
    waiting = {0: any_of(1, 2), 1: Wait(0)}
    assert stuck(waiting, 0, HERE) == []
    assert stuck(waiting, 1, HERE) == []
    waiting[2] = Wait(3)
    assert stuck(waiting, 0, HERE) == []
    waiting[3] = Wait(1)
    assert stuck(waiting, 0, HERE) == [0, 1, 2, 3]


def test_one_that_has_left_is_no_hope_for_who_waits_for_any():
    waiting = {0: any_of(1, 2), 1: Wait(0)}
    assert stuck(waiting, 0, [0, 0, 1]) == [0, 1]
    assert stuck({0: any_of(1, 2, scope=2), 1: Wait(0)}, 0, [0, 0, 1]) == []


def test_one_that_is_about_to_be_released_is_not_stuck():
    left = [0, 0, 0, 1]
    assert stuck({0: any_of(1), 1: Wait(0, 3)}, 0, left) == []  # 3 has left: 1 is told so next
    assert stuck({0: Wait(1), 1: any_of(3)}, 0, left) == []
    assert stuck({0: any_of(1), 1: Wait(0, complete=True)}, 0, HERE) == []


def test_only_those_that_the_one_waits_for_are_told_that_they_are_stuck():
    waiting = {0: any_of(1), 1: any_of(0), 2: Wait(1), 3: any_of(4), 4: any_of(3)}
    assert stuck(waiting, 0, HERE) == [0, 1]
    assert stuck(waiting, 2, HERE) == [0, 1, 2]
    assert stuck(waiting, 5, HERE) == []


def test_one_alone_that_waits_for_itself_is_stuck():
    assert stuck({0: any_of(0)}, 0, HERE) == [0]
