"""Python objects between workers: broadcast_object and allgather_objects."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, UsageMistake
from disco_magic.testing.gpu import SimulatedGpus
from tests.gpus import found, with_nccl


@pytest.fixture(params=["threads", "device", "NCCL"])
def s(request, session, monkeypatch):
    """Four workers in a mesh: on the host, on one simulated GPU, or each on its own."""
    if request.param == "threads":
        yield session(4, mesh={"dp": 2, "tp": 2})
        return
    count = 1 if request.param == "device" else 4
    with SimulatedGpus(count=count) as machine:
        if request.param == "NCCL":
            with_nccl(machine).reset()
        found(monkeypatch, machine, count)
        yield session(4, mesh={"dp": 2, "tp": 2}, devices=list(range(count)) * (4 // count))


def test_everybody_gets_the_root_s_object(s):
    cell = "broadcast_object({'from': worker_id, 'deep': [(1, 'a')]} if worker_id == 2 else None, root=2)"
    assert s.run(cell).values == [{"from": 2, "deep": [(1, "a")]}] * 4
    assert s.run("broadcast_object(worker_id, 1, over='tp')").values == [1, 1, 3, 3]
    assert s.run("broadcast_object(worker_id)").values == [0] * 4
    assert s.run("broadcast_object(None)").values == [None] * 4


def test_everybody_gets_all_objects_in_rank_order(s):
    assert s.run("allgather_objects('x' * worker_id)").values == [["", "x", "xx", "xxx"]] * 4
    assert s.run("allgather_objects(worker_id, over='dp')").values == [[0, 2], [1, 3], [0, 2], [1, 3]]
    assert s.run("worker.allgather_objects(None, in_group=False)").values == [[None] * 4] * 4


def test_they_are_copies(s):
    s.run(
        "mine = [worker_id]\ngot = broadcast_object(mine)\ngot.append(1)\nall_of_us = allgather_objects(mine)"
    )
    assert s.run("mine, got, all_of_us[worker_id] is mine").values == [([n], [0, 1], False) for n in range(4)]


def test_objects_of_cells_classes_are_the_receiver_s(s):
    s.run("class Cfg: by = worker_id\ngot = broadcast_object(Cfg())")
    assert s.run("type(got) is Cfg and got.by == worker_id").values == [True] * 4


@pytest.mark.parametrize("verb", ["broadcast_object", "allgather_objects"])
def test_what_cannot_travel_is_said(s, verb):
    with pytest.raises(CellError, match=f"{verb}: a function cannot be pickled: .*lambda") as caught:
        s.run(f"{verb}(lambda: 1)")
    assert type(caught.value.origin.exception) is UsageMistake
    s.run("if worker_id == 1:\n    class Mine: pass")
    with pytest.raises(CellError, match=f"{verb}: what worker 1 sent cannot be read here: .*Mine"):
        s.run(f"{verb}(Mine() if worker_id == 1 else None{', 1' if verb == 'broadcast_object' else ''})")
    assert s.run("broadcast_object(1)").values == [1] * 4


def test_an_error_tells_the_user_s_lines(s):
    with pytest.raises(CellError) as caught:
        s.run("x = 1\nif worker_id: broadcast_object(x)\nelse: allgather_objects(x)")
    text = str(caught.value)
    assert "line 2" in text
    assert "line 3" in text
    assert "objects.py" not in text


def test_the_record_tells_the_user_s_line(s):
    s.run("x = 1\nbroadcast_object(x)")
    sites = {span.site for span in s.timeline().spans if span.label.startswith("broadcast")}
    assert len(sites) == 1
    assert "line 2" in sites.pop()
