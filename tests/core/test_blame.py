"""Which of several failures comes first, and which one a person wants to look at."""

from __future__ import annotations

import pytest

from disco_magic.core.blame import in_order, most_telling, origin_first, rank
from disco_magic.core.unmet import Unmet
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
            0,
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
        ([failed(n, mismatch(3), 5 if n == 2 else 4) for n in range(4)], 3),
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
    assert most_telling(in_order(failures)).worker == worker


def test_of_a_stopped_cell_it_is_one_for_which_others_waited():
    stopped = [failed(n, WorkerInterrupt("interrupted"), 2) for n in range(3)]
    assert most_telling(stopped).worker == 0
    assert most_telling(stopped, blocking=(7, 2, 1)).worker == 2
    assert most_telling([failed(1, ValueError("x")), *stopped[::2]], blocking=(2,)).worker == 1


def test_the_worker_whose_call_differs_from_that_of_most_comes_first():
    failures = [failed(worker, mismatch(2), 4) for worker in range(4)]
    ordered = sorted(failures, key=lambda each: rank(failures[0], each))
    assert [each.worker for each in ordered] == [2, 0, 1, 3]
    assert list(origin_first({each.worker: each for each in failures})) == [2, 0, 1, 3]
    tie = [failed(worker, mismatch(None), 4) for worker in range(4)]
    assert sorted([*tie[2:], *tie[:2]], key=lambda each: rank(tie[0], each)) == tie


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


# --- errors of the user's that follow from a released wait ----------------------------------------------


def released(before=None, **known):
    error = PlaneAborted("worker 2 failed")
    error.__context__ = before
    vars(error).update(known)
    return error


def raised(error, *, cause=None, context=None):
    error.__cause__, error.__context__ = cause, context
    return error


def in_a_circle():
    first, second = KeyError("a"), KeyError("b")
    first.__context__, second.__context__ = second, first
    return first


def in_a_circle_through_its_group():
    leaf = released()
    group = ExceptionGroup("tasks", [leaf, leaf])
    return raised(RuntimeError("step"), context=raised(KeyError("x"), context=group))


class Odd(Exception):
    """Has properties of its own where Python has links, and counts as false."""

    __cause__ = __context__ = exceptions = property(lambda self: 1 / 0)

    def __bool__(self):
        raise AssertionError("asked")


def odd():
    error = RuntimeError("step")
    error.__cause__ = Odd("x")
    BaseException.__context__.__set__(error.__cause__, released())
    return error


FOLLOWING = {
    "from it": lambda: raised(RuntimeError("step"), cause=released()),
    "while it was handled": lambda: raised(RuntimeError("step"), context=released()),
    "of it further back": lambda: raised(OSError("x"), context=raised(KeyError("y"), cause=released())),
    "of a task": lambda: ExceptionGroup("tasks", [released(), ExceptionGroup("more", [released()])]),
    "of tasks of a body that was cancelled": lambda: raised(
        ExceptionGroup("tasks", [released()]), context=GeneratorExit()
    ),
    "of tasks, through others": in_a_circle_through_its_group,
    "of this command": lambda: raised(
        ValueError("x"), cause=released(unmet=Unmet("barrier", "line 1", (0,), 1))
    ),
    "of a failure of this command": lambda: raised(
        ValueError("x"), cause=released(failure=failed(2, KeyError()))
    ),
    "through an odd class": odd,
}
OWN = {
    "alone": lambda: RuntimeError("step"),
    "of another error": lambda: raised(RuntimeError("step"), cause=OSError("disk full")),
    "from another error than was handled": lambda: raised(
        RuntimeError("step"), cause=OSError("disk full"), context=released()
    ),
    "of tasks of which one failed": lambda: ExceptionGroup("tasks", [released(), KeyError("own")]),
    "of calls that do not fit": lambda: raised(PlaneMismatch("x"), context=released()),
    "after an error before the wait": lambda: raised(RuntimeError("step"), cause=released(OSError("own"))),
    "of an earlier command": lambda: raised(
        ValueError("x"), cause=released(unmet=Unmet("barrier", "line 1", (0,), 0))
    ),
    "of an earlier command's failure": lambda: raised(
        ValueError("x"), cause=released(failure=Failure(2, 0, "Cell 0", KeyError(), ""))
    ),
    "in a circle": in_a_circle,
}


@pytest.mark.parametrize("make", FOLLOWING.values(), ids=FOLLOWING)
def test_an_error_that_was_raised_because_a_wait_was_released_comes_after_the_origins(make):
    # Workers of smaller numbers were blamed, and the traceback of the one that had failed was not shown.
    failures = {0: failed(0, released()), 1: failed(1, make()), 2: failed(2, ZeroDivisionError("x"))}
    assert list(origin_first(failures)) == [2, 1, 0]


@pytest.mark.parametrize("make", OWN.values(), ids=OWN)
def test_an_error_with_a_reason_of_its_own_is_an_origin(make):
    failures = {0: failed(0, released()), 1: failed(1, make()), 2: failed(2, ZeroDivisionError("x"))}
    assert list(origin_first(failures)) == [1, 2, 0]


def test_an_origin_comes_before_what_follows_from_it_also_if_they_are_of_one_class():
    following, origin = failed(0, raised(ValueError("x"), cause=released())), failed(2, ValueError("x"))
    assert sorted([following, origin], key=lambda each: rank(origin, each)) == [origin, following]
