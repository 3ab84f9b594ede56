"""Waits are charged to the worker that worked meanwhile, through whichever collectives and messages."""

from __future__ import annotations

import itertools
from itertools import count

import numpy as np

from disco_magic.core.timeline import Record, Span, Timeline


def session(workers, *spans, until=10.0, whole_from=None):
    """A timeline of workers that have these spans."""
    known = whole_from or {}
    records = [
        Record(tuple(span for span in spans if span.worker == worker), 0.0, until, known.get(worker, 0.0))
        for worker in range(workers)
    ]
    return Timeline.of_records(1, records)


_numbers = count(1)


def met(arrivals):
    """The spans of a collective: worker -> when it came; all leave when the last has come."""
    end, number, members = max(arrivals.values()), next(_numbers), tuple(sorted(arrivals))
    for worker, start in arrivals.items():
        yield Span(worker, "collective", "allreduce()", start, end, meeting=(members, 1, number))
        if start < end:
            yield Span(worker, "waiting", "allreduce()", start, end, "", "for others")


def received(worker, start, end, source):
    yield Span(worker, "collective", f"recv(source={source})", start, end)
    yield Span(worker, "waiting", f"recv(source={source})", start, end, source=source)


def charged(timeline):
    return [round(each.others_waited_s, 6) for each in timeline.summary().workers]


def test_a_wait_of_one_group_goes_through_another_one_to_who_was_slow():
    # 2 works until 5; 1 waits for it in one group, 0 for 1 in another one.
    timeline = session(3, *met({1: 1.0, 2: 5.0}), *met({0: 2.0, 1: 5.0}))
    assert charged(timeline) == [0.0, 0.0, 7.0]
    assert timeline.summary().sentence == (
        "worker 2 came last to 1 of 2 collectives; the others waited 7.00 s for it, all together"
    )


def test_of_a_window_only_what_is_in_it_is_charged():
    timeline = session(3, *met({0: 1.0, 1: 2.0, 2: 5.0}))
    assert charged(timeline.between(4.0, 6.0)) == [0.0, 0.0, 2.0]
    assert charged(timeline.between(1.5, 6.0)) == [0.0, 0.0, 6.5]


def test_what_the_last_one_did_itself_stays_with_it():
    # 1 waits for 2 until 4 and works until 6: 0 has waited for both.
    assert charged(session(3, *met({1: 1.0, 2: 4.0}), *met({0: 2.0, 1: 6.0}))) == [0.0, 2.0, 5.0]


def test_a_slow_worker_of_a_mesh_is_found_in_both_directions():
    # As dp=2, tp=2: over tp (0, 1) and (2, 3), then over dp (0, 2) and (1, 3); worker 3 is slow.
    spans, begin = [], dict.fromkeys(range(4), 0.0)
    for _ in range(5):
        begin[3] += 1.0
        for groups in (((0, 1), (2, 3)), ((0, 2), (1, 3))):
            for group in groups:
                spans += met({worker: begin[worker] for worker in group})
                begin.update(dict.fromkeys(group, max(begin[worker] for worker in group)))
    timeline = session(4, *spans)
    assert charged(timeline) == [0.0, 0.0, 0.0, 15.0]
    assert timeline.summary().sentence.startswith("worker 3 came last to ")


def test_it_goes_from_a_collective_through_a_message():
    timeline = session(3, *received(1, 1.0, 4.0, 2), *met({0: 2.0, 1: 4.0}))
    assert charged(timeline) == [0.0, 0.0, 5.0]
    summary = timeline.summary()
    assert [each.messages_s for each in summary.workers] == [0.0, 0.0, 3.0]
    assert summary.sentence == "the others waited 5.00 s for worker 2, all together"


def test_it_goes_from_a_message_through_a_collective():
    timeline = session(3, *met({1: 1.0, 2: 4.0}), *received(0, 0.0, 5.0, 1))
    assert charged(timeline) == [0.0, 2.0, 6.0]


def test_waits_for_who_never_came_are_nobody_s():
    lonely = Span(1, "collective", "allreduce()", 1.0, 4.0, meeting=((1, 2), 1, next(_numbers)))
    waiting = Span(1, "waiting", "allreduce()", 1.0, 4.0, "", "for others")
    assert charged(session(3, lonely, waiting, *met({0: 2.0, 1: 6.0}))) == [0.0, 2.0, 0.0]


