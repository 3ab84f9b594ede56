"""Tensors that are split over a mesh: who has to agree on which part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disco_magic.core.held import Held
from tests.core.held import FLOAT, found, report


def split(shard, shape=(2,), digest=b"1", kind="DTensor(8, S(0))", **more):
    return Held(kind, shape, "torch.float32", "cpu", digest=digest, shard=shard, **more)


def test_workers_that_have_the_same_part_of_a_tensor_have_to_agree():
    workers = [{"w": split(f"tp={worker % 2}", digest=b"%d" % (worker % 2))} for worker in range(4)]
    fine = report(*workers, by_value=["w"])
    assert fine.ok
    assert fine
    assert fine["w"].lines() == [("equal", "[0-3]", "DTensor(8, S(0)) torch.float32 (2,)")]
    workers[3] = {"w": split("tp=1", digest=b"other")}
    drifted = report(*workers, by_value=["w"])
    assert [(place, who) for place, groups in drifted["w"].splits() for who, _ in groups] == [
        ("tp=1", (1,)),
        ("tp=1", (3,)),
    ]


def test_what_a_worker_has_found_says_whether_there_is_a_part_of_its_own_in_it():
    has, has_in_a_list, has_not = found(
        {"step": FLOAT, "w": split("tp=0")}, {"many": {"many": FLOAT, "many[0]": split("tp=1")}}, {"w": FLOAT}
    ).values()
    assert has.is_split
    assert has_in_a_list.is_split
    assert not has_not.is_split


def test_parts_of_their_own_may_differ_in_shape_and_value():
    workers = [
        {"w": split(f"tp={worker}", shape=(2 - worker,), digest=b"%d" % worker)} for worker in range(2)
    ]
    for by_value in ([], ["w"]):
        each = report(*workers, by_value=by_value)
        assert each.ok
        assert not each.uncompared
        assert {verdict for verdict, _, _ in each["w"].lines()} == {"split"}
        assert each.summary == "[0-1] split, a different part on each: w"


@pytest.mark.parametrize(
    ("other", "aspect"),
    [
        (split("tp=1", kind="DTensor(8, R)"), "type"),
        (replace(split("tp=1"), dtype="torch.float64"), "dtype"),
        (Held("torch.Tensor", (2,), "torch.float32", "cpu"), "type"),
    ],
)
def test_all_have_to_split_it_in_the_same_way(other, aspect):
    assert aspect in report({"w": split("tp=0")}, {"w": other})["w"].aspects


def test_one_that_all_have_is_compared_by_value_if_it_was_looked_at_so():
    same, drifted = split("", kind="DTensor(2, R)"), split("", kind="DTensor(2, R)", digest=b"2")
    assert report({"w": same}, {"w": same})["w"].lines()[0][0] == "equal"
    assert report({"w": same}, {"w": drifted})["w"].aspects == ("value",)
    in_a_list = [{"w": {"w": Held("list", (1,)), "w[0]": each}} for each in (same, drifted)]
    assert [row.name for row in report(*in_a_list).differing] == ["w[0]"]


@pytest.mark.parametrize("shard", ["", "tp=1"])
def test_a_worker_that_lacks_it_is_told(shard):
    row = report({"w": split(shard)}, {}, {"w": split(shard)}, by_value=["w"])["w"]
    assert row.aspects == ("missing",)
    apart = report({"w": split("tp=0")}, {"w": split("tp=1")}, {})["w"]
    assert apart.aspects == ("missing",)
    assert apart.lines()[-1][1:] == ("[2]", "not bound")


def test_meshes_of_their_own_are_compared_if_they_are_asked_for():
    stages = [{"w": split("", digest=b"%d" % (worker // 2), mesh=(worker // 2,))} for worker in range(4)]
    assert report(*stages).ok
    assert report(*stages)["w"].by_value
    assert report(*stages, by_value=["w"])["w"].aspects == ("value",)
    stages[3] = {"w": split("", digest=b"drifted", mesh=(1,))}
    assert report(*stages)["w"].aspects == ("value",)


def test_groups_that_were_asked_for_are_kept():
    workers = [{"w": split(f"tp={worker % 2}", digest=b"%d" % worker)} for worker in range(4)]
    assert report(*workers, by_value=["w"], circles=((0, 1), (2, 3))).ok
    assert not report(*workers, by_value=["w"], circles=((0, 2), (1, 3))).ok
