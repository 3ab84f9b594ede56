"""Whether what a caller gives is a number above 0."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.numbers import is_positive


@pytest.mark.parametrize("number", [0.1, 1, np.float32(2), np.array(3.0), True])
def test_numbers_above_0_are_positive(number):
    assert is_positive(number)


@pytest.mark.parametrize("given", [0, -1.0, float("nan"), "1", np.float32, np.ones(2), None])
def test_nothing_else_is(given):
    assert not is_positive(given)
