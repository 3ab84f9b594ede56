"""Python objects from one worker to another, and messages from whoever sends first."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, PlaneMismatch, UsageMistake
from tests.session.conftest import cancelled, until


def test_an_object_arrives_as_a_copy(four):
    four.run("""
mine = {'from': worker_id, 'deep': [(1, 'a')], 'w': np.ones(2)}
send_object(mine, (worker_id + 1) % num_workers)
mine['from'] = None
got = recv((worker_id - 1) % num_workers)
""")
    assert [each["from"] for each in four["got"].get_all()] == [3, 0, 1, 2]
    assert (
        four.run("got['deep'], got['w'].tolist(), got is mine").values
        == [([(1, "a")], [1.0, 1.0], False)] * 4
    )


def test_objects_and_arrays_keep_their_order_and_their_kind(four):
    cell = """
if worker_id == 0:
    send_object('a', 1)
    send(np.arange(2), 1)
    send_object(None, 1)
    send_object('late', 1, tag='other')
[recv(0, tag='other'), recv(0), recv(0).tolist(), recv(0)] if worker_id == 1 else None
"""
    assert four.run(cell)[1] == ["late", "a", [0, 1], None]


def test_an_object_of_a_cells_class_is_the_receivers(four):
    four.run("class Job: by = worker_id")
    assert four.run("send_object(Job(), 3 - worker_id)\n(got := recv(3 - worker_id)).by").values == [
        *range(4)
    ]
    assert four.run("type(got) is Job").values == [True] * 4


def test_it_is_sent_at_last_when_it_is_asked_for(four):
    ring = "send_object(worker_id, (worker_id + 1) % num_workers)\nrecv((worker_id - 1) % num_workers)"
    assert four.run(ring).values == [3, 0, 1, 2]
    with pytest.raises(CellError, match=r"waits in send to worker 1 of pickled object \(5 bytes\) at Cell"):
        four.run(ring, rendezvous=True)


def test_what_cannot_be_sent_is_said_where_it_is_sent(four):
    with pytest.raises(CellError, match=r"send_object: a function cannot be pickled: .*lambda") as caught:
        four.run("send_object(lambda: 1, 0)")
    assert type(caught.value.origin.exception) is UsageMistake
    four.run("if worker_id == 1:\n    class Mine: pass")
    with pytest.raises(CellError, match=r"recv: what worker 1 sent cannot be read here: .*Mine"):
        four.run("send_object(Mine(), 0) if worker_id == 1 else recv(1) if worker_id == 0 else None")
    with pytest.raises(CellError, match=r"send_object: tag must be an integer or text, got 1\.5"):
        four.run("send_object(1, 0, tag=1.5)")


def test_an_object_does_not_fit_into_an_array(four):
    cell = "send_object([1], 1) if worker_id == 0 else recv(0, out=np.empty(9)) if worker_id == 1 else None"
    with pytest.raises(
        CellError, match="recv: out of worker 1 is an array, but worker 0 sent an object"
    ) as e:
        four.run(cell)
    assert type(e.value.origin.exception) is PlaneMismatch
    assert "received: pickled object (17 bytes) from worker 0, sent at Cell" in str(e.value)


def test_one_that_is_not_received_is_called_an_object(four):
    with pytest.raises(CellError, match=r"finished without receiving (the )?pickled object \(5 bytes\)"):
        four.run("send_object(1, 0) if worker_id == 1 else None")


def test_whoever_passes_another_object_to_send_is_told_of_it(four):
    for wrong in ("{'w': 1}", "object()", "pd.DataFrame({'a': [1]})"):
        with pytest.raises(CellError, match=r"send_object\(x, to\)"):
            four.run(f"import pandas as pd\nsend({wrong}, 0)")


def test_work_can_be_given_to_whoever_is_free(four):
    farm = """
done, jobs = {}, iter(range(20))
if worker_id == 0:
    for _ in range(20 + num_workers - 1):
        sender = probe()
        answer = recv(sender)
        if answer is not None: done[answer[0]] = answer[1]
        send_object(next(jobs, None), sender)
else:
    send_object(None, 0)
    while (job := recv(0)) is not None:
        send_object((job, job ** 2), 0)
done
"""
    assert four.run(farm)[0] == {job: job**2 for job in range(20)}


def test_a_failure_of_who_should_send_ends_the_probe(four):
    with pytest.raises(CellError) as caught:
        four.run("recv(probe()) if worker_id == 0 else 1 / 0 if worker_id == 2 else None")
    assert type(caught.value.origin.exception) is ZeroDivisionError
    assert "[0] PlaneAborted: worker 2 failed: ZeroDivisionError: division by zero" in str(caught.value)
    assert four.run("recv(probe()) if worker_id == 0 else send(5, 0) if worker_id == 3 else None")[0] == 5


def test_a_failure_in_a_farm_is_what_is_told_first(four):
    farm = """
