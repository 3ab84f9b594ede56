"""Waits are charged to the worker that worked meanwhile, through whichever collectives and messages."""

from __future__ import annotations

from itertools import count

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
