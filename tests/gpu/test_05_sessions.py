"""Sessions of four workers on one GPU: what is tested on a simulated one, and more."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from disco_magic.errors import CellError
from tests.session.gpus import test_copies as copies
from tests.session.gpus import test_sessions as sessions
from tests.session.gpus import test_streams as streams

# What asks for `shared` alone, four workers on a GPU, cannot tell what kind of GPU it is. What asks for
# `gpus` holds simulated streams, and a second GPU may not be there.
_NEEDS_TWO = {"test_an_array_on_another_gpu_is_refused_with_advice"}
globals().update(
    {
        name: function
        for simulated in (sessions, copies, streams)
        for name, function in vars(simulated).items()
        if name.startswith("test_")
        and name not in _NEEDS_TWO
        and {"shared", "gpus"} & set(inspect.signature(function).parameters) == {"shared"}
    }
)
pinned = copies.pinned


def test_it_found_the_tests_of_the_simulation():
    assert sum(name.startswith("test_") for name in globals()) > 15


def test_memory_of_the_device_is_known(shared):
    shared.run("x = xp.ones(1 << 20, 'uint8')\nbefore = worker.place.memory()")
    used, total = shared["before"].get(0)
    assert 0 < used <= total


def test_a_table_of_registers_shows_arrays_of_the_gpu(shared):
    shared.run("x = xp.arange(6.0).reshape(2, 3)")
    (cell, *_) = shared.registers().row("x").cells
    assert (cell.shape, cell.dtype) == ((2, 3), "float64")
    assert "cuda:0" in str(cell.device)


@pytest.mark.parametrize("in_group", [True, False])
def test_groups(session, in_group):
    s = session(4, 2, devices=[0] * 4)
    x = s.scatter(np.arange(8.0).reshape(2 if in_group else 4, -1), in_group=in_group)
    total = s.allreduce(x, in_group=in_group)
    whole = np.arange(8.0).reshape(2 if in_group else 4, -1).sum(axis=0)
    assert [each.tolist() for each in total.get_all()] == [whole.tolist()] * 4


def test_axes_of_a_mesh(session):
    s = session(4, mesh="dp=2,tp=2", devices=[0] * 4)
    cell = "[allreduce(xp.full(1 << 20, worker_id), over=each)[-1].item() for each in ('dp', 'tp')]"
    assert s.run(cell).values == [[2, 1], [4, 1], [2, 5], [4, 5]]
    x = s.scatter(np.arange(8.0).reshape(2, 4), over="tp")
    assert [each.tolist() for each in s.allgather(x, over="tp").get_all()] == [list(range(8))] * 4


def test_python_objects_between_workers_beside_work_on_the_gpu(shared):
    cell = "y = xp.ones(1 << 22) * worker_id\ngot = allgather_objects({'from': worker_id})\n"
    assert shared.run(f"{cell}[each['from'] for each in got], float(y.sum())").values == [
        ([0, 1, 2, 3], float(worker << 22)) for worker in range(4)
    ]
    assert shared.run("broadcast_object(('a', worker_id), root=2)").values == [("a", 2)] * 4


def test_messages_of_whichever_worker_sends_first_beside_work_on_the_gpu(shared):
    cell = """
y = xp.ones(1 << 16) * worker_id
if worker_id:
    send_object({'from': worker_id, 'sum': float(y.sum())}, 0, tag='sums')
    send(y, 0)
else:
    sums = dict(each.values() for each in (recv(tag='sums') for _ in range(3)))
    found = [int(recv(source)[-1]) == source for source in (probe() for _ in range(3))]
"""
    shared.run(cell)
    assert shared.run("found if worker_id == 0 else None")[0] == [True] * 3
    sums = "sums if worker_id == 0 else None"
    assert shared.run(sums)[0] == {who: float(who << 16) for who in (1, 2, 3)}


def test_trees_of_arrays(shared):
    shared.run(
        "g = {'w': xp.full((3, 5), worker_id, 'f4'), 'b': [xp.ones(7, 'f2'), None], 'n': worker_id,\n"
        "     'large': xp.full(1 << 20, worker_id, 'f4')}\n"
        "y = allreduce_tree(g)\n"
        "told = [y['w'].sum().item(), y['b'][0].sum().item(), y['n'], y['large'][-1].item()]"
    )
    assert shared["told"].get_all() == [[90.0, 28.0, 6, 6.0]] * 4
    shared.run("x = {k: g[k] for k in ('w', 'large')}\nsame = allreduce_tree(x, 'avg', out=x)['w'] is g['w']")
    assert shared.run("same, g['w'].sum().item(), g['large'][0].item()").values == [(True, 22.5, 1.5)] * 4


def test_what_differs_is_found_in_a_cell_and_shown_part_by_part(shared):
    shared.run("p = {'w': xp.arange(1 << 20, dtype='f4'), 'h': np.ones(3)}; worker.check(p, p['w'][::2])")
    with pytest.raises(CellError) as caught:
        shared.run(
            "for step in range(9):\n    p['w'][7] += step == 4 and worker_id == 2\n    worker.check(p)"
        )
    report = caught.value.failures[0].exception.report
    assert [(row.name, row.gap) for row in report.differing] == [
        ("p['w']", "1 of 1,048,576 elements differs from the first worker's, by up to 1, at [7]")
    ]
    assert shared["step"].get_all() == [4] * 4
    parts = shared.look_into("p")
    assert [row.name for row in parts.rows if row.differs] == ["p['w']"]
    assert parts.rows[0].cells[2].device == "cuda:0"


def test_matrix_products_between_collectives(shared):
    """Tensor parallel in small: columns of one matrix, rows of the other, one allreduce."""
    rng = np.random.default_rng(0)
    x, a, b = (rng.standard_normal(shape) for shape in [(3, 8), (8, 16), (16, 4)])
    shared.put("x", x)
    shared["a"] = shared.scatter(np.stack(np.split(a, 4, axis=1)))
    shared["b"] = shared.scatter(np.stack(np.split(b, 4, axis=0)))
    shared.run("y = allreduce(xp.tanh(x @ a) @ b)")
    for y in shared["y"].get_all():
        np.testing.assert_allclose(y, np.tanh(x @ a) @ b, rtol=1e-12)


def test_what_a_graph_would_have_to_repeat_is_refused_and_the_graph_can_be_ended(shared):
    shared.run(
        "stream = xp.cuda.Stream(non_blocking=True); x = xp.ones(4); worker.place.settle()\n"
        "with stream:\n"
        "    stream.begin_capture()\n"
        "    try:\n"
        "        y = allreduce(x)\n"
        "    except Exception as error:\n"
        "        told = str(error)\n"
        "    x += 1\n"
        "    graph = stream.end_capture()\n"
        "    graph.launch()\n"
        "    stream.synchronize()\n"  # the collective is on the worker's own
        "z = allreduce(x)"
    )
    assert "captured for a CUDA graph" in shared["told"].get(3)
    assert shared["z"].get(0).tolist() == [8.0] * 4
