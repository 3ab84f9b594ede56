"""Loading parameters through a session: who gets what, and what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from disco_magic.errors import MissingDependency, SessionClosed, UsageMistake, WorkerError
from disco_magic.loader.plan import REPLICATE, Shard
from disco_magic.session import parameters
from tests.loader.files import write_cache, write_index, write_safetensors
from tests.session.parameters.conftest import PLAN, WHOLE, check, registers

groupings = pytest.mark.parametrize(("n", "groups"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 2), (6, 3)])


# --- who gets what ---------------------------------------------------------------------------------


@groupings
@pytest.mark.parametrize("in_group", [True, False])
def test_every_worker_gets_its_part_along_the_axis_of_the_plan(session, path, n, groups, in_group):
    s = session(n, groups)
    size = n // groups if in_group else n
    params = s.load_safetensors(path, PLAN, in_group=in_group)
    check(params, n, lambda worker: (worker % size, size))
    assert params.metadata == {"format": "np"}


@groupings
@pytest.mark.parametrize("halved", [(), ("embed.weight",)])
def test_parameters_of_tvm_are_split_alike(session, tmp_path, n, groups, halved):
    s = session(n, groups)
    size = n // groups
    names = list(WHOLE)
    files = {
        "a.bin": {name: WHOLE[name] for name in names[:2]},
        "b.bin": {name: WHOLE[name] for name in names[2:]},
    }
    write_cache(tmp_path, files, halved=halved)
    check(s.load_tensor_cache(tmp_path, PLAN), n, lambda worker: (worker % size, size))


def test_without_a_plan_everybody_gets_everything(session, path):
    check(session(3).load_safetensors(str(path)), 3, lambda worker: (0, 1))


def test_parts_of_a_checkpoint_are_loaded_together(session, tmp_path):
    names = list(WHOLE)
    parts = {
        "1.safetensors": {name: WHOLE[name] for name in names[:2]},
        "2.safetensors": {name: WHOLE[name] for name in names[2:]},
    }
    write_index(tmp_path, parts)
    check(session(2).load_safetensors(tmp_path, PLAN), 2, lambda worker: (worker, 2))


def test_names_choose_what_is_loaded(session, path):
    # The plan is for the whole model: patterns of what is left out are no mistake.
    params = session(2).load_safetensors(path, PLAN | {"scale": REPLICATE}, names=["l.0.*", "scale"])
    assert list(params) == ["l.0.weight", "l.0.bias", "scale"]
    assert params["l.0.weight"].get(1).shape == (6, 6)


def test_nothing_can_be_loaded_too(session, path):
    assert dict(session(2).load_safetensors(path, names=[])) == {}


def test_loaded_registers_are_ordinary_ones(session, path):
    s = session(2)
    params = s.load_safetensors(path, {"l.0.weight": Shard(axis=0)})
    s["w"] = params["l.0.weight"]
    del params
    assert (
        s.run("w += worker_id\nw.flags.owndata, w.flags.writeable, float(allreduce(w).sum())").values
        == [(True, True, float(WHOLE["l.0.weight"].sum() + 36))] * 2
    )


def test_what_workers_write_stays_out_of_the_file_and_of_each_other(session, path):
    s = session(2)
    s["x"] = s.load_safetensors(path)["embed.weight"]
    s.run("if worker_id: x[:] = -1")
    assert s["x"].get(0)[0, 1] == 1
    assert s.load_safetensors(path)["embed.weight"].get(1)[0, 1] == 1


def test_registers_die_with_the_mapping(session, path):
    s = session(2)
    params = s.load_safetensors(path)
    assert len(registers(s)) == len(WHOLE)
    kept = params["scale"]
    del params
    assert registers(s) == [f"#{kept.register}"]


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_many_tensors_are_loaded_in_batches(session, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(parameters, "_BATCH", batch)
    arrays = {f"t{i}": np.full(4, i) for i in range(7)}
    s = session(2)
    params = s.load_safetensors(write_safetensors(tmp_path / "m.safetensors", arrays), {"*": Shard(0)})
    assert [int(dref.get(1)[0]) for dref in params.values()] == list(range(7))


def test_a_session_that_may_not_run_ahead_loads_too(session, path):
    check(session(2, max_outstanding=1).load_safetensors(path, PLAN), 2, lambda worker: (worker, 2))


def test_a_model_in_bfloat16_is_loaded_as_it_is(session, tmp_path):
    kinds = pytest.importorskip("ml_dtypes")
    array = np.arange(8).astype(kinds.bfloat16)
    params = session(2).load_safetensors(
        write_safetensors(tmp_path / "m.safetensors", {"x": array}), {"x": Shard()}
    )
    assert params["x"].get(1).dtype == array.dtype
    assert params["x"].get(1).tolist() == [4, 5, 6, 7]
    assert "bfloat16" in repr(params)


# --- what is refused before anything is sent -------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, p: s.load_safetensors(p.parent / "x.safetensors"), "cannot be read: No such file"),
        (lambda s, p: s.load_safetensors(p, {"emb": Shard()}), "plan: no tensor's name fits 'emb'"),
        (lambda s, p: s.load_safetensors(p, names=["embd.weight"]), r"did you mean 'embed\.weight'"),
        (
            lambda s, p: s.load_safetensors(p, {"*bias": Shard()}),
            "1 of 5 tensors cannot be split evenly among 2 workers",
        ),
        (lambda s, p: s.load_safetensors(p, timeout="soon"), "timeout is 'soon', expected a number"),
        (lambda s, p: s.load_tensor_cache(p.parent), "it is not a parameter folder of TVM"),
    ],
    ids=range(6),
)
def test_an_impossible_load_is_refused_at_once(session, path, call, words):
    s = session(2)
    before = s.ledger.seq
    with pytest.raises(UsageMistake, match=words):
        call(s, path)
    assert s.ledger.seq == before


def test_a_missing_package_is_named_at_once(session, tmp_path, monkeypatch):
    kinds = pytest.importorskip("ml_dtypes")
    path = write_safetensors(tmp_path / "m.safetensors", {"x": np.zeros(1, kinds.bfloat16)})
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    s = session(1)
    with pytest.raises(MissingDependency, match=r"tensor 'x': .* pip install \"disco-magic\[loader\]\""):
        s.load_safetensors(path)


def test_a_worker_cannot_load_into_its_own_session(session, path):
    s = session(2)
    with pytest.raises(WorkerError, match="load_safetensors was called on worker 0 of the same session"):
        s.call_packed(lambda: s.load_safetensors(path), workers=(0,)).get(0)


def test_a_closed_session_loads_nothing(session, path):
    s = session(2)
    s.shutdown()
    with pytest.raises(SessionClosed):
        s.load_safetensors(path)
