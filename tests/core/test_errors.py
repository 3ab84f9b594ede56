"""The exception tree: whose move it is, and what the messages say."""

from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import replace
from types import MappingProxyType

import pytest

from disco_magic import errors
from disco_magic.errors import (
    CellError,
    Divergence,
    Failure,
    Interrupted,
    SyncTimeout,
    UnknownName,
    UsageMistake,
    WorkerError,
    WorkerInterrupt,
    WorkerLost,
    interrupted_at,
)
from disco_magic.errors.pickling import Quoted
from disco_magic.phrases import ranges


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def failure(worker, error=None, text="Traceback ...\nValueError: boom\n"):
    return Failure(worker, 3, "call demo.scale", error or ValueError("boom"), text)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], "[]"),
        ([0], "[0]"),
        ([3, 1, 2, 0], "[0-3]"),
        ((0, 2, 3, 4), "[0,2-4]"),
        ([0, 2, 4], "[0,2,4]"),
        ([0, 1, 5, 6, 7, 9], "[0-1,5-7,9]"),
        ([0, 2, 4, 6], "[0,2,4,6]"),
        ([8, 0, 2, 4, 6], "[0-8:2]"),
        ([0, 1, 4, 7, 10, 13, 14, 15], "[0-1,4,7,10,13-15]"),
    ],
)
def test_worker_ids_are_written_as_ranges(ids, text):
    assert ranges(ids) == text


@pytest.mark.parametrize(
    ("child", "parents"),
    [
        (errors.UsageMistake, (errors.DiscoError, ValueError)),
        (errors.UnknownName, (errors.UsageMistake, KeyError)),
        (errors.SyncTimeout, (errors.DiscoError, TimeoutError)),
        (errors.WorkerLost, (errors.SessionBroken,)),
        (errors.CellError, (errors.WorkerError,)),
        (errors.PlaneAborted, (errors.PlaneError,)),
        (errors.MissingDependency, (errors.DiscoError, ImportError)),
        (errors.WorkerInterrupt, (KeyboardInterrupt,)),
    ],
)
def test_an_error_is_what_its_catcher_expects(child, parents):
    assert all(issubclass(child, parent) for parent in parents)


def test_an_interrupt_passes_through_except_exception():
    assert not issubclass(errors.WorkerInterrupt, Exception)


def test_an_unknown_name_reads_as_a_sentence_not_as_a_repr():
    assert str(UnknownName("no register 'x'")) == "no register 'x'"


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (ValueError("  first\nsecond"), "ValueError: first"),
        (ValueError(), "ValueError"),
        (ValueError("   "), "ValueError"),
        (Mute(), "Mute: <exception str() failed>"),
    ],
)
def test_a_summary_is_one_line(error, summary):
    assert failure(0, error).summary == summary


def test_a_very_long_line_is_cut_in_the_summary_only():
    failure = Failure(0, 1, "a call", ValueError("x" * 1_000_000), "")
    assert failure.summary == f"ValueError: {'x' * 2000}\u2026 (1,000,000 characters)"
    assert len(str(failure.exception)) == 1_000_000


def test_a_worker_error_groups_equal_failures_and_shows_the_origins_traceback():
    error = WorkerError({2: failure(2), 0: failure(0), 1: failure(1, KeyError("k"))})
    assert str(error).splitlines() == [
        "call demo.scale failed on worker 2 (and 2 others)",
        "[0,2] ValueError: boom",
        "[1] KeyError: 'k'",
        "",
        "Traceback ...",
        "ValueError: boom",
    ]


@pytest.mark.parametrize(
    ("texts", "lines"),
    [
        (
            ["worker 0 gave None", "worker 1 gave None", "worker 2 gave None"],
            ["[0-2] ValueError: worker {worker_id} gave None"],
        ),
        (
            ["<f at 0x7f01beef>", "<f at 0x7f02beef>", "no"],
            ["[0-1] ValueError: <f at 0x\u2026>", "[2] ValueError: no"],
        ),
        (["worker 1 failed", "worker 1 failed", "worker 1 failed"], ["[0-2] ValueError: worker 1 failed"]),
        (
            ["worker 0", "worker 10", "worker 2"],
            ["[0,2] ValueError: worker {worker_id}", "[1] ValueError: worker 10"],
        ),
        (
            ["0xdead00 is bad", "0xdead01 is bad"],
            ["[0] ValueError: 0xdead00 is bad", "[1] ValueError: 0xdead01 is bad"],
        ),
        (["worker 0 at 0xabcdef"], ["[0] ValueError: worker 0 at 0xabcdef"]),
        (
            ["no loop in thread 'disco-1-worker-0'.", "no loop in thread 'disco-1-worker-1'."],
            ["[0-1] ValueError: no loop in thread 'disco-1-worker-{worker_id}'."],
        ),
        (
            ["in disco-1-worker-1", "in disco-1-worker-1"],
            ["[0-1] ValueError: in disco-1-worker-1"],
        ),
        (
            [
                "<Thread(Thread-3 (f), started daemon 140496)>",
                "<Thread(Thread-9 (f), started daemon 140499)>",
            ],
            ["[0-1] ValueError: <Thread(Thread-\u2026 (f), started daemon \u2026)>"],
        ),
        (
            ["no loop in thread 'Thread-3 (f)'.", "no loop in thread 'Thread-4 (f)'."],
            ["[0-1] ValueError: no loop in thread 'Thread-\u2026 (f)'."],
        ),
        (
            ["no loop in 'Dummy-3'.", "no loop in 'Dummy-5'."],
            ["[0-1] ValueError: no loop in 'Dummy-\u2026'."],
        ),
        (
            # A user's text may number threads, too: what it says differs.
            ["Thread-3 has no head", "Thread-4 has no head"],
            ["[0] ValueError: Thread-3 has no head", "[1] ValueError: Thread-4 has no head"],
        ),
        (
            ["ThreadPoolExecutor-0_0", "ThreadPoolExecutor-2_1"],
            ["[0-1] ValueError: ThreadPoolExecutor-\u2026"],
        ),
    ],
)
def test_failures_that_name_their_own_worker_or_thread_or_an_address_are_one(texts, lines):
    error = WorkerError({worker: failure(worker, ValueError(text)) for worker, text in enumerate(texts)})
    assert [line for line in str(error).splitlines() if line.startswith("[")] == lines


