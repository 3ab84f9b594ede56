"""What a timeline adds up to, and who kept the others waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disco_magic.core.spans import attended
from disco_magic.core.spending import Spent, Summary, covered, stretches
from disco_magic.core.timeline import Span
from tests.timelines import BOTH, SITE, asleep, cell, error, met, timeline, waiting


def test_running_waiting_and_idle_are_the_whole_window():
    spans = cell(0, 1.0, 6.0), met(0, 2.0, 5.0), waiting(0, 2.0, 4.5), error(0, 6.0)
    spent, other = timeline(*spans).summary().workers
    assert (spent.running_s, spent.waiting_s, spent.idle_s, spent.errors) == (2.5, 2.5, 5.0, 1)
    assert (other.running_s, other.waiting_s, other.idle_s, other.errors) == (0.0, 0.0, 10.0, 0)


def test_only_what_lies_in_the_window_counts():
    spans = cell(0, 1.0, 6.0), met(0, 2.0, 5.0), waiting(0, 2.0, 4.0), met(1, 4.0, 5.0), error(0, 6.0)
    whole = timeline(*spans)
    late = whole.between(5.0, 7.0).summary()
    assert (late.workers[0].running_s, late.workers[0].waiting_s, late.workers[0].errors) == (1.0, 0.0, 1)
    assert (late.collectives, whole.summary().collectives) == (0, 1)


@pytest.mark.parametrize(
    ("starts", "sentence"),
    [
        (((0, 3), (3, 0)), "no worker stands out: in 2 collectives they waited 3.00 s for each other"),
        (((0, 3), (1, 0)), "worker 1 came last to 1 of 2 collectives; the others waited 1.50 s"),
        (
            ((0, 0, 3), (0, 3, 0), (4, 0, 0)),
            "10.00 s for each other, all together; 4.00 s of it for worker 0",
        ),
        (
            ((0, 0, 3), (0, 0, 3), (1, 0, 0)),
            "worker 2 came last to 2 of 3 collectives; the others waited 6.00 s",
        ),
        (
            ((0, 0, 0, 2), (0, 0, 2, 0)),
            "no worker stands out: in 2 collectives they waited 6.00 s for each other",
        ),
        (
            ((0, 0, 0, 4), (0, 0, 2, 0)),
            "worker 3 came last to 1 of 2 collectives; the others waited 6.00 s",
        ),
    ],
)
def test_a_worker_is_named_only_if_the_others_waited_for_it_twice_as_long_as_for_any_other(starts, sentence):
    members = tuple(range(len(starts[0])))
    spans = [
        met(worker, 3 * number + start / 2, 3 * number + 2.5, number, members=members)
        for number, each in enumerate(starts)
        for worker, start in enumerate(each)
    ]
    assert sentence in timeline(*spans, workers=len(members)).summary().sentence


def test_who_came_last_is_charged_with_what_the_others_waited():
    spans = [
        *(met(worker, start, 5.0, members=(0, 1, 2)) for worker, start in ((0, 1.0), (1, 2.0), (2, 5.0))),
        *(met(worker, start, 7.0, 2, members=(0, 1, 2)) for worker, start in ((0, 7.0), (1, 6.0), (2, 6.5))),
    ]
    summary = timeline(*spans, workers=3).summary()
    assert [(each.came_last, each.others_waited_s) for each in summary.workers] == [
        (1, 1.5),
        (0, 0.0),
        (1, 7.0),
    ]
    assert summary.sentence == (
        "worker 2 came last to 1 of 2 collectives; the others waited 7.00 s for it, all together"
    )


@pytest.mark.parametrize(
    "spans",
    [
        (met(0, 1.0, 5.0), met(1, 1.0, 5.0, number=2, members=(1, 2))),  # of worker 2 nothing is shown
        (Span(0, "collective", "send(to=1)", 1.0, 2.0), Span(1, "collective", "recv(source=0)", 0.0, 2.0)),
    ],
)
def test_what_not_all_came_to_has_no_last_one(spans):
    summary = timeline(*spans, whole_from_s=(0.0, 2.0)).summary()
    assert (summary.collectives, summary.sentence) == (0, "")


def test_who_never_came_is_named_with_what_the_others_waited():
    begun = [(0, 1.0, 1), (1, 2.0, 1), (0, 3.0, 2), (1, 3.0, 2)]
    spans = asleep(*(met(worker, start, 5.0, number, members=(0, 1, 2)) for worker, start, number in begun))
    spans += [met(0, 6.0, 7.0, 3), cell(2, 0.0, 9.0)]
    assert timeline(*spans, workers=3).summary().sentence == (
        "worker 2 never came to 2 collectives, in which the others waited 11.00 s, all together"
    )


def test_who_has_not_come_yet_is_told_before_who_came_last():
    waits = [replace(met(w, 6.0, 10.0, 2, members=(0, 1, 2)), unfinished=True) for w in (0, 1)]
    spans = [met(w, 1.0 + w, 5.0, members=(0, 1, 2)) for w in range(3)]
    assert timeline(*spans, *waits, workers=3).summary().sentence == (
        "worker 2 has not come yet to 1 collective, in which the others waited 8.00 s, all together; "
        "worker 2 came last to 1 of 1 collective; the others waited 3.00 s for it, all together"
    )


def received(worker, start, end, source, **more):
    return Span(worker, "waiting", f"recv(source={source})", start, end, source=source, **more)


def test_who_is_waited_for_in_recv_is_charged_with_it():
    summary = timeline(received(0, 1.0, 4.0, 1), received(0, 5.0, 6.0, 1)).summary()
    assert [(each.others_waited_s, each.messages_s) for each in summary.workers] == [
        (0.0, 0.0),
        (4.0, 4.0),
    ]
    assert summary.sentence == "the others waited 4.00 s for worker 1 in recv, all together"


def test_who_waits_himself_hands_that_on():
    # 0 waits for 1, which waits for 2, which waits in a collective for a while and works the rest.
    spans = (
        received(0, 0.0, 5.0, 1),
        received(1, 0.0, 3.0, 2),
        waiting(2, 1.0, 2.0),
        received(2, 8.0, 9.0, 0),
    )
    seen = timeline(*spans, workers=3)
    assert [each.messages_s for each in seen.summary().workers] == [1.0, 2.0, 4.0]
    assert [each.messages_s for each in seen.between(2.5, 10.0).summary().workers] == [1.0, 2.0, 1.0]


def test_a_recv_that_failed_is_waiting_for_nobody_known():
    joined = (1.0, "recv", "", "", (), None, 0, (), 1, 0)
    spans = attended(0, joined, 3.0, lambda code, offset: SITE, asleep_s=1.5, error="PlaneMismatch")
    assert [(span.kind, span.source) for span in spans] == [("collective", None), ("waiting", None)]
    told = attended(0, (*joined[:4], (2,), *joined[5:]), 3.0, lambda code, offset: SITE, asleep_s=1.5)
    assert [(span.kind, span.source) for span in told] == [("collective", None), ("waiting", 2)]


def test_a_recv_of_a_verb_made_of_it_has_a_source_too():
    joined = (1.0, "recv_from_prev_group's recv", "", "", (1,), None, 0, (), 1, 0)
    assert attended(0, joined, 3.0, lambda code, offset: SITE, asleep_s=1.5)[1].source == 1


def test_nobody_is_blamed_for_what_is_not_known_of_him():
    seen = timeline(received(0, 0.0, 5.0, 1), whole_from_s=(0.0, 4.0))
    assert [each.messages_s for each in seen.summary().workers] == [0.0, 1.0]
    unknown = timeline(received(0, 0.0, 5.0, 1), whole_from_s=(0.0, 6.0))
    assert [each.messages_s for each in unknown.summary().workers] == [0.0, 0.0]


def test_circles_of_waits_come_to_an_end():
    seen = timeline(received(0, 0.0, 5.0, 1, unfinished=True), received(1, 0.0, 5.0, 0, unfinished=True))
    assert [each.messages_s for each in seen.summary().workers] == [0.0, 0.0]


def test_recv_and_collectives_are_told_apart():
    spans = (
        *(met(worker, start, 5.0, members=BOTH) for worker, start in ((0, 1.0), (1, 5.0))),
        received(0, 6.0, 9.0, 1),
    )
    summary = timeline(*spans).summary()
    assert (summary.workers[1].others_waited_s, summary.workers[1].messages_s) == (7.0, 3.0)
    assert summary.sentence == (
        "worker 1 came last to 1 of 1 collective; the others waited 7.00 s for it, all together, "
        "3.00 s of it in recv"
    )
    spans = met(0, 4.0, 5.0, members=BOTH), met(1, 5.0, 5.0, members=BOTH), received(0, 6.0, 7.0, 1)
    even = timeline(*spans, received(1, 7.0, 9.0, 0)).summary()
    assert even.sentence.startswith("no worker stands out: in 1 collective and recv they waited ")


def test_one_collective_is_not_called_many():
    spent = Spent(0, 0.0, 0.0, 0.0, 0, 1, 2.0)
    assert "to 1 of 1 collective;" in Summary((spent,), 1).sentence


def test_stretches_join_what_overlaps_and_leave_out_what_lies_outside():
    spans = [cell(0, 4.0, 5.0), cell(0, 1.0, 3.0), cell(0, 2.0, 2.5), cell(0, 8.0, 12.0), cell(0, 11.0, 13.0)]
    assert stretches(spans, 1.5, 9.0) == [(1.5, 3.0), (4.0, 5.0), (8.0, 9.0)]
    assert covered(spans, 1.5, 9.0) == 3.5


def test_of_many_workers_those_that_hardly_differ_are_one_row():
    """64 workers were 64 rows."""
    alike = [Spent(worker, 1.0 + worker * 1e-4, 3.0, 0.5, 0, worker % 2, 0.0) for worker in range(64)]
    alike[5] = Spent(5, 4.0, 0.0, 0.5, 0, 9, 189.0)
    alike[6] = replace(alike[6], errors=1)
    rows = Summary(tuple(alike), 10).rows()
    assert rows == [
        ("[0-4,7-63]", "1.00 - 1.01 s", "3.00 s", "500.0 ms", "0", "0-1 of 10", "0.0 ms"),
        ("[5]", "4.00 s", "0.0 ms", "500.0 ms", "0", "9 of 10", "3 min 09 s"),
        ("[6]", "1.00 s", "3.00 s", "500.0 ms", "1", "0 of 10", "0.0 ms"),
    ]
    few = Summary(tuple(alike[:8]), 10).rows()
    assert [row[0] for row in few] == [*map(str, range(8))]
