"""Topology, and what a function sees of the worker it runs on."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.callers import sites
from disco_magic.callers.sites import Site, site_of
from disco_magic.core.seat import Seat
from disco_magic.core.topology import Topology
from disco_magic.errors import CellError, UsageMistake
from disco_magic.functions.context import VERBS, WorkerContext


class Guard:
    """A driver that writes down when a plane call began and ended."""

    def __init__(self):
        self.log = []

    def enter(self):
        self.log.append("enter")
        return 7, (0, 1)

    def leave(self):
        self.log.append("leave")

    def at(self):
        return 7


class Plane:
    """A plane that writes down its calls and returns the verb."""

    def __init__(self, log):
        self.calls = []
        self.log = log

    def waited_s(self, worker):
        return 0.0

    def library_of(self, worker):
        return ""

    def __getattr__(self, verb):
        def call(seat, *arguments):
            self.log.append(verb)
            self.calls.append((seat._replace(spot=None), *arguments))
            self.site = site_of(seat.spot)
            if verb == "barrier":
                raise ValueError("the plane refused")
            return verb

        return call


def make(worker=3, topology=None):
    guard = Guard()
    plane = Plane(guard.log)
    return WorkerContext(worker, topology or Topology(6, 3), plane, guard, session_id=5), plane, guard


@pytest.mark.parametrize(
    ("workers", "groups", "size"), [(1, 1, 1), (4, 1, 4), (4, 2, 2), (6, 3, 2), (6, 2, 3), (3, 3, 1)]
)
def test_groups_are_contiguous_and_equal(workers, groups, size):
    topology = Topology(workers, groups)
    assert topology.group_size == size
    members = [w for group in range(groups) for w in topology.members(group)]
    assert members == list(range(workers))
    assert {len(topology.members(group)) for group in range(groups)} == {size}


@pytest.mark.parametrize("bad", [0, -1, 2.0, "2", True, None])
@pytest.mark.parametrize("name", ["num_workers", "num_groups"])
def test_an_impossible_number_is_refused_by_its_name(name, bad):
    numbers = {"num_workers": 2, "num_groups": 1, name: bad}
    with pytest.raises(UsageMistake, match=f"{name} is .* expected a whole number of at least 1"):
        Topology(**numbers)


def test_groups_that_do_not_divide_the_workers_are_refused_with_those_that_do():
    with pytest.raises(UsageMistake, match=r"6 workers cannot be split into 4 .* one of \[1, 2, 3, 6\]"):
        Topology(6, 4)


def test_more_groups_than_workers_are_refused_with_what_would_work():
    with pytest.raises(UsageMistake) as caught:
        Topology(1, 2)
    assert str(caught.value) == (
        "1 worker cannot be split into 2 equal groups; for 2 groups ask for more workers: "
        "ThreadedSession(4, num_groups=2), %disco start -n 4 --groups 2"
    )


def test_a_worker_knows_its_place():
    context, _, _ = make(3)
    place = (context.id, context.num_workers, context.num_groups, context.group_size)
    assert place == (3, 6, 3, 2)
    assert (context.group, context.group_id, context.group_rank) == (1, 1, 1)
    assert (context.device, context.xp, context.session_id) == ("cpu", np, 5)


@pytest.mark.parametrize(
    ("topology", "text"),
    [(Topology(6, 3), "<worker 3 of 6, group 1 of 3 on cpu>"), (Topology(6), "<worker 3 of 6 on cpu>")],
)
def test_a_worker_says_who_it_is(topology, text):
    assert repr(make(3, topology)[0]) == text


def test_a_copy_of_a_worker_is_the_worker():
    context, _, _ = make()
    assert copy.deepcopy([context])[0] is context


CALLS = {
    "allreduce": (lambda c, **kw: c.allreduce("x", "max", out="o", **kw), ("x", "max", "o")),
    "reduce": (lambda c, **kw: c.reduce("x", "max", 1, out="o", **kw), ("x", "max", 1, "o")),
    "allgather": (lambda c, **kw: c.allgather("x", 2, out="o", **kw), ("x", 2, "o")),
    "gather": (lambda c, **kw: c.gather("x", 1, 2, out="o", **kw), ("x", 1, 2, "o")),
    "reduce_scatter": (
        lambda c, **kw: c.reduce_scatter("x", "max", 2, counts=[3, 1], out="o", **kw),
        ("x", "max", 2, (3, 1), "o"),
    ),
    "broadcast": (lambda c, **kw: c.broadcast("x", 1, out="o", **kw), ("x", 1, "o")),
    "scatter": (
        lambda c, **kw: c.scatter("x", 1, 2, counts=[1, 3], out="o", **kw),
        ("x", 1, 2, (1, 3), "o"),
    ),
    "alltoall": (lambda c, **kw: c.alltoall("x", 2, out="o", **kw), ("x", 2, None, "o")),
    "alltoall in parts": (
        lambda c, **kw: c.alltoall("x", 2, counts=[1, 0], out="o", **kw),
        ("x", 2, (1, 0), "o"),
    ),
}


@pytest.mark.parametrize(("in_group", "members"), [(True, (2, 3)), (False, tuple(range(6)))])
@pytest.mark.parametrize("verb", CALLS)
def test_a_collective_hands_its_arguments_to_the_plane(verb, in_group, members):
    context, plane, _ = make(3)
    call, arguments = CALLS[verb]
    assert call(context, in_group=in_group) == verb.partition(" ")[0]
    assert plane.calls == [(Seat(3, members, 7, (0, 1)), *arguments)]


def test_a_collective_says_which_line_of_the_user_calls_it():
    context, plane, _ = make(3)
    exec(compile("\n\n\nsum = reduce(1)", "<cell of the user>", "exec"), {"reduce": context.reduce})
    assert plane.site == Site("<cell of the user>", 4)


def test_a_collective_that_a_function_of_ours_calls_leaves_that_to_the_plane():
    context, plane, _ = make(3)
    exec(compile("\n\n\nsum = reduce(1)", sites.__file__, "exec"), {"reduce": context.reduce})
    assert plane.site == Site("", 0)


DEFAULTS = {
    "allreduce": (("x",), ("x", "sum", None)),
    "reduce": (("x",), ("x", "sum", 0, None)),
    "allgather": (("x",), ("x", 0, None)),
    "gather": (("x",), ("x", 0, 0, None)),
    "reduce_scatter": (("x",), ("x", "sum", 0, None, None)),
    "broadcast": ((), (None, 0, None)),
    "scatter": ((), (None, 0, 0, None, None)),
    "alltoall": (("x",), ("x", 0, None, None)),
}


@pytest.mark.parametrize("verb", DEFAULTS)
def test_a_collective_means_the_group_the_sum_root_zero_and_axis_zero(verb):
    context, plane, _ = make(3)
    given, arguments = DEFAULTS[verb]
    getattr(context, verb)(*given)
    assert plane.calls == [(Seat(3, (2, 3), 7, (0, 1)), *arguments)]


def test_point_to_point_names_workers_of_the_whole_session():
    context, plane, _ = make(3)
    context.send("x", 5)
    context.recv(1, "o")
    everybody = tuple(range(6))
    assert plane.calls == [(Seat(3, everybody, 7, (0, 1)), "x", 5), (Seat(3, everybody, 7, (0, 1)), 1, "o")]


@pytest.mark.parametrize(
    "call", [lambda me, tag: me.send(1, 2, tag=tag), lambda me, tag: me.recv(2, tag=tag)]
)
def test_a_message_bears_a_number_or_text(call):
    context, plane, _ = make(3)
    for tag in (np.int64(4), "loss"):
        call(context, tag)
    assert [seat.tag for seat, *_ in plane.calls] == [4, "loss"]
    for tag in (1.5, None, True, ("a", 1)):
        with pytest.raises(UsageMistake, match=r"(send|recv): tag must be an integer or text, got "):
            call(context, tag)


def test_a_plane_call_is_framed_by_the_guard_also_when_it_raises():
    context, _, guard = make()
    context.allreduce("x")
    with pytest.raises(ValueError, match="refused"):
        context.barrier()
    assert guard.log == ["enter", "allreduce", "leave", "enter", "barrier", "leave"]


def test_a_call_that_the_guard_refuses_is_neither_made_nor_left():
    context, plane, guard = make()
    guard.enter = lambda: (_ for _ in ()).throw(UsageMistake("another thread"))
    with pytest.raises(UsageMistake):
        context.allreduce("x")
    assert (plane.calls, guard.log) == ([], [])


def test_every_verb_is_a_method():
    assert all(callable(getattr(WorkerContext, verb)) for verb in VERBS)


def test_worker_outside_of_a_worker_says_where_it_belongs():
    with pytest.raises(UsageMistake, match=r"outside of a worker; .*, in a program that %disco run executes"):
        disco.worker()


def test_worker_in_a_thread_that_a_cell_started_is_the_worker_that_started_it(session):
    s = session(2)
    s.run(
        "import threading, disco_magic\n"
        "seen = []\n"
        "thread = threading.Thread(target=lambda: seen.append(disco_magic.worker()))\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    assert s.run("seen[0] is worker").values == [True, True]


def test_a_collective_in_a_thread_that_a_cell_started_is_refused(session):
    s = session(1)
    result = s.run(
        "import threading\n"
        "seen = []\n"
        "def join():\n"
        "    try:\n"
        "        worker.barrier()\n"
        "    except ValueError as error:\n"
        "        seen.append(str(error))\n"
        "thread = threading.Thread(target=join)\n"
        "thread.start()\n"
        "thread.join()\n"
        "seen\n"
    )
    assert "called in another thread, not in the worker's own" in result[0][0]


def test_worker_is_called_or_used_as_it_is_in_cells(session):
    s = session(2)
    assert s.call_packed(lambda: (disco.worker.id, disco.worker().id)).get_all() == [(0, 0), (1, 1)]
    s.run("from disco_magic import worker as its\nfrom disco_magic import worker")
    assert s.run("its.id, its().id, worker.num_workers, repr(its)").values[1] == (
        1,
        1,
        2,
        "<worker 1 of 2 on cpu>",
    )
    s.run("del worker")
    assert s.run("worker() is worker and worker().id").values == [0, 1]
    s.run("its.mine = worker_id; barrier()")
    assert s.run("its.mine, worker.mine, 'mine' in dir(its)").values == [(0, 0, True), (1, 1, True)]
    assert "compared" not in s.check("its", values=False).summary
    with pytest.raises(CellError, match="'WorkerContext' object has no attribute 'rnk'"):
        s.run("its.rnk")


def test_worker_outside_of_a_worker_is_still_a_function():
    assert repr(disco.worker) == "<disco_magic.worker: of the worker that calls it>"
    assert pickle.loads(pickle.dumps(disco.worker)) is copy.deepcopy(disco.worker) is disco.worker  # noqa: S301 - our own
    assert not hasattr(disco.worker, "__iter__")
    assert not hasattr(disco.worker, "id")
    assert not inspect.iscoroutinefunction(disco.worker)
    assert "id" not in dir(disco.worker)
    with pytest.raises(UsageMistake, match="outside of a worker"):
        _ = disco.worker.id
