"""Why workers have left commands."""

from __future__ import annotations

from disco_magic.errors import Failure
from disco_magic.planes.reasons import Reasons


class Counted(list):
    """Notes how often it was gone through."""

    rounds = 0

    def __iter__(self):
        self.rounds += 1
        return super().__iter__()


def failed(worker, scope):
    return Failure(worker, scope, "call f", ValueError("boom"), "")


def test_who_leaves_looks_at_the_others_only_when_there_is_something_to_forget():
    reasons = Reasons(256)
    of = reasons._of = Counted(reasons._of)
    for worker in range(256):  # all but the last are ahead of the slowest
        reasons.keep(worker, 7, 6, failed(worker, 7))
        reasons.forget(7 if worker == 255 else 6)
    assert of.rounds == 2
    assert len(reasons) == 0


def test_a_failure_that_comes_when_everybody_has_left_is_forgotten_too():
    reasons = Reasons(2)
    reasons.forget(7)
    reasons.keep(1, 7, 7, failed(1, 7))
    assert reasons.of(1, 7) is not None
    reasons.forget(7)
    assert reasons.of(1, 7) is None
