"""What a worker's recorder keeps; the clock moves when the test says so."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from disco_magic import recorder
from disco_magic.core.messages import Call, Fetch, Kill, Run, Store, Sync
from disco_magic.core.recorded import ASLEEP
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.recorder import SHORT_S, Recorder
from disco_magic.threads import stopwatch
from tests.clocks import Clock, ticking

FACTS = ("allreduce", "float32", (3,), ("sum",), "cell.py", 2)


def describe(command):
    return f"words of {command.seq}" if type(command) is not Call else f"call {command.function.__name__}"


def place(filename, line):
    return f"{filename}:{line}"


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(recorder, "perf_counter", made)
    return made


@pytest.fixture
def one(clock):
    """A recorder whose thread has begun."""
    made = Recorder()
    made.begin(1)
    return made


def record(one, now=None, waiting_s=None):
    return one.record(0, now, waiting_s, describe=describe, place=place)


def labels(one, now=None):
    return [(span.kind, span.label, span.start_s, span.end_s) for span in record(one, now).spans]


# --- calls -------------------------------------------------------------------------------------------


def test_a_single_call_has_the_name_of_its_function(one, clock):
    one.spell = (2.0, 4, int, one.quiet)
    one.rests(5.0, 4, describe)
    assert labels(one) == [("call", "call int", 2.0, 5.0)]


def test_many_calls_without_a_pause_are_one_span_with_their_number(one):
    one.spell = (2.0, 4, int, one.quiet)
    one.rests(5.0, 1203, describe)
    (span,) = record(one).spans
    assert (span.kind, span.label, span.detail) == (
        "calls",
        "1,200 calls",
        "commands 4 to 1203, the first: call int",
    )


def test_what_is_too_short_to_be_seen_is_not_kept(one):
    one.spell = (2.0, 4, int, one.quiet)
    one.rests(2.0 + SHORT_S / 2, 9, describe)
    assert labels(one) == []


def test_commands_that_execute_nothing_do_not_count_as_calls(one, clock):
    one.spell = (0.0, 4, int, one.quiet)
    one.passes(Kill(5, ()), describe)
    one.rests(3.0, 5, describe)
    assert labels(one) == [("call", "call int", 0.0, 3.0)]


def test_a_call_that_is_skipped_gives_no_other_one_its_name(one, clock):
    one.spell = (0.0, 4, int, one.quiet)
    one.passes(Call(4, 1, int, ()), describe)
    one.rests(3.0, 5, describe)
    assert labels(one) == [("call", "call", 0.0, 3.0)]


def test_who_waits_for_a_sync_finds_what_came_before_it(one, clock):
    one.spell = (0.0, 4, int, one.quiet)
    clock.now = 3.0
    one.passes(Sync(5), describe)
    assert labels(one) == [("call", "call int", 0.0, 3.0)]
    assert one.spell == (3.0, 6, None, one.quiet)


def test_a_spell_of_commands_that_execute_nothing_is_no_call(one, clock):
    one.spell = (0.0, 4, None, one.quiet)
    one.passes(Sync(4), describe)
    one.rests(3.0, 4, describe)
    assert labels(one) == []


# --- commands through the interpreter ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "kind"), [(Run(1, 2, None), "cell"), (Store(1, 2, 3), "copy"), (Fetch(1, 2), "copy")]
)
def test_a_command_is_kept_from_its_beginning_to_its_end(one, clock, command, kind):
    one.spell = (1.0, 1, None, one.quiet)
    one.opens(command, describe)
    clock.now = 4.0
    one.closes(command, describe)
    one.closes(command, describe)
    assert labels(one) == [(kind, "words of 1", 1.0, 4.0)]


def test_calls_before_a_cell_are_kept_before_it(one, clock):
    one.spell = (1.0, 1, int, one.quiet)
    clock.now = 3.0
    one.opens(Run(3, 2, None), describe)
    clock.now = 4.0
    one.closes(Run(3, 2, None), describe)
    assert labels(one) == [("calls", "2 calls", 1.0, 3.0), ("cell", "words of 3", 3.0, 4.0)]


def test_of_short_commands_only_cells_are_kept(one):
    for command in (Fetch(1, 2), Run(2, 3, None)):
        one.opens(command, describe)
        one.closes(command, describe)
    assert [kind for kind, *_ in labels(one)] == ["cell"]


# --- errors ------------------------------------------------------------------------------------------


def test_a_call_that_fails_is_kept_with_its_error(one, clock):
    one.spell = (1.0, 4, int, one.quiet)
    clock.now = 3.0
    one.fails(Call(4, 1, int, ()), "ValueError: boom", describe)
    call, error = record(one).spans
    assert (call.kind, call.label, call.end_s) == ("call", "call int", 3.0)
    assert (error.kind, error.label, error.start_s, error.detail) == (
        "error",
        "ValueError: boom",
        3.0,
        "in call int",
    )


def test_a_cell_that_fails_is_kept_with_its_error(one, clock):
    one.opens(Run(1, 2, None), describe)
    clock.now = 3.0
    one.fails(Run(1, 2, None), "ValueError: boom", describe)
    assert [kind for kind, *_ in labels(one)] == ["cell", "error"]
    assert one.opened is None


def test_thousands_of_equal_errors_in_a_row_are_one(one, clock):
    one.fails(Call(1, 1, int, ()), "WorkerInterrupt: interrupted", describe)
    for seq in range(2, 5000):
        clock.now += SHORT_S / 2
        one.fails(Call(seq, 1, int, ()), "WorkerInterrupt: interrupted", describe)
    one.fails(Call(5000, 1, int, ()), "ValueError: boom", describe)
    assert [(span.kind, span.label, span.seq) for span in record(one).spans] == [
        ("error", "WorkerInterrupt: interrupted", 4999),
        ("error", "ValueError: boom", 5000),
    ]
    assert record(one).dropped == 0


def test_the_text_of_an_error_is_kept_in_part(one):
    one.fails(Call(1, 1, int, ()), "x" * 100_000, describe)
    assert len(labels(one)[0][1]) == 200


# --- collectives -------------------------------------------------------------------------------------


def test_collectives_are_numbered_per_command_and_members(one):
    for scope, members in ((7, (0, 1)), (7, (0, 1)), (7, (0, 1, 2)), (8, (0, 1)), (8, (0,)), (8, ())):
        one.parts(one.joins(FACTS, scope, members), 0.0)
    assert [span.meeting for span in record(one).spans] == [
        ((0, 1), 7, 1),
        ((0, 1), 7, 2),
        ((0, 1, 2), 7, 1),
        ((0, 1), 8, 1),
        None,
        None,
    ]


def test_a_call_that_was_refused_does_not_count_as_joined(one):
    one.parts(one.joins(FACTS, 7, (0, 1)), 0.0, "UsageMistake", refused=True)
    one.parts(one.joins(FACTS, 7, ()), 0.0, "UsageMistake", refused=True)
    one.parts(one.joins(FACTS, 7, (0, 1)), 0.0)
    spans = record(one).spans
    assert [span.meeting for span in spans] == [None, None, ((0, 1), 7, 1)]
    assert [span.detail for span in spans] == ["failed: UsageMistake"] * 2 + [""]


def test_waiting_is_what_the_worker_slept_in_this_collective(one, clock):
    for slept_s in (2.0, 2.0, 5.0):
        joined = one.joins(FACTS, 7, (0, 1))
        clock.now += 4.0
        one.parts(joined, slept_s)
    waits = [(span.start_s, span.end_s) for span in record(one).spans if span.kind == "waiting"]
    assert waits == [(0.0, 2.0), (8.0, 11.0)]


def test_a_cell_says_how_long_it_slept_in_all_its_collectives_also_in_those_that_were_dropped(clock):
    one = Recorder(kept=2)
    one.begin(1)
    one.parts(one.joins(FACTS, 6, (0, 1)), 5.0)  # before it
    one.opens(Run(7, 2, None), describe)
    for slept_s in (6.0, 8.0, 8.5):
        one.parts(one.joins(FACTS, 7, (0, 1)), slept_s)
    one.closes(Run(7, 2, None), describe)
    assert [(span.kind, span.seq, span.waited_s) for span in record(one).spans if span.kind != "waiting"] == [
        ("collective", None, None),
        ("cell", 7, 3.5),
    ]


def test_a_cell_whose_thread_was_given_up_has_slept_until_then(one, clock):
    one.parts(one.joins(FACTS, 6, (0, 1)), 5.0)
    one.opens(Run(7, 2, None), describe)
    one.joins(FACTS, 7, (0, 1))
    heir = one.succeed(slept_s=9.0)
    heir.fails(Run(7, 2, None), "WorkerInterrupt: stuck", describe)
    cell, error = record(heir).spans[-2:]
    assert (cell.kind, cell.waited_s) == ("cell", 4.0)
    assert (error.kind, error.seq) == ("error", 7)


def test_no_array_is_kept_alive(one):
    class Watched(np.ndarray):
        pass

    array = np.zeros(3).view(Watched)
    seen = weakref.ref(array)
    one.parts(one.joins(("reduce", "float32", (3,), ("sum", array), "f", 1), 7, (0, 1)), 0.0, "UsageMistake")
    del array
    assert seen() is None


def test_the_garbage_collector_lets_go_of_what_is_kept_when_it_has_met_it_twice(one):
    members, kind = tuple(range(4)), np.dtype("f4")
    gc.collect()
    for number in range(100):
        facts = ("allreduce", kind, np.zeros(number).shape, (f"sum{number}", number), "f", 1)
        one.parts(one.joins(facts, 7, members), 0.0)
    gc.collect()
    gc.collect()
    assert not any(map(gc.is_tracked, one._done))


# --- what goes on ------------------------------------------------------------------------------------


def test_what_goes_on_is_unfinished(one, clock):
    command = Run(1, 2, None)
    one.opens(command, describe)
    clock.now = 2.0
    one.joins(FACTS, 1, (0, 1))
    clock.now = 6.0
    spans = record(one, command, waiting_s=3.0).spans
    assert [(span.kind, span.start_s, span.end_s, span.unfinished) for span in spans] == [
        ("cell", 0.0, 6.0, True),
        ("collective", 2.0, 6.0, True),
        ("waiting", 3.0, 6.0, True),
    ]


def test_what_ends_while_it_is_read_is_found_once(one, clock):
    class Ending:
        """Ends the command and the collective between the two looks."""

        def __call__(self, command):
            return "words"

    command = Run(1, 2, None)
    one.opens(command, describe)
    opened, joined = one.opened, one.joins(FACTS, 1, (0, 1))
    clock.now = 2.0
    one.parts(joined, 0.0)
    one.closes(command, Ending())
    one.opened, one.joined = opened, joined  # as the reader saw them before
    assert [kind for kind, *_ in labels(one, command)] == ["collective", "cell"]


def test_a_bare_call_that_goes_on_is_known_by_its_name(one, clock):
    one.spell = (1.0, 4, int, one.quiet)
    clock.now = 3.0
    assert labels(one, (4, 1, int, (), (), ())) == [("call", "call int", 1.0, 3.0)]


# --- bounds, threads, ends ---------------------------------------------------------------------------


def test_of_more_than_it_keeps_the_oldest_are_dropped_and_counted(clock):
    one = Recorder(kept=3)
    one.begin(1)
    for number in range(5):
        clock.now = float(number)
        one.parts(one.joins(FACTS, 7, (0, 1)), 0.0)
    found = record(one)
    assert [span.start_s for span in found.spans] == [2.0, 3.0, 4.0]
    assert (found.dropped, found.whole_from_s) == (2, 2.0)


def test_nothing_dropped_means_known_from_the_beginning(one, clock):
    clock.now = 9.0
    found = record(one)
    assert (found.began_s, found.whole_from_s, found.until_s, found.dropped) == (0.0, 0.0, 9.0, 0)


def test_the_record_ends_with_the_worker(one, clock):
    clock.now = 4.0
    one.end()
    clock.now = 9.0
    assert record(one).until_s == 4.0
    assert one.spell is ASLEEP


def test_a_worker_that_has_not_begun_has_an_empty_record(clock):
    clock.now = 5.0
    found = record(Recorder())
    assert (found.spans, found.began_s, found.until_s) == ((), 5.0, 5.0)


def test_a_thread_that_was_given_up_writes_into_nobodys_record(one, clock):
    joined = one.joins(FACTS, 7, (0, 1))
    heir = one.succeed(slept_s=3.0)
    heir.begin(8)
    clock.now = 6.0
    one.parts(joined, 5.0)
    one.fails(Run(7, 1, None), "late", describe)
    assert labels(heir) == []
    heir.parts(heir.joins(FACTS, 9, (0, 1)), 3.0)  # what the other thread slept is not its own
    assert [kind for kind, *_ in labels(heir)] == ["collective"]
    assert record(heir).began_s == 0.0


# --- in a worker -------------------------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch):
    """A clock that moves a second with every look."""
    clock = ticking()
    for module in (recorder, stopwatch):
        monkeypatch.setattr(module, "perf_counter", clock)


def boom():
    raise ValueError("boom")


def test_a_worker_records_its_commands(bench, steps):
    cell = compile_cell("1")
    bench.serve(
        Call(1, 5, int, ("3",)),
        Run(2, 6, cell),
        Store(3, 7, [1]),
        Fetch(4, 7),
        Call(5, 8, boom, ()),
        Call(6, 9, int, (8,), (0,)),  # inherits the failure
        Call(7, 9, int, (), workers=(1,)),
        Sync(8),
    )
    spans = bench.worker.record().spans
    assert [(span.kind, span.label) for span in spans if not span.kind.startswith("call")] == [
        ("cell", cell.label),
        ("copy", "copy into register #7"),
        ("copy", "get register #7"),
        ("error", "ValueError: boom"),
    ]
    assert [span.detail for span in spans if span.kind == "call"] == ["command 1", "command 5", "command 7"]


# --- what the user has named -----------------------------------------------------------------------


def test_a_block_with_a_name_is_kept_from_its_beginning_to_its_end(one, clock):
    clock.now += 1
    outer = one.enters("step 1")
    clock.now += 2
    inner = one.enters("forward" + "!" * 300)
    assert [(kind, label[:7], start, end) for kind, label, start, end in labels(one)] == [
        ("span", "step 1", 1.0, 3.0),
        ("span", "forward", 3.0, 3.0),
    ]
    assert [span.unfinished for span in record(one).spans] == [True, True]
    clock.now += 1
    one.leaves(inner)
    clock.now += 1
    one.leaves(outer)
    assert [(kind, label[:7], start, end) for kind, label, start, end in labels(one)] == [
        ("span", "forward", 3.0, 4.0),
        ("span", "step 1", 1.0, 5.0),
    ]
    assert [(len(span.label), span.seq, span.unfinished) for span in record(one).spans] == [
        (200, None, False),
        (6, None, False),
    ]


def test_blocks_of_one_name_that_begin_at_one_moment_end_one_by_one(one, clock):
    first, second = one.enters("F"), one.enters("F")
    one.leaves(first)
    assert len(one._named) == 1
    one.leaves(second)
    assert one._named == []
