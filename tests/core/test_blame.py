"""Which of several failures comes first, and which one a person wants to look at."""

from __future__ import annotations

import pytest

from disco_magic.core.blame import most_telling, rank
from disco_magic.errors import Failure, Interrupted, PlaneAborted, PlaneMismatch, WorkerInterrupt


def failed(worker, error, *lines):
    text = "".join(f'  File "Cell 1", line {line}, in <module>\n    code\n' for line in lines)
    return Failure(worker, 1, "Cell 1", error, f"Traceback (most recent call last):\n{text}{error}")


def mismatch(astray):
    error = PlaneMismatch("x")
    error.astray = astray
    return error


IN_COLLECTIVE = WorkerInterrupt.at(Interrupted.IN_COLLECTIVE)


@pytest.mark.parametrize(
    ("failures", "worker"),
    [
        (
            [
                failed(2, ValueError("boom"), 3),
                failed(0, ValueError("boom"), 4),
                failed(1, ValueError("boom"), 4),
            ],
            2,
        ),
        (
            [
                failed(0, IN_COLLECTIVE, 3),
                failed(1, WorkerInterrupt("interrupted"), 2),
            ],
            1,
        ),
        (
            [
                failed(0, IN_COLLECTIVE, 3),
                failed(1, IN_COLLECTIVE, 3),
            ],
            0,
        ),
        ([failed(0, WorkerInterrupt("interrupted"), 3), failed(1, WorkerInterrupt("interrupted"), 2)], 0),
        (
            [
                failed(1, PlaneAborted("worker 0 failed: WorkerInterrupt"), 3),
                failed(0, IN_COLLECTIVE, 3),
                failed(2, WorkerInterrupt("interrupted"), 2),
            ],
            2,
        ),
        ([failed(1, PlaneAborted("worker 0 finished"), 3), failed(2, PlaneAborted("the same"), 3)], 1),
        ([failed(n, PlaneMismatch("x"), 5 if n == 2 else 4) for n in range(4)], 2),
        ([failed(n, PlaneMismatch("x"), 9, 5 if n == 1 else 4) for n in range(3)], 1),
        ([failed(n, PlaneMismatch("x"), 4 + n % 2) for n in range(4)], 0),
        ([failed(n, PlaneMismatch("x"), 4) for n in range(4)], 0),
        ([failed(n, mismatch(3), 4) for n in range(4)], 3),
        ([failed(n, mismatch(7), 4) for n in range(4)], 0),
        ([failed(n, mismatch(3), 5 if n == 2 else 4) for n in range(4)], 2),
    ],
    ids=[
        "an error",
        "one was waited for",
        "all waited",
        "none waited",
        "a wait was over before its interrupt",
        "nobody was interrupted",
        "a line",
        "a line above",
        "halves",
        "one line",
        "one line and another call",
        "one line and a call of who has not failed",
        "a line and another call",
    ],
)
def test_the_one_to_look_at_is_who_went_astray(failures, worker):
    assert most_telling(failures).worker == worker


def test_to_whose_call_an_error_of_the_user_s_has_led_comes_first():
    led = PlaneMismatch("x")
    led.__context__ = ValueError("boom")
    first, second = failed(0, PlaneMismatch("x"), 4), failed(1, led, 4)
    assert sorted([first, second], key=lambda each: rank(first, each)) == [second, first]


def test_of_a_chain_of_waits_the_one_comes_first_that_waited_for_nobody_who_waits():
    # The third-hand error was the headline, and the origin stood last, behind workers of smaller numbers.
    origin = failed(3, PlaneAborted("worker 0 finished without a send"))
    further = PlaneAborted("worker 3 failed: ...")
    further.failure = origin
    behind = failed(1, further)
    assert sorted([behind, origin], key=lambda each: rank(behind, each)) == [origin, behind]
