"""Describes an array by all its elements, however many, a part at a time."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from disco_magic.errors import NoPicture
from disco_magic.values.describe import describe
from disco_magic.values.digests import digest_of
from disco_magic.values.elements import CHUNK, chunks_of, elements_of
from disco_magic.values.frames import is_series
from disco_magic.values.totals import statistics_of

if TYPE_CHECKING:
    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.values.elements import Progress


def describe_wholly(value: Any, progress: Progress | None = None) -> RegisterInfo:
    """As `describe`; an array of which that looks at a sample is read as a whole, but for its histogram.

    Raises:
        Stopped: `progress` returned False before the end.

    Cost: 10 ns per element in one thread; memory of a few parts.
    """
    info = describe(value)
    if not info.sampled or info.dtype is None:
        return info
    with suppress(NoPicture):  # its elements are no numbers
        found = statistics_of(value, progress)
        return replace(
            info,
            minimum=found.minimum,
            mean=found.mean,
            maximum=found.maximum,
            nans=found.nans,
            infs=found.infs,
            fingerprint=_digest(value) + (info.fingerprint if is_series(type(value)) else b""),  # its labels
            sampled=False,
        )
    return info


def _digest(value: Any) -> bytes:
    """Equal for equal bits of arrays of one shape and dtype."""
    elements, made = elements_of(value), hashlib.blake2b(digest_size=16)
    for index in chunks_of(elements.shape, CHUNK):
        made.update(digest_of(elements[index]))
    return made.digest()
