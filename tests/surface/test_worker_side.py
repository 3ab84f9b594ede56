"""Rows about the worker side: what a function on a worker knows, and whom it can talk to."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import both_ways, groupings, members, unchanged_by, who


def functions(s, *names):
    """References to worker functions of the runtime, which the tests hand to their own as arguments."""
    return [s.get_global_func(f"runtime.disco.{name}") for name in names]


@groupings
def test_worker_id(session, n, groups):
    s = session(n, groups)
    assert s.get_global_func("runtime.disco.worker_id")().get_all() == list(range(n))
    assert s.call_packed(lambda: disco.worker().worker_id).get_all() == list(range(n))
    assert s.run("worker_id").values == list(range(n))


@groupings
def test_worker_rank(session, n, groups):
    s = session(n, groups)
    assert s.get_global_func("runtime.disco.worker_rank")().get_all() == list(range(n))
    assert s.run("worker.worker_rank").values == list(range(n))


@groupings
def test_world_size(session, n, groups):
    s = session(n, groups)
    assert s.get_global_func("runtime.disco.world_size")().get_all() == [n] * n
    assert s.call_packed(lambda: disco.worker().world_size).get_all() == [n] * n
    assert s.run("num_workers").values == [n] * n


@groupings
def test_group_id_and_size(session, n, groups):
    s = session(n, groups)
    size = n // groups
    values = s.run(
        "(worker.group_id, worker.group, worker.group_rank, worker.group_size, worker.num_groups)"
    ).values
    assert values == [(w // size, w // size, w % size, size, groups) for w in range(n)]


def test_a_worker_knows_nothing_outside_of_a_session():
    with pytest.raises(disco.UsageMistake, match=r"disco_magic\.worker\(\) was called outside of a worker"):
        disco.worker()


# --- messages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_send_to_worker_and_recv_from_worker(session, n):
    s = session(n)

    def pass_on(send, recv):
        send(np.full((2, 3), who(), "float32"), (who() + 1) % n)
        dst = np.empty((3, 2), "float32")
        return recv(dst, (who() - 1) % n) is dst, dst

    ring = s.call_packed(pass_on, *functions(s, "send_to_worker", "recv_from_worker"))
    for worker, (same, array) in enumerate(ring.get_all()):
        assert same
        assert array.tolist() == [[(worker - 1) % n] * 2] * 3


def test_send_to_worker_crosses_groups(session):
    s = session(4, 2)
    s.run("x = np.zeros(2)\nif worker_id == 0: send(np.ones(2), 3)\nif worker_id == 3: x = recv(0)")
    assert [value.tolist() for value in s["x"].get_all()] == [[0, 0], [0, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize(("receiver", "sender"), [(3, 0), (0, 3), (1, 2), (2, 2)])
def test_send_to_worker_of_a_session(session, receiver, sender):
    s = session(4, 2)
    src = s.call_packed(lambda: np.full((2, 3), who()))
    values = s.send_to_worker(src, receiver, sender).get_all()
    assert [None if value is None else value.tolist() for value in values] == [
        [[sender] * 3] * 2 if worker == receiver else None for worker in range(4)
    ]
    dst = s.call_packed(np.full, (3, 2), -1)
    s.send_to_worker(src, receiver, sender, dst)
    assert [value.tolist() for value in dst.get_all()] == [
        [[sender] * 2] * 3 if worker == receiver else [[-1] * 2] * 3 for worker in range(4)
    ]


def test_send_to_worker_that_is_not_there_is_refused(session):
    s = session(2)
    src = s.call_packed(np.zeros, 2)

    def refused():
        for receiver, sender in ((2, 0), (0, -1), ("1", 0)):
            with pytest.raises(disco.UsageMistake, match="expected a worker id from 0 to 1"):
                s.send_to_worker(src, receiver, sender)

    assert unchanged_by(s, refused)


def test_recv_from_worker_into_another_element_count_is_an_error(session):
    s = session(2)

    def wrong(send, recv):
        send(np.zeros(4), 1) if who() == 0 else recv(np.zeros(3), 0)

    s.call_packed(wrong, *functions(s, "send_to_worker", "recv_from_worker"))
    with pytest.raises(
        disco.WorkerError, match=r"received float64 \(4,\) from worker 0, but .* float64 \(3,\)"
    ):
        s.sync_all()
    assert s.call_packed(who).get_all() == [0, 1]


def test_recv_from_worker_that_never_sends_is_released(session):
    s = session(2)
    s.call_packed(lambda recv: recv(None, 0) if who() else None, *functions(s, "recv_from_worker"))
    with pytest.raises(disco.WorkerError) as caught:
        s.sync_all()
    assert isinstance(caught.value.failures[1].exception, disco.PlaneAborted)


def test_recv_from_worker0(session):
    s = session(3)

    def spread(send, recv):
        if who() == 0:
            for peer in (1, 2):
                send(np.full(2, 10 * peer), peer)
            return None
        return recv(None)

    values = s.call_packed(spread, *functions(s, "send_to_worker", "recv_from_worker0")).get_all()
    assert (values[0], values[1].tolist(), values[2].tolist()) == (None, [10, 10], [20, 20])


def test_recv_from_worker0_on_worker_0_is_an_error(session):
    s = session(2)
    s.call_packed("runtime.disco.recv_from_worker0", None, workers=[0])
    with pytest.raises(disco.WorkerError, match="would wait for itself"):
        s.sync_all()


@groupings
def test_send_to_next_group_and_recv_from_prev_group(session, n, groups):
    s = session(n, groups)

    def stage(send, recv):
        me = disco.worker()
        value = np.full(2, float(me.id))
        if me.group_id > 0:
            recv(value)
        if me.group_id < me.num_groups - 1:
            send(value + 100)
        return value

    size = n // groups
    values = s.call_packed(stage, *functions(s, "send_to_next_group", "recv_from_prev_group")).get_all()
    assert [value.tolist() for value in values] == [[w % size + 100 * (w // size)] * 2 for w in range(n)]


@groupings
def test_send_to_next_group_of_a_session(session, n, groups):
    s = session(n, groups)
    size = n // groups
    src = s.call_packed(lambda: np.full(2, who()))
    for worker, value in enumerate(s.send_to_next_group(src).get_all()):
        assert value is None if worker < size else value.tolist() == [worker - size] * 2


@pytest.mark.parametrize(
    ("name", "worker", "text"),
    [
        ("send_to_next_group", 3, "there is no next group"),
        ("recv_from_prev_group", 0, "there is no previous group"),
    ],
)
def test_send_to_next_group_without_a_neighbour_is_an_error(session, name, worker, text):
    s = session(4, 2)
    s.call_packed(f"runtime.disco.{name}", np.zeros(2), workers=[worker])
    with pytest.raises(disco.WorkerError, match=text):
        s.sync_all()
    one = session(2)
    with pytest.raises(
        disco.UsageMistake, match="one group, there is no next one; start it with num_groups=2"
    ):
        one.send_to_next_group(one.call_packed(np.zeros, 2))


# --- collectives of a worker -----------------------------------------------------------------------


@groupings
@both_ways
def test_worker_side_collectives(session, n, groups, in_group):
    s = session(n, groups)

    def everything(inside):
        me = disco.worker()
        size = me.group_size if inside else me.num_workers
        mine = np.arange(size) + me.id
        rank = me.group_rank if inside else me.id
        results = [
            me.allreduce(mine, in_group=inside),
            me.reduce(mine, "max", size - 1, in_group=inside),
            me.broadcast(mine if rank == 0 else None, in_group=inside),
            me.scatter(mine if rank == 0 else None, in_group=inside),
            me.gather(mine, in_group=inside),
            me.allgather(mine, in_group=inside),
            me.reduce_scatter(mine, in_group=inside),
            me.alltoall(mine, in_group=inside),
            me.barrier(in_group=inside),
        ]
        return [None if result is None else result.tolist() for result in results]

    for worker, values in enumerate(s.call_packed(everything, in_group).get_all()):
        peers = members(worker, n, groups, in_group)
        rank, size = worker - peers[0], len(peers)
        arrays = [np.arange(size) + peer for peer in peers]
        whole = np.concatenate(arrays).tolist()
        assert values == [
            sum(arrays).tolist(),
            arrays[-1].tolist() if rank == size - 1 else None,
            arrays[0].tolist(),
            [peers[0] + rank],
            whole if rank == 0 else None,
            whole,
            [int(sum(arrays)[rank])],
            [peer + rank for peer in peers],
            None,
        ]


def test_collectives_by_their_registered_names_take_disco_s_order(session):
    s = session(4, 2)
    x = s.get_global_func("runtime.disco.empty")((2, 3), "float32", None, True, True)
    assert [value is None for value in x.get_all()] == [False, True, False, True]
    mine = s.call_packed(lambda: np.full(2, float(disco.worker().id)))
    into = s.call_packed(np.zeros, 2)
    s.get_global_func("runtime.disco.allreduce")(mine, "sum", True, into)
    assert [list(value) for value in into.get_all()] == [[1, 1], [1, 1], [5, 5], [5, 5]]
    joined = s.get_global_func("runtime.disco.allgather")(mine, False)
    assert joined.get(3).shape == (8,)
