"""Where arrays lie in memory: which are views of all that another one has."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.values.spans import ground_of
from tests.doubles.arrays import tensor

WHOLE = np.zeros((2, 3, 4))


@pytest.mark.parametrize(
    "view",
    [WHOLE[:], WHOLE.T, WHOLE.reshape(6, 4), WHOLE.ravel(), WHOLE[None], WHOLE.transpose(1, 2, 0)],
    ids=["slice", "T", "reshape", "ravel", "new axis", "transpose"],
)
def test_views_with_all_elements_have_the_same_ground(view):
    assert ground_of(view) == ground_of(WHOLE)
    odd = np.zeros((4, 6))[::2, 1::3]
    assert ground_of(odd.T) == ground_of(odd)


@pytest.mark.parametrize(
    "view",
    [WHOLE[:1], WHOLE[..., ::2], WHOLE[::-1], WHOLE.view("i8"), WHOLE.copy(), WHOLE.real[..., 1:]],
    ids=["first", "every other", "backwards", "other dtype", "copy", "later"],
)
def test_others_have_another_one(view):
    assert ground_of(view) != ground_of(WHOLE)


def test_tensors_have_one():
    assert ground_of(tensor(WHOLE)) == ground_of(tensor(WHOLE).reshape(24))
    assert ground_of(tensor(WHOLE)) != ground_of(tensor(WHOLE[1]))


@pytest.mark.parametrize("value", [np.zeros((0, 3)), [1], "text", None, np.float32(1)])
def test_what_has_no_elements_in_memory_has_none(value):
    assert ground_of(value) is None
