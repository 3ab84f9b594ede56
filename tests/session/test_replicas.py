"""What replicas in a mesh are meant to have in common: marks over axes, checks, parameters from files."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import UnknownName, UsageMistake
from tests.loader.files import write_cache

SHARDS = """
w = worker.replicated(np.full(4, worker.coordinates['tp']), over='dp')
v = worker.replicated(np.ones(2))
"""


def test_shards_are_compared_with_their_replicas_only(grid):
    grid.run(SHARDS)
    assert grid.check(values=True).ok
    grid.run("w[1:] += worker_id == 4")
    report = grid.check(values=True)
    assert [row.name for row in report.differing] == ["w"]
    assert report["w"].splits()[0][0] == "tp=1"
    assert [who for who, _ in report["w"].splits()[0][1]] == [(1,), (4,)]
    assert (
        report["w"].gap
        == "tp=1: 3 of 4 elements differ from the first worker's, by up to 1, the first at [1]"
    )


def test_tables_mark_what_differs_from_its_replicas(grid):
    grid.run(SHARDS + "\nu = np.full(2, worker.coordinates['tp'])")
    assert {row.name: row.differs for row in grid.registers().rows} == {"w": False, "v": False, "u": True}
    assert not grid.look_at("w").differs
    grid.run("w[0] += worker_id == 4")
    row = grid.registers().row("w")
    assert row.odd() == (False, True, False, False, True, False)
    assert grid.look_at("w").odd() == row.odd()
    assert [line[0] for line in repr(row).splitlines()] == [" ", "\u2260", " ", "\u2260"]
    grid.run("w = worker.replicated(w, over='dp' if worker_id else 'tp')")
    assert grid.registers().row("w").circles == ()


def test_a_part_of_what_is_marked_is_compared_as_that_is(grid):
    grid.run("params = worker.replicated({'w': np.full(2, worker.coordinates['tp'])}, over='dp')")
    assert not grid.look_at("params['w']").differs
    grid.run("params['w'][1] = worker_id")
    assert grid.look_at("params['w']").differs


BLOCK = """
class Block: pass
block = Block()
block.norm, block.bias = np.ones(3), {'b': np.zeros(2)}
block.w = np.full(4, worker.coordinates['tp'])
for part in (block.norm, block.bias['b']): worker.replicated(part)
worker.replicated(block.w, over='dp')
"""


def test_parts_have_marks_of_their_own_along_other_axes(grid):
    grid.run(BLOCK)
    report = grid.check(values=True)
    assert report
    assert {row.name for row in report.rows if row.by_value} == {"block.norm", "block.bias['b']", "block.w"}
    assert not grid.look_at("block.w").differs
    grid.run("block.w[1:] += worker_id == 4\nblock.bias['b'] = np.full(2, worker_id // 5)")
    report = grid.check(values=True)
    assert [row.name for row in report.differing] == ["block.bias['b']", "block.w"]
    assert (
        report["block.w"].gap
        == "tp=1: 3 of 4 elements differ from the first worker's, by up to 1, the first at [1]"
    )
    assert [who for who, _ in report["block.bias['b']"].splits()[0][1]] == [(0, 1, 2, 3, 4), (5,)]
    assert grid.look_at("block.w").odd() == (False, True, False, False, True, False)


def test_parts_that_are_named_are_compared_along_the_axes_of_their_marks(grid):
    grid.run(BLOCK + "whole = worker.replicated({'w': block.w}, over='dp')")
    for name in ("block.w", "whole['w']", 'whole["w"]'):
        assert grid.check(name, values=True)
        assert not grid.check(name, values=True, over="tp")
    assert grid.check("block", "block.norm").ok
    assert [row.name for row in grid.check('whole["w"]').rows] == ["whole['w']"]


def test_a_part_that_only_some_have_marked_is_a_difference(grid):
    grid.run(BLOCK)
    grid.run("if worker_id == 2: worker.replicated(block.w)\nif worker_id == 3: del block.norm")
    report = grid.check(values=True)
    assert report["block.w"].aspects == ("mark",)
    assert [who for who, _ in report["block.w"].splits()[0][1]] == [(0, 1, 3, 4, 5), (2,)]
    assert report["block.norm"].aspects == ("missing",)
    assert [row.name for row in report.differing] == ["block.norm", "block.w"]
    grid.run("if worker_id == 2: worker.replicated(block.w, over='dp')\nblock.norm = np.ones(3)")
    assert grid.check(values=True)


def test_an_axis_that_a_check_names_outweighs_the_marks(grid):
    grid.run(SHARDS)
    assert not grid.check("w", values=True, over="tp").ok
    assert grid.check("w", values=True, over="dp").ok
    assert not grid.check("w", values=True, over=("dp", "tp")).ok
    with pytest.raises(UnknownName, match="no axis 'zz'"):
        grid.check(over="zz")


def test_without_names_marks_are_compared_as_far_as_they_go(grid):
    grid.run(SHARDS)
    for asked in ({"over": "tp"}, {"over": "dp"}, {"over": ("dp", "tp")}):
        assert grid.check(values=True, **asked).ok, asked
    grid.run("w[0] += worker_id == 4")
    assert grid.check(values=True, over="tp").ok
    assert [row.name for row in grid.check(values=True, over="dp").differing] == ["w"]
    grid.run("v[0] = worker_id")
    assert [row.name for row in grid.check(values=True, over="tp").differing] == ["v"]


def test_what_was_compared_with_nobody_is_not_called_equal(grid):
    grid.run("w = worker.replicated(np.full(2, worker_id), over='dp')")
    for asked in ({"over": "tp"}, {"workers": [0, 1, 2]}):
        report = grid.check(values=True, **asked)
        assert report.ok
        assert not report
        assert "w (none of the workers that should agree were compared)" in report.summary
    assert not grid.check("w", values=True, workers=[0, 1]).ok  # both are named: these two, then
    assert not grid.check("w", values=True, workers=[0, 3]).ok


def test_a_report_says_over_which_axes_registers_are_equal(grid):
    grid.run(SHARDS + "\nu = worker.replicated(np.zeros(1 + worker.coordinates['tp']), over='dp')")
    assert grid.check(values=True).summary == "[0-5] agree over dp on: w, u; agree on: v"
    assert (
        grid.check().summary
        == "[0-5] agree over dp on type and shape of: w, u; agree on type and shape of: v"
    )
    assert grid.check(values=True)["w"].lines() == [("equal over dp", "[0-5]", "int64 (4,)")]


def test_groups_and_marks_over_axes_are_compared_where_both_hold():
    with disco.ThreadedSession(4, 2, mesh={"dp": 2, "tp": 2}) as session:
        session.run(SHARDS)
        assert session.check(values=True).ok
        assert session.check(values=True, in_group=True).ok
        session.run("w[0] += worker_id == 3")
        assert session.check(values=True, in_group=True).ok
        assert not session.check(values=True).ok
        with pytest.raises(UsageMistake, match="leave in_group out"):
            session.check(in_group=True, over="tp")


def test_shards_of_uneven_shape_are_no_difference(grid):
    grid.run("w = worker.replicated(np.zeros(2 + worker.coordinates['tp']), over='dp')")
    assert grid.check(values=True).ok
    assert grid.check().ok
    assert not grid.check("w", over="tp").ok


def test_all_axes_are_all_workers(grid):
    grid.run("w = worker.replicated(np.zeros(2), over=('tp', 'dp') if worker_id else None)")
    assert grid.check(values=True).ok
    grid.run("w[0] = worker_id == 5")
    assert not grid.check(values=True).ok


def test_a_name_marked_anew_is_compared_by_its_last_mark(grid):
    grid.run("def made(over):\n    return worker.replicated(np.zeros(2), over=over)")
    grid.run("w = made('dp')\nw[:] = worker.coordinates['tp']")
    assert grid.check(values=True).ok
    grid.run("w = worker.replicated(w)")
    assert not grid.check(values=True).ok
    grid.run("w = worker.replicated(w, over='dp')")
    assert grid.check(values=True).ok


def test_of_some_workers_those_that_share_a_place_are_compared(grid):
    grid.run(SHARDS + "\nw += worker_id == 4")
    assert grid.check(values=True, workers=[0, 1, 2, 3]).ok
    assert not grid.check(values=True, workers=[1, 4]).ok


def test_what_a_function_has_marked_keeps_its_axes(grid):
    def make():
        me = disco.worker()
        return me.replicated(np.full(2, me.coordinates["tp"]), over="dp")

    grid["shard"] = grid.call_packed(make)
    assert grid.check(values=True).ok
    grid.run("shard[0] = worker_id")
    assert [row.name for row in grid.check(values=True).differing] == ["shard"]


# --- parameters ------------------------------------------------------------------------------------


def test_a_checkpoint_is_split_over_an_axis_and_its_copies_are_marked(grid, tmp_path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    whole = np.arange(24, dtype="float32").reshape(6, 4)
    save_file({"w": whole, "b": np.ones(3, "float32")}, tmp_path / "m.safetensors")
    plan = {"w": disco.Shard(axis=0)}
    loaded = grid.load_safetensors(tmp_path / "m.safetensors", plan, over="tp")
    for worker, part in enumerate(loaded["w"].get_all()):
        assert np.array_equal(part, whole[worker % 3 * 2 :][:2])
    grid["w"], grid["b"] = loaded["w"], loaded["b"]
    report = grid.check(values=True)
    assert report.ok
    assert report.summary == "[0-5] agree over dp on: w; agree on: b"
    grid.run("w[0, 0] += worker_id // 3")
    assert [row.name for row in grid.check(values=True).differing] == ["w"]
    with pytest.raises(UnknownName, match="load_safetensors: there is no axis 'zz'"):
        grid.load_safetensors(tmp_path / "m.safetensors", plan, over="zz")


def test_a_cache_of_tvm_is_split_over_an_axis_too(grid, tmp_path):
    whole = np.arange(24, dtype="float32").reshape(6, 4)
    write_cache(tmp_path, {"params.bin": {"w": whole}})
    loaded = grid.load_tensor_cache(tmp_path, {"w": disco.Shard(axis=1)}, over="dp")
    for worker, part in enumerate(loaded["w"].get_all()):
        assert np.array_equal(part, np.split(whole, 2, axis=1)[worker // 3])
    grid["w"] = loaded["w"]
    assert grid.check(values=True).ok
    grid.run("w[0] += worker_id == 5")
    assert grid.check(values=True)["w"].splits()[0][0] == "dp=1"
