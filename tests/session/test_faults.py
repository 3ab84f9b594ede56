"""Cases of the fault matrix: the expected error, once, and a session that goes on as if nothing was."""

from __future__ import annotations

import threading

import pytest

from disco_magic.callers.namespaces import in_use
from disco_magic.core.ledger import Ledger
from disco_magic.errors import CellError, WorkerError
from tests.faults import CAN_FORK, EXIT, Case, DisagreementError, Exits, Trials, all_cases, exits
from tests.faults.matrix import Expected
from tests.faults.stages import DEADLINE_S
from tests.faults.ways import error_of
from tests.sampled import every_pair

# Thousands of ways through the same lines, each of which has a test of its own.
pytestmark = pytest.mark.unmeasured


def facts(case):
    """What may have to meet for a fault to show. What fails in which way meets every moment and place."""
    return (case.stage, case.way), case.place, case.moment, case.kind


CASES = every_pair([case for case in all_cases() if case.moment != EXIT], facts)
AT_EXIT = every_pair([case for case in all_cases() if case.moment == EXIT], facts)


def ours():
    """Worker threads and namespaces of sessions."""
    threads = {thread.name for thread in threading.enumerate() if thread.name.startswith("disco-")}
    return threads | in_use()


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Sessions live from one case to the next here; `trials` looks when the last one is over."""


@pytest.fixture(scope="module")
def trials():
    before = ours()
    with Trials() as made:
        yield made
    assert ours() <= before


@pytest.fixture(scope="module")
def ends():
    with Exits(AT_EXIT) as made:
        yield made


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_object_that_fails_gives_one_clear_error_and_the_session_goes_on(trials, case):
    assert trials.try_case(case) < DEADLINE_S


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
@pytest.mark.parametrize("case", AT_EXIT, ids=str)
def test_an_object_that_fails_while_the_interpreter_exits_disturbs_nothing(ends, case):
    assert ends.try_case(case) < DEADLINE_S


# --- what the cases do not show ------------------------------------------------------------------------


class Thing:
    """Cannot be copied or pickled."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error

    def __repr__(self):
        return "a thing"


@pytest.mark.parametrize("way", ["exception", "memory"])
def test_a_result_that_cannot_be_copied_keeps_its_register(session, way):
    s, thing = session(1), Thing(error_of(way))
    ref = s.call_packed(lambda: thing)
    for _ in range(2):
        with pytest.raises(WorkerError, match="cannot be copied") as caught:
            ref.get(0)
        assert caught.value.origin.exception.__cause__ is thing.error
    assert ref.info().cells[0].type == "Thing"


def test_a_value_that_cannot_be_pickled_is_compared_by_its_text(session):
    s, thing = session(2), Thing(error_of("exception"))
    s["thing"] = s.call_packed(lambda: thing)
    assert repr(s.run("thing")) == "[0-1] a thing"


# --- a matrix that would let everything pass proves nothing --------------------------------------------


@pytest.mark.parametrize(
    "expected",
    [
        Expected(None),
        Expected(CellError, (0,)),
        Expected(WorkerError, (1,)),
        Expected(WorkerError, (0,), released=(1,)),
        Expected(WorkerError, (0, 1)),
    ],
    ids=["nothing", "class", "worker", "released", "more"],
)
def test_a_session_that_does_something_else_is_found_out_and_not_used_again(trials, monkeypatch, expected):
    case = Case("function", "exception", "worker 0", "sync waits")
    assert case in all_cases()
    with monkeypatch.context() as patch:
        patch.setattr(Case, "expected", expected)
        with pytest.raises(DisagreementError):
            trials.try_case(case)
    trials.try_case(case)


def test_an_error_that_is_told_twice_is_found_out(trials, monkeypatch):
    case = Case("function", "exception", "worker 0", "two wait")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "take_failures", lambda self, further=(): (dict(self._failures), []))
        with pytest.raises(DisagreementError, match="one error, once"):
            trials.try_case(case)
    trials.try_case(case)


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_a_process_that_does_not_end_well_is_found_out_and_the_right_case_blamed(monkeypatch):
    good, bad = (Case("finalizer", way, "worker 0", EXIT) for way in ("exception", "memory"))
    monkeypatch.setattr(exits, "error_of", lambda way: error_of("exception"))
    with Exits([good, bad]) as ends:
        assert ends.try_case(good) < DEADLINE_S
        with pytest.raises(DisagreementError, match="errors that Python ignored"):
            ends.try_case(bad)
