"""What a person looks at of a value, in one module: pictures, elements, statistics, differences.

For `Session.examine`: these functions may be called from any thread while a worker is writing. They run no
code of the values, and copy a part at a time.
"""

from __future__ import annotations

from disco_magic.errors import NoPicture, Stopped
from disco_magic.values.differences import Difference, difference_of
from disco_magic.values.pictures import (
    BINS,
    Block,
    Histogram,
    Picture,
    block_of,
    histogram_of,
    picture_of,
    shared_ends,
)
from disco_magic.values.totals import FullStatistics, statistics_of
from disco_magic.values.windows import Window

__all__ = [
    "BINS",
    "Block",
    "Difference",
    "FullStatistics",
    "Histogram",
    "NoPicture",
    "Picture",
    "Stopped",
    "Window",
    "block_of",
    "difference_of",
    "histogram_of",
    "picture_of",
    "shared_ends",
    "statistics_of",
]
