"""Which results of a cell are shown as one: equal values that also look alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.values.fingerprint import digest, fingerprint
from disco_magic.values.kinds import is_gpu_array, is_of_framework, module_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# Addresses and GPU numbers: equal objects may differ in these without any other difference.
_PLACES: Final = re.compile(r"0x[0-9a-fA-F]{4,}|(?<=\b(?:cuda|rocm):)\d+")
_TEXT: Final = "text/plain"


def digest_of_result(value: Any, shown: Mapping[str, Any] | None) -> bytes:
    """Return 16 bytes that are equal for results that may be shown as one.

    What pickle writes of an object need not be all that it shows: an attribute of its class, or a register
    that its `__repr__` reads, may be the worker's own. Arrays show nothing else; objects of libraries are
    assumed to differ in text if they differ, because their HTML has random names in it.

    Args:
        value: the last value of a cell.
        shown: MIME type -> how it is shown.
    """
    equal = fingerprint(value)
    kind = type(value)
    if not shown or issubclass(kind, np.ndarray) or is_gpu_array(kind) or is_of_framework(kind):
        return equal
    told = shown if module_of(kind) == CELL_MODULE else {_TEXT: shown.get(_TEXT)}
    texts = [f"{name} {_PLACES.sub('', str(data))}" for name, data in told.items()]
    return digest("\n".join(texts).encode("utf-8", "surrogatepass"), equal)