def test_of_whom_it_is_unknown_what_it_did_is_not_charged_by_others():
    spans = [*met({1: 1.0, 2: 5.0}), *met({0: 2.0, 1: 5.0})]
    assert charged(session(3, *spans, whole_from={2: 4.5})) == [0.0, 0.0, 4.5]


def halo(workers, steps, rng):
    """Messages along a line, each for the left neighbour, and a sum of all after each step."""
    begin = [0.0] * workers
    for _ in range(steps):
        begin = [start + rng.random() for start in begin]
        for worker in range(1, workers):
            if begin[worker] < begin[worker - 1]:
                yield from received(worker, begin[worker], begin[worker - 1], worker - 1)
                begin[worker] = begin[worker - 1] + rng.random() / 10
        yield from met(dict(enumerate(begin)))
        begin = [max(begin)] * workers


def by_hand(timeline, moments):
    """What is charged to each worker, moment by moment: through everybody who waits then."""
    waits = [span for span in timeline.spans if span.kind == "waiting"]
    meetings = [span for span in timeline.spans if span.meeting is not None]
    last = {span.meeting: span.worker for span in sorted(meetings, key=lambda span: span.start_s)}
    sources = {(span.worker, span.start_s): last[span.meeting] for span in meetings}
    found = [0.0] * timeline.num_workers
    for begin, end in itertools.pairwise(moments):
        now = {span.worker: span for span in waits if span.start_s <= begin and end <= span.end_s}
        for worker in now:
            due = worker
            while (span := now.get(due)) is not None:
                due = sources.get((due, span.start_s), span.source)
            found[due] += end - begin
    return [round(each, 6) for each in found]


def test_a_wait_is_charged_through_all_that_happened_meanwhile():
    spans = [*halo(5, 4, np.random.default_rng(0))]
    timeline = session(5, *spans)
    moments = sorted({moment for span in spans for moment in (span.start_s, span.end_s)})
    assert charged(timeline) == by_hand(timeline, moments)


def test_what_is_behind_a_wait_is_found_once_and_not_for_each_who_waits(monkeypatch):
    """A cell of 64 workers with a hundred sums and exchanges of halos showed its times after eight seconds.

    Each wait of each worker was followed through the chain of workers behind it, anew.
    """
    asked = []
    known_from_s = Timeline.known_from_s
    monkeypatch.setattr(Timeline, "known_from_s", lambda *given: asked.append(given) or known_from_s(*given))
    spans = [*halo(24, 5, np.random.default_rng(0))]
    session(24, *spans, until=20.0).summary()
    assert len(asked) < 3 * sum(span.kind == "waiting" for span in spans)


def test_a_wait_that_is_behind_two_others_is_charged_through_both():
    spans = [
        *received(0, 0.0, 20.0, 1),
        *received(1, 0.0, 20.0, 2),
        *received(2, 2.0, 4.0, 5),  # behind that of 1, and behind that of 4
        *received(2, 10.0, 20.0, 3),
        *received(3, 0.0, 20.0, 4),
        *received(4, 0.0, 5.0, 2),
    ]
    assert charged(session(6, *spans, until=20.0)) == [0.0, 0.0, 22.0, 0.0, 45.0, 10.0]


def test_a_chain_of_waits_may_be_longer_than_calls_can_be_nested():
    # Each of two workers waits for the other one a moment longer than until that begins to wait in turn.
    spans = [each for k in range(3000) for each in received(k % 2, k / 10, k / 10 + 0.11, 1 - k % 2)]
    timeline = session(2, *spans, until=301.0)
    assert 100 < sum(charged(timeline)) < 400


def test_a_wait_that_ended_before_it_was_known_what_the_other_did_is_charged_to_nobody():
    """It was a wait of less than no time, charged to whom the other one waited for."""
    spans = [*received(0, 1.0, 3.0, 1), *received(1, 2.0, 8.0, 2)]
    timeline = session(3, *spans, whole_from={1: 5.0})
    assert charged(timeline) == [0.0, 0.0, 6.0]
