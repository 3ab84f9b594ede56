"""Which results of a cell are shown as one: equal values that also look alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.values.columns import facts_of, facts_of_labels
from disco_magic.values.digests import digest
from disco_magic.values.fingerprint import PLAIN_IDS, fingerprint
from disco_magic.values.frames import Column, is_table
from disco_magic.values.inside import content_of
from disco_magic.values.kinds import is_gpu_array, is_of_framework, module_of, name_of
from disco_magic.values.pickled import PLACES, pickled_fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT: Final = "text/plain"
_OF_NONE: Final = fingerprint(None)


def digest_of_result(value: Any, shown: Mapping[str, Any] | None) -> bytes:
    """Return 16 bytes that are equal for results that may be shown as one.

    What pickle writes of an object need not be all that it shows: an attribute of its class, or a register
    that its `__repr__` reads, may be the worker's own. Arrays show nothing else; objects of libraries are
    assumed to differ in text if they differ, because their HTML has random names in it.
    """
    if value is None and not shown:
        return _OF_NONE
    kind = type(value)
    is_plain = id(kind) in PLAIN_IDS  # as most: none of what follows
    equal = _of_table(value) if not is_plain and is_table(kind) else fingerprint(value, _of_object)
    if not shown or not (is_plain or _shows_more(kind)):
        return equal
    told = shown if not is_plain and module_of(kind) == CELL_MODULE else {_TEXT: shown.get(_TEXT)}
    texts = [f"{name} {PLACES.sub('', str(data))}" for name, data in told.items()]
    return digest("\n".join(texts).encode("utf-8", "surrogatepass"), equal)


def _shows_more(kind: type) -> bool:
    """Whether what is shown of such a value may differ where its elements do not."""
    return not (issubclass(kind, np.ndarray) or is_gpu_array(kind) or is_of_framework(kind))


def _of_object(value: Any) -> bytes:
    """The fingerprint of what is in an object, like that of a check; of what is not compared, by its pickle.

    Pickle also writes which parts are one object, and the order of attributes.
    """
    from disco_magic.values.divergence import survey  # few results are objects

    parts = survey("", value, values=True)
    told = [(path, held.type, held.shape, held.dtype, held.elements, held.digest) for path, held in parts]
    is_all = not any(held.opaque or held.cut for _, held in parts)
    return digest(repr(told).encode("utf-8", "surrogatepass"), b"" if is_all else pickled_fingerprint(value))


def _of_table(table: Any) -> bytes:
    """The fingerprint of a table. Pickle would write arbitrary numbers where values are missing."""
    content, labels = content_of(table), facts_of_labels(table)
    items = [] if content is None else content.items
    facts = [[each.dtype, facts_of(each)] if type(each) is Column else [each] for each in items]
    if content is None or labels is None or any(each[-1] is None for each in facts):
        return fingerprint(table)
    return fingerprint([name_of(type(table)), facts, labels])
