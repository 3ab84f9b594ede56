"""From patterns to axes: which pattern decides, and what is a mistake."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.loader.plan import REPLICATE, Shard, axes, select
from disco_magic.loader.stored import StoredFile, StoredTensor

FILE = StoredFile("/f", 0, 0)
SHAPES = {
    "l.0.w": (8, 6),
    "l.0.b": (8,),
    "l.1.w": (8, 6),
    "l.1.b": (8,),
    "head": (6, 4, 2),
    "one": (),
    "x[0]": (4,),
}
TENSORS = {name: StoredTensor(name, shape, np.dtype("f4"), FILE, 0) for name, shape in SHAPES.items()}


def decided(plan, count=2, chosen=None):
    return {name: axis for name, axis in axes(plan, TENSORS, count, chosen).items() if axis is not None}


@pytest.mark.parametrize("plan", [None, {}, {"*": REPLICATE}])
def test_what_no_pattern_fits_is_replicated(plan):
    assert axes(plan, TENSORS, 4) == dict.fromkeys(SHAPES)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ({"*.w": Shard(axis=1)}, {"l.0.w": 1, "l.1.w": 1}),
        ({"l.?.[bw]": Shard()}, {"l.0.w": 0, "l.0.b": 0, "l.1.w": 0, "l.1.b": 0}),
        ({"head": Shard(-1)}, {"head": 2}),
        ({"l.0.*": REPLICATE, "l.*": Shard(0)}, {"l.1.w": 0, "l.1.b": 0}),
        ({"x[0]": Shard(0)}, {"x[0]": 0}),
        ({"l.0.w": Shard(np.int64(0))}, {"l.0.w": 0}),
    ],
    ids=range(6),
)
def test_the_first_pattern_that_fits_decides(plan, expected):
    assert decided(plan) == expected


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ([("*", Shard())], r"plan is list, expected a mapping like \{'\*\.weight': Shard\(axis=0\)\}"),
        ({"*.w": 0}, r"plan: '\*\.w' is 0, expected Shard\(axis=\.\.\.\) or REPLICATE"),
        ({"*.w": Shard}, "expected Shard"),
        ({3: Shard()}, "plan: 3 is not a name or a pattern of names"),
        ({"l.0.ww": Shard()}, r"plan: no tensor's name fits 'l\.0\.ww'; did you mean 'l\.0\.w'"),
        ({"*.zzzzzzzz": Shard()}, r"there are 7: l\.0\.w, l\.0\.b, l\.1\.w, l\.1\.b, head, \.\.\."),
        (
            {"l.*": Shard(0), "head": REPLICATE, "l.0.w": REPLICATE},
            r"'l\.0\.w' has no effect: all 1 names that fit it fit 'l\.\*' before it",
        ),
    ],
    ids=range(7),
)
def test_a_mistake_in_a_plan_is_refused(plan, words):
    with pytest.raises(UsageMistake, match=words):
        axes(plan, TENSORS, 2)


def test_all_tensors_that_cannot_be_split_are_listed():
    with pytest.raises(UsageMistake) as caught:
        axes({"*.w": Shard(1), "one": Shard(0), "head": Shard(3), "*.b": Shard(0)}, TENSORS, 4)
    assert str(caught.value).splitlines() == [
        "plan: 4 of 7 tensors cannot be split evenly among 4 workers:",
        "  l.0.w: axis 1 of shape [8, 6]",
        "  l.1.w: axis 1 of shape [8, 6]",
        "  head: shape [6, 4, 2] has no axis 3",
        "  one: shape [] has no axis 0",
        "choose another axis or REPLICATE for them",
    ]


def test_what_is_not_loaded_need_not_be_divisible():
    assert decided({"*.w": Shard(1), "*.b": Shard(0)}, 4, ["l.0.b"]) == {"l.0.b": 0}


@pytest.mark.parametrize("axis", ["0", None, 0.0])
def test_an_axis_is_a_whole_number(axis):
    with pytest.raises(UsageMistake, match="expected a whole number"):
        Shard(axis)


def test_placements_show_how_they_are_written():
    assert repr([Shard(1), REPLICATE]) == "[Shard(axis=1), REPLICATE]"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, list(SHAPES)),
        (["head", "l.0.*"], ["l.0.w", "l.0.b", "head"]),
        ("*.b", ["l.0.b", "l.1.b"]),
        ([], []),
        (iter(["one"]), ["one"]),
    ],
    ids=range(5),
)
def test_names_choose_what_is_loaded(names, expected):
    assert list(select(TENSORS, names)) == expected


@pytest.mark.parametrize(
    ("names", "words"),
    [(["hed"], "names: no tensor's name fits 'hed'; did you mean 'head'"), ([1], "names: 1 is not a name")],
)
def test_a_name_that_is_not_there_is_refused(names, words):
    with pytest.raises(UsageMistake, match=words):
        select(TENSORS, names)
