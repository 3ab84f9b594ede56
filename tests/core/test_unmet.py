"""What is said of a collective that could not complete, once the cell has ended on all workers."""

from __future__ import annotations

import pytest

from disco_magic.core import unmet
from disco_magic.core.messages import CellDone
from disco_magic.core.unmet import Unmet, settled
from disco_magic.errors import Failure, PlaneAborted, PlaneMismatch, WorkerInterrupt

SEQ = 7
ALL = (0, 1, 2)
WAITED = "barrier() that %s in at Cell 1, line 4"


def failed(worker, error, text="Cell 1"):
    return Failure(worker, SEQ, "Cell 1", error, f"Traceback (most recent call last):\n{text}: {error}\n")


def waited(worker, *, because=None, members=ALL, line=4, scope=SEQ):
    """The failure of a worker that waited; its text is what was known when it was released."""
    error = PlaneAborted(f"as worker {worker} was told")
    error.failure, error.unmet = because, Unmet("barrier()", f"Cell 1, line {line}", members, scope)
    return failed(worker, error)


def ended(*failures, workers=ALL, caught=()):
    by_worker = {failure.worker: failure for failure in failures}
    return {
        worker: CellDone(
            worker, SEQ, 0.0, (), failure=by_worker.get(worker), caught="barrier" * (worker in caught)
        )
        for worker in workers
    }


def texts(*failures, **others):
    return {worker: str(each.exception) for worker, each in settled(ended(*failures, **others)).items()}


def test_all_who_waited_and_all_who_had_finished_are_named():
    told = texts(*(waited(worker, members=(0, 1, 2, 3)) for worker in (2, 3)), workers=range(4))
    assert told[2] == told[3]
    first = f"workers [0-1] finished without joining {WAITED % 'workers [2-3] wait'}"
    assert told[2].splitlines() == [
        f"{first} - workers [0-3] all have to make this call",
        "  [0-1] finished",
        "  [2-3] waiting in barrier() at Cell 1, line 4",
    ]


def test_the_lowest_of_several_that_failed_is_the_reason_for_everybody():
    first, second = failed(1, ValueError("a")), failed(2, KeyError("b"))
    after = settled(
        ended(
            waited(0, because=second),
            waited(3, because=first, members=(1, 2, 3)),
            first,
            second,
            workers=range(4),
        )
    )
    assert str(after[0].exception).startswith("worker 1 failed: ValueError: a - without it, barrier() that")
    assert str(after[3].exception).startswith("worker 1 failed: ValueError: a - without it, barrier() that")
    assert after[0].exception.failure is first
    assert (after[1], after[2]) == (first, second)


def test_the_summary_and_the_traceback_say_it_too():
    after = settled(ended(waited(0), waited(1)))[0]
    assert after.summary.startswith(
        "PlaneAborted: worker 2 finished without joining barrier() that workers [0-1]"
    )
    assert after.traceback_text.count("worker 2 finished") == 1
    assert "as worker 0 was told" not in after.traceback_text


def test_calls_of_one_meeting_at_several_lines_are_listed():
    told = texts(waited(0, line=4), waited(1, line=6))[0]
    assert (
        "barrier() that worker 0 waits in at Cell 1, line 4 and barrier() that worker 1 waits in at" in told
    )


def test_a_member_that_was_released_elsewhere_leads_to_the_worker_it_waited_for():
    origin = failed(2, ValueError("a"))
    between = waited(1, because=origin, members=(1, 2), line=8)
    told = texts(waited(0, because=between, members=(0, 1)), between, origin)[0]
    first = "worker 2 failed: ValueError: a, for which worker 1 waited - without it, "
    assert told.splitlines() == [
        f"{first}{WAITED % 'worker 0 waits'} cannot complete",
        "  [0] waiting in barrier() at Cell 1, line 4",
        "  [1] waiting in barrier() at Cell 1, line 8",
    ]


def test_who_has_finished_tells_more_than_who_was_released():
    released = failed(1, PlaneAborted("worker 3 finished without a send"))
    told = texts(waited(0), released)[0]
    assert told.startswith("worker 2 finished without joining")
    assert "  [1] failed: PlaneAborted: worker 3 finished without a send" in told


@pytest.mark.parametrize(
    ("failures", "how"),
    [
        ([waited(0), waited(1)], {"caught": (2,)}),  # it made the call, and did something else afterwards
        ([waited(0), waited(1), failed(2, WorkerInterrupt())], {}),
        ([waited(0, scope=SEQ - 1)], {}),
        ([waited(0)], {"workers": (0, 1)}),
        ([waited(0), waited(1), waited(2)], {}),
        ([failed(0, PlaneAborted("closed"))], {}),
        ([failed(0, PlaneMismatch("shapes")), failed(1, ValueError("x"))], {}),
    ],
)
def test_other_failures_stay_as_they_are(failures, how):
    before = [str(each.exception) for each in failures]
    after = settled(ended(*failures, **how))
    assert list(after.values()) == failures
    assert [str(each.exception) for each in failures] == before


@pytest.mark.parametrize("n", [4, 64])
def test_what_is_said_to_all_who_waited_is_made_once(monkeypatch, n):
    """For each it took time in the square of how many there are."""
    rows, said = [], unmet.waiting_in
    monkeypatch.setattr(unmet, "waiting_in", lambda *at: rows.append(at) or said(*at))
    many = tuple(range(n))
    told = texts(*(waited(worker, members=(*many,)) for worker in many[1:]), workers=many)
    assert len(set(told.values())) == 1
    assert len(rows) == n - 1