if worker_id == 0:
    for _ in range(3): recv(probe())
elif worker_id == 2: 1 / 0
else:
    send_object(1, 0)
    recv(0)
"""
    with pytest.raises(CellError) as caught:
        four.run(farm)
    assert type(caught.value.origin.exception) is ZeroDivisionError
    assert caught.value.origin.worker == 2
    assert str(caught.value).splitlines()[1] == "[2] ZeroDivisionError: division by zero"


@pytest.mark.parametrize(("sources", "needs"), [([0, 3], False), ([0], True)])
def test_who_waits_for_any_of_several_needs_none_of_them(gated, gate, sources, needs):
    """As code asks that is about to wait for something that another worker has: a lock."""
    s = gated(4)
    cell = f"""
if worker_id == 1: barrier(over=[1, 2])
elif worker_id == 2: recv(probe({sources})), barrier(over=[1, 2])
else: gate()
if worker_id == 0: send(1, 2)
"""
    pending = s.run_nowait(cell)
    until(lambda: all(f"waiting in {call}" in str(s.doctor()) for call in ("probe", "barrier")))
    assert (s._launcher.workers[0].context.waits_for_me(1) is not None) == needs
    gate.open()
    pending.wait()


def test_a_message_of_any_worker_can_be_received_at_once(four):
    assert sorted(four.run("[recv() for _ in range(3)] if worker_id == 0 else send(worker_id, 0)")[0]) == [
        1,
        2,
        3,
    ]
    cell = (
        "recv('any', tag='a') if worker_id == 0 else send_object('x', 0, tag='a') if worker_id == 2 else None"
    )
    assert four.run(cell)[0] == "x"
    takes_any = r"recv: source must be an integer, got None; recv\(\) takes a message from any worker"
    with pytest.raises(CellError, match=takes_any):
        four.run("recv(None)")
    with pytest.raises(CellError, match=r"finished without a send for recv from any of workers \[1-3\]"):
        four.run("recv() if worker_id == 0 else None")


def test_work_can_be_done_until_a_message_comes(four):
    four.run("""
steps = 0
if worker_id == 0:
    send_object('go', 1)
    while iprobe() is None: steps += 1
    got = recv(iprobe())
elif worker_id == 1:
    got = recv(0)
    send_object('done', 0)
""")
    assert four["got"].get(0) == "done"
    with pytest.raises(CellError, match="ZeroDivisionError"):
        four.run("if worker_id == 1: 1 / 0\nwhile iprobe(1) is None: pass")


def test_an_error_of_a_collective_within_an_object_is_itself(four):
    four.run("class Meets:\n    x = 1\n    def __setstate__(self, state): barrier(over=[0, 1])")
    cell = """
if worker_id == 1:
    odd = Meets()
    odd.y = 1
    send_object(odd, 0)
    1 / 0
elif worker_id == 0: recv(1)
"""
    with pytest.raises(CellError) as caught:
        four.run(cell)
    assert type(caught.value.origin.exception) is ZeroDivisionError
    assert "[0] PlaneAborted: worker 1 failed: ZeroDivisionError" in str(caught.value)


def test_who_is_asked_has_to_be_a_worker(four):
    for wrong, says in (
        ("[]", r"probe: sources must be ids of workers, at least one, or 'any'; got \[\]"),
        ("1.5", r"probe: sources must be ids of workers, at least one, or 'any'; got 1\.5"),
        ("'tp'", "probe: sources must be ids of workers, at least one, or 'any'; got 'tp'"),
        ("7", "probe: source=7 is not a worker; expected a worker id from 0 to 3"),
        ("[1, 2.5]", r"probe: source must be an integer, got 2\.5"),
        ("1, tag=None", "probe: tag must be an integer or text, got None"),
    ):
        with pytest.raises(CellError, match=says):
            four.run(f"probe({wrong})")


def test_who_waits_in_a_probe_is_seen_there(gated, gate):
    s = gated(4)
    pending = s.run_nowait("probe([1, 3]) if worker_id == 0 else gate(0)")
    until(lambda: "waiting in probe of workers [1,3]" in str(s.doctor()))
    assert "workers [1,3] keep worker 0 waiting" in str(s.doctor())
    cancelled(pending, gate)


def test_the_record_names_the_verbs_that_were_called(four):
    four.run("send_object(1, worker_id)\nrecv(probe(worker_id))")
    spans = [span for span in four.timeline().spans if span.site.endswith(("line 1", "line 2"))]
    labels = {(span.label.partition("(")[0], span.site[-1]) for span in spans if span.kind == "collective"}
    assert labels == {("send_object's send", "1"), ("probe", "2"), ("recv", "2")}
