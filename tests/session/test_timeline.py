"""`session.timeline()`: who did what when."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from disco_magic import recorder
from disco_magic.errors import CellError, UsageMistake, WorkerError
from disco_magic.recorder import KEPT
from disco_magic.session.recording import timeline_of
from disco_magic.threads import stopwatch
from tests.clocks import ticking
from tests.session.conftest import asleep, cancelled, until


@pytest.fixture
def steps(monkeypatch):
    """A clock that moves a second with every look, so that nothing is too short to be kept."""
    clock = ticking()
    for module in (recorder, stopwatch):
        monkeypatch.setattr(module, "perf_counter", clock)


def idle(session):
    """Return when every worker has found its queue empty."""
    until(lambda: all(worker.idle.is_running for worker in session._launcher.workers))


def kinds(timeline, worker=0):
    return [span.kind for span in timeline.lane(worker)]


def test_a_cell_is_there_as_soon_as_it_was_waited_for(session):
    s = session(3)
    s.run("x = worker_id")
    timeline = s.timeline()
    assert [kinds(timeline, worker) for worker in range(3)] == [["cell"]] * 3
    assert timeline.spans[0].label.startswith("Cell ")
    assert (timeline.session_id, timeline.num_workers, timeline.dropped) == (s.id, 3, (0, 0, 0))


def test_the_spans_of_one_command_are_those_of_the_timeline(session):
    s = session(2)
    for _ in range(3):
        s.run("x = allreduce(worker_id)\nbarrier()")
    spans = s.timeline().spans
    for seq in {span.seq for span in spans if span.kind == "cell"}:
        mine = [each for each in spans if each.seq == seq or (each.meeting or (0, 0))[1] == seq]
        assert [each for each in timeline_of(s, seq).spans if each.kind in ("cell", "collective")] == mine
        assert len(mine) == 2 + 4
        assert len({each.site.partition(",")[0] for each in mine if each.site}) == 1


def test_a_block_with_a_name_keeps_no_error_of_later_calls_from_being_told(session):
    s = session(3)
    s.run("with worker.span('F0'): pass")
    with pytest.raises(CellError, match="PlaneMismatch: worker 0 called barrier"):
        s.run("with worker.span('F1'): allreduce(1) if worker_id else barrier()")
    assert [each.label for each in s.timeline().lane(1) if each.kind == "span"] == ["F0", "F1"]


def test_a_long_call_has_its_name_as_soon_as_it_was_waited_for(gated, gate, clock):
    s = gated(1)
    idle(s)
    s.call_packed(gate, "here")
    gate.arrived()
    clock.now = 5.0
    gate.open()
    s.sync_all()
    (span,) = s.timeline().spans
    assert (span.kind, span.label, span.seconds, span.unfinished) == ("call", "call Gate", 5.0, False)


def test_calls_without_a_pause_between_them_are_one_span(gated, gate, clock):
    s = gated(1)
    idle(s)
    s.call_packed(gate, "here")
    gate.arrived()
    kept = [s.call_packed(int) for _ in range(4)]
    clock.now = 5.0
    gate.open()
    s.sync_all()
    (span,) = s.timeline().spans
    assert (span.kind, span.label, span.seconds) == ("calls", "5 calls", 5.0)
    assert "the first: call Gate" in span.detail
    assert len(kept) == 4


def test_the_straggler_is_named_with_what_it_cost(gated, gate, clock):
    s = gated(3)
    pending = s.run_nowait("if worker_id == 1:\n    gate(1)\nallreduce(np.ones(3, 'float32'))")
    gate.arrived()
    asleep(s, 0, 2)
    clock.now = 10.0
    gate.open()
    pending.wait()
    timeline = s.timeline()
    summary = timeline.summary()
    assert summary.sentence.startswith("worker 1 came last to 1 of 1 collective; the others waited 20.00 s")
    assert [each.waiting_s for each in summary.workers] == [10.0, 0.0, 10.0]
    assert [each.running_s for each in summary.workers] == [0.0, 10.0, 0.0]
    (collective,) = [span for span in timeline.lane(0) if span.kind == "collective"]
    assert collective.label == "allreduce(float32 (3,), op=sum)"
    assert collective.site.startswith("Cell ")
    assert collective.site.endswith("line 3")


def test_the_same_worker_is_last_again_and_again(gated, gate):
    s = gated(2)
    pending = s.run_nowait("for _ in range(3):\n    if worker_id:\n        gate(1)\n    barrier()")
    gate.arrived()
    asleep(s, 0)
    gate.open()
    pending.wait()
    summary = s.timeline().summary()
    assert summary.collectives == 3
    assert sum(each.came_last for each in summary.workers) == 3
    assert summary.workers[1].others_waited_s > 0


def test_groups_meet_apart_from_each_other(session):
    s = session(4, 2)
    s.run("barrier()\nbarrier(in_group=False)")
    assert s.timeline().summary().collectives == 3


def test_what_goes_on_is_shown_up_to_now(gated, gate, clock):
    s = gated(2)
    pending = s.run_nowait("if worker_id == 1:\n    gate(1)\nbarrier()")
    gate.arrived()
    asleep(s, 0)
    clock.now = 4.0
    timeline = s.timeline()
    assert kinds(timeline, 0) == ["cell", "collective", "waiting"]
    assert kinds(timeline, 1) == ["cell"]
    assert all(span.unfinished and span.end_s == 4.0 for span in timeline.spans)
    assert timeline.summary().workers[0].waiting_s == 4.0
    gate.open()
    pending.wait()
    assert not any(span.unfinished for span in s.timeline().spans)


def test_a_call_that_goes_on_is_shown_too(gated, gate, clock):
    s = gated(1)
    idle(s)
    s.call_packed(gate, "here")
    gate.arrived()
    clock.now = 2.0
    (span,) = s.timeline().spans
    assert (span.kind, span.label, span.seconds, span.unfinished) == ("call", "call Gate", 2.0, True)


def test_errors_are_marked_where_they_happened(session):
    s = session(2)
    with pytest.raises(CellError):
        s.run("if worker_id == 1:\n    raise ValueError('boom')\nbarrier()")
    timeline = s.timeline()
    (mine,) = [span for span in timeline.lane(1) if span.kind == "error"]
    assert mine.label == "ValueError: boom"
    assert mine.detail.startswith("in Cell ")
    (joined,) = [span for span in timeline.lane(0) if span.kind == "collective"]
    assert joined.detail == "failed: PlaneAborted"
    assert [each.errors for each in timeline.summary().workers] == [1, 1]


def test_a_call_that_fails_is_marked(session, steps):
    s = session(1)
    s.call_packed(int, "no number")
    with pytest.raises(WorkerError):
        s.sync_all()
    assert kinds(s.timeline()) == ["call", "error"]


def test_a_refused_collective_leaves_the_next_one_as_the_first(session):
    s = session(2)
    s.run(
        "if worker_id:\n"
        "    try:\n"
        "        allreduce(np.ones(3), op='median')\n"
        "    except Exception:\n"
        "        pass\n"
        "barrier()"
    )
    assert s.timeline().summary().collectives == 1


def test_copies_across_the_border_are_shown(session, steps):
    s = session(1)
    s.run("x = np.ones(4)")
    s["x"].get(0)
    s["y"] = s.store(np.ones(3))
    s.sync_all()
    labels = [span.label for span in s.timeline().spans if span.kind == "copy"]
    assert [label.partition(" ")[0] for label in labels] == ["get", "copy"]


def test_the_record_of_a_worker_is_bounded(session):
    s = session(1)
    s.run(f"for _ in range({KEPT} + 100):\n    barrier()")
    timeline = s.timeline()
    assert len(timeline.spans) == KEPT
    assert timeline.dropped == (101,)  # the cell itself is kept: it ended last
    assert timeline.whole_from_s[0] > 0
    assert "101 older spans of workers [0] were dropped" in repr(timeline)


def test_a_restart_begins_a_new_record(session):
    s = session(2)
    s.run("x = 1")
    s.restart()
    s.run("y = 1")
    assert len(s.timeline().spans) == 2


def test_a_thread_that_was_given_up_leaves_the_record_as_it_was(busy, gate):
    s = busy(1)
    pending = s.run_nowait("gate()\nbarrier()")
    cancelled(pending, gate)
    s.run("y = 1")
    before = s.timeline()
    assert kinds(before) == ["cell", "error", "cell"]
    assert "given up" in before.lane(0)[1].label
    gate.open()
    for thread in s._launcher.stuck:
        thread.join(60)
    s.run("z = 1")
    assert kinds(s.timeline()) == ["cell", "error", "cell", "cell"]


def test_a_closed_session_can_still_be_looked_at(session):
    s = session(2)
    s.run("x = 1")
    s.shutdown()
    timeline = s.timeline()
    assert kinds(timeline) == ["cell"]
    assert s.timeline().end_s == timeline.end_s


def test_the_last_seconds_can_be_asked_for(session, clock):
    s = session(1)
    idle(s)
    s.run("x = 1")
    clock.now = 10.0
    s.run("y = 1")
    assert len(s.timeline(last=5.0).lane(0)) == 1
    assert len(s.timeline().lane(0)) == 2


def test_no_last_seconds_are_refused(session):
    with pytest.raises(UsageMistake, match="expected a number above 0"):
        session(1).timeline(last=0)


def test_what_a_call_brought_is_let_go_of_when_the_worker_sleeps(session):
    def function():
        return None

    seen = weakref.ref(function)
    s = session(1)
    idle(s)
    s.call_packed(function)
    s.sync_all()
    del function
    s.sync_all()
    idle(s)
    gc.collect()
    assert seen() is None


def test_a_collective_inside_of_the_runtime_has_no_line_and_a_wrapper_that_of_its_caller(session):
    s = session(2, 2)
    s.run("x = 1.0")
    kept = s.allreduce(np.ones(2))
    s.run("if worker_id == 0:\n    worker.send_to_next_group(x)\nelse:\n    worker.recv_from_prev_group()")
    sites = [
        (span.label.partition("(")[0], span.site)
        for span in s.timeline().lane(0)
        if span.kind == "collective"
    ]
    assert [name for name, _ in sites] == ["allreduce", "send_to_next_group's send"]
    assert sites[0][1] == ""
    assert sites[1][1].endswith("line 2")
    assert kept.register


def test_parts_of_a_verb_say_what_they_are_a_part_of(session):
    s = session(2)
    s.run("y = allreduce_tree({'w': np.ones(3, 'f4')}, 'max')\nz = broadcast_object(1)")
    labels = [span.label for span in s.timeline().spans if span.kind == "collective" and span.worker == 0]
    assert labels[-2:] == [
        "allreduce_tree's allreduce(float32 (3,), op=max)",
        "broadcast_object's broadcast(uint8 (5,), root=0)",
    ]


# --- what the user has named -----------------------------------------------------------------------


def test_blocks_and_functions_with_names_are_on_the_lane_of_their_worker(session, steps):
    s = session(2)
    s.run(
        "@worker.span('back')\n"
        "def back(n):\n"
        "    if n: back(n - 1)\n"
        "if worker_id:\n"
        "    with worker.span('F0'): barrier()\n"
        "else: barrier()\n"
        "back(1)"
    )
    timeline = s.timeline()
    named = [[span.label for span in timeline.lane(w) if span.kind == "span"] for w in range(2)]
    assert named == [["back", "back"], ["F0", "back", "back"]]
    (cell,) = (span for span in timeline.lane(1) if span.kind == "cell")
    inside = [span for span in timeline.lane(1) if span.kind != "cell"]
    assert all(cell.start_s < span.start_s < span.end_s < cell.end_s for span in inside)
    events = [event for event in timeline.to_chrome()["traceEvents"] if event.get("cat") == "span"]
    assert [event["name"] for event in events] == ["back", "back", "F0", "back", "back"]


def test_a_block_that_fails_or_goes_on_is_there(gated, gate):
    s = gated(1)
    with pytest.raises(CellError):
        s.run("with worker.span('bad'): 1 / 0")
    pending = s.run_nowait("with worker.span('long'): gate(0)")
    gate.arrived(1)
    told = {span.label: span.unfinished for span in s.timeline().spans if span.kind == "span"}
    assert told == {"bad": False, "long": True}
    gate.open()
    pending.wait()


def test_a_name_that_is_no_text_is_refused(session):
    with pytest.raises(CellError, match=r"worker\.span takes a name, got int"):
        session(1).run("with worker.span(3): pass")


def test_a_call_that_failed_before_it_joined_met_nobody(session):
    s = session(2)
    s.run(
        "if worker_id:\n    try: allreduce(np.broadcast_to(1.0, (10**14,)))\n    except MemoryError: pass\n"
        "for _ in range(3): allreduce(1)"
    )
    summary = s.timeline().of_cell().summary()
    assert (summary.collectives, summary.missed) == (3, ())