@pytest.mark.parametrize(("count", "tail"), [(1, "worker 0"), (2, "(and 1 other)"), (3, "(and 2 others)")])
def test_the_first_line_counts_the_others(count, tail):
    error = WorkerError({worker: failure(worker) for worker in range(count)})
    assert str(error).splitlines()[0].endswith(tail)


def test_the_origin_is_the_first_failure():
    error = WorkerError({2: failure(2), 0: failure(0)})
    assert error.origin.worker == 2


def test_an_error_without_failures_is_refused():
    with pytest.raises(UsageMistake, match="at least one failure"):
        WorkerError({})


class TwoArguments(Exception):
    """Cannot be made again from what it gave its base class, as many users' exceptions."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def through(error):
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    "reason", [TwoArguments(1, 2), ValueError(threading.Lock()), type("Own", (ValueError,), {})("x")]
)
def test_it_can_be_pickled_whatever_failed_in_it(reason):
    first = Failure(2, 7, "Cell In[3]", reason, "Traceback\n  line")
    error = CellError({2: first, 0: failure(0)}, [failure(1)], cancelled=True)
    error.result, error._render_traceback_ = object(), lambda: None
    error.add_note("and this")
    same = through(error)
    assert str(same) == str(error)
    assert type(same.origin.exception) is Quoted
    assert str(same.origin.exception) == same.origin.summary == first.summary
    assert same.origin == replace(first, exception=same.origin.exception)
    assert type(same.failures[0].exception) is type(failure(0).exception)
    assert same.__notes__ == ["and this"]
    assert same.stopped == "cancelled"
    assert through(same).origin.summary == first.summary


def test_all_others_can_be_pickled_without_what_belongs_to_their_session():
    late = SyncTimeout("late")
    late.result, late.diagnosis = object(), ("where",)
    late.failures = MappingProxyType({1: failure(1)})
    same = through(late)
    assert (str(same), same.diagnosis, list(same.failures)) == ("late", ("where",), [1])
    assert not hasattr(same, "result")
    assert through(WorkerLost(1, "gone")).reason == "gone"
    assert str(through(UnknownName("no x"))) == "no x"
    assert through(Divergence("they differ", "report")).report == "report"


def test_a_worker_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(CellError({1: failure(1)})))  # noqa: S301 - our own bytes
    assert type(error) is CellError
    assert error.failures[1].summary == "ValueError: boom"


def test_changing_the_given_mapping_later_does_not_change_the_error():
    failures = {0: failure(0)}
    error = WorkerError(failures)
    failures.clear()
    assert list(error.failures) == [0]


@pytest.mark.parametrize(
    ("error", "met", "words"),
    [
        (WorkerInterrupt(), Interrupted.STRUCK, "the command was interrupted"),
        (WorkerInterrupt("as it asked"), Interrupted.ELSEWHERE, "as it asked"),
        (
            WorkerInterrupt.at(Interrupted.IN_COLLECTIVE),
            Interrupted.IN_COLLECTIVE,
            "interrupted in a collective",
        ),
        (
            WorkerInterrupt.at(Interrupted.BETWEEN_STEPS, "1,200"),
            Interrupted.BETWEEN_STEPS,
            "stopped after step 1,200",
        ),
        (KeyboardInterrupt("interrupted in a collective"), None, "interrupted in a collective"),
        (ValueError("stopped after step 3"), None, "stopped after step 3"),
    ],
)
def test_where_an_interrupt_has_met_a_worker_is_not_told_by_its_words(error, met, words):
    for each in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert (interrupted_at(each), str(each)) == (met, words)
