"""Who did not come to collectives: whoever keeps those who did not come, too."""

from __future__ import annotations

from dataclasses import replace

from disco_magic.core.timeline import FAILED, Record, Span, Timeline
from tests.timelines import asleep


def met(worker, start, members, *, number=1, end=10.0, unfinished=False):
    meeting = members, 1, number
    return Span(worker, "collective", "allreduce()", start, end, unfinished=unfinished, meeting=meeting)


def message(worker, start, source, *, end=10.0, unfinished=False, detail=FAILED + "PlaneAborted"):
    call = Span(worker, "collective", f"recv({source})", start, end, detail=detail, unfinished=unfinished)
    return [call, replace(call, kind="waiting", detail="for others", source=source)]


def summary(*spans, workers=4):
    calls = [span for span in spans if span.meeting and not span.unfinished]
    spans = [*(span for span in spans if span not in calls), *asleep(*calls)]
    records = [
        Record(tuple(span for span in spans if span.worker == worker), 0.0, 10.0) for worker in range(workers)
    ]
    return Timeline.of_records(1, records).summary()


def told(*spans, **options):
    return [(each.workers, each.count, each.waited_s) for each in summary(*spans, **options).missed]


def test_who_waits_itself_until_the_end_is_kept_by_another_one():
    spans = [met(0, 1.0, (0, 1, 2, 3)), met(1, 2.0, (0, 1, 2, 3)), met(2, 3.0, (2, 3))]
    assert told(*spans) == [((3,), 2, 9.0 + 8.0 + 7.0)]
    whole = summary(*spans)
    assert [each.missed_s for each in whole.workers] == [0, 0, 0, 24.0]
    assert [row[-1] for row in whole.rows()] == ["0.0 ms", "0.0 ms", "0.0 ms", "24.00 s"]
    assert whole.sentence == (
        "worker 3 never came to 2 collectives, in which the others waited 24.00 s, all together"
    )


def test_it_may_wait_in_a_message():
    for how in ({}, {"unfinished": True, "detail": ""}):
        assert told(met(0, 1.0, (0, 1)), *message(1, 0.5, 2, **how), *message(2, 0.5, 3)) == [((3,), 1, 9.0)]


def test_what_it_had_waited_in_before_and_what_has_arrived_keep_nobody():
    before = met(1, 0.1, (1, 2), end=0.5)
    arrived = message(1, 2.0, 2, end=3.0, detail="")
    assert told(before, *arrived, met(0, 1.0, (0, 1))) == [((1,), 1, 9.0), ((2,), 1, 0.4)]


def test_those_who_wait_for_each_other_were_missed():
    spans = met(0, 1.0, (0, 1), number=1), met(1, 2.0, (0, 1), number=2)
    assert told(*spans, workers=2) == [((1,), 1, 9.0), ((0,), 1, 8.0)]


def test_what_is_no_wait_of_a_call_is_not_counted():
    calls = met(0, 1.0, (0, 1), end=3.0), met(0, 4.0, (0, 1), number=2, end=9.0)
    (waits,) = asleep(calls[0])[1:]
    records = [Record((*calls, replace(waits, end_s=1.5)), 0.0, 10.0), Record((), 0.0, 10.0)]
    assert Timeline.of_records(1, records).summary().missed[0].waited_s == 0.5
