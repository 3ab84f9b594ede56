"""Data frames and other objects, which tests of values look into."""

from __future__ import annotations

import re

from tests.notebook.frames import pandas  # noqa: F401 - a fixture
from tests.values.looked_at import seen  # noqa: F401 - a fixture


def without_address(value):
    """`repr` as a test's id: the same in every process that collects the tests."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
