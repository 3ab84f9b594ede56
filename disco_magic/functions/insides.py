"""All that is in a value, part by part, for a table: the weights of a model, what a dict or object holds."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from disco_magic.functions.describe import describe_all
from disco_magic.functions.divergence import parts_of
from disco_magic.functions.inside import content_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.core.snapshot import RegisterInfo

MOST: Final = 1000
"""Parts of a value that are listed."""


def describe_inside(value: Any, sample: int) -> list[tuple[str, RegisterInfo]]:
    """What is in a value: how each part is written behind its name, and what `describe` says of it.

    Arrays, and objects that are not looked into; numbers and texts of dicts and objects; lists of numbers as
    one. In the value's order, 1,000 at most. Nothing of what has no parts.
    """
    found = list(islice(_leaves(value), MOST))
    return list(
        zip(
            [path for path, _ in found],
            describe_all([part for _, part in found], sample),
            strict=True,
        )
    )


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    for path, part in parts_of("", value):
        content = content_of(part)
        if content is None or content.places is None or (content.is_plain and _is_series(part)):
            if path:
                yield path, part
        else:
            yield from ((f"{path}{label}", item) for label, item in content.parts(plain=True))


def _is_series(value: Any) -> bool:
    """Whether items of it have numbers, not names: it is shown as one."""
    return type(value) is list or type(value) is tuple
