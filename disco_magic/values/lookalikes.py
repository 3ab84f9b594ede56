"""Why two values that look the same differ: digits that are not shown, what ``...`` leaves out, other types.

Runs in parallel with the workers, on their own values: no code of these is executed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize

from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.errors import NoPicture
from disco_magic.values.columns import alone, facts_of, texts_of
from disco_magic.values.content import kinds_of, tells_all
from disco_magic.values.described import short
from disco_magic.values.digests import digest_of
from disco_magic.values.distances import gap, most_of
from disco_magic.values.elements import elements_of
from disco_magic.values.fields import is_module, is_optimizer
from disco_magic.values.fingerprint import PLAIN_IDS, number_text
from disco_magic.values.frames import Column, is_frame, is_series
from disco_magic.values.inside import content_of, parts_of
from disco_magic.values.kinds import module_of, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from disco_magic.values.content import Content
    from disco_magic.values.elements import Elements


# At most so many numbers or texts of one value are sent to another worker for comparison.
MOST_ITEMS: Final = 1 << 16


def why_apart(first: Any, other: Any, whose: str) -> str:
    """Say how `other` differs from `first`, by the first of their parts that does.

    Returns:
        ``1 of 2 elements differs from worker 0's, by up to 1e-12``, after ``['w']:`` if that is a part. "" if
        nothing was found: it is in a set, in objects of a library, or between the elements compared.

    Cost: 20 ns per element of arrays up to the first that differs, 1 us of columns of texts; those with
    more than `distances.MOST_ELEMENTS` are sampled.
    """
    others = dict(parts_of("", other))
    for path, part in parts_of("", first):
        found = _apart(part, others[path], whose) if path in others else None
        if found is not None:
            place, said = found
            return f"{path}{place}: {said}" if path or place else said
    return ""


def tells_difference(value: Any) -> bool:
    """Whether a difference between workers should be shown for such a value even if its cause is unknown.

    So it is for models, tables, sets and objects of classes that cells define; not for figures and functions,
    which are each worker's own whatever they show.
    """
    kind = type(value)
    own = module_of(kind) == CELL_MODULE or is_module(kind) or is_optimizer(kind)
    return own or is_frame(kind) or is_series(kind) or kind in (set, frozenset)


def hidden_in(value: Any) -> list[str] | None:
    """Name the parts of a value, ``.log (StringIO)``, in which `why_apart` sees no difference; not itself.

    None if a difference should not be shown, see `tells_difference`.
    """
    if not tells_difference(value):
        return None
    return [
        f"{path} ({type_name(type(part))})" for path, part in parts_of("", value) if path and _hides(part)
    ]


def _hides(part: Any) -> bool:
    """Whether nothing is said of what is in a part: a set, an object of a library, an array of objects."""
    kind = type(part)
    if kind in (set, frozenset):
        return True
    if kind is Column or tells_all(kind) or content_of(part) is not None:
        return False
    elements = _elements(part)
    return elements is None or elements.name == "object"


def _apart(first: Any, other: Any, whose: str) -> tuple[str, str] | None:
    """Where in two parts they differ, and how; None if nothing was found."""
    kinds = type_name(type(first)), type_name(type(other))
    if kinds[0] != kinds[1]:
        return "", _both(*kinds, whose)
    contents = content_of(first), content_of(other)
    if contents[0] is not None and contents[1] is not None:
        return _of_containers(contents[0], contents[1], whose)
    if type(first) is str and seen(first) == seen(other):  # others are shown as they differ
        return "", _of_plain(first, other, whose)
    said = _of_arrays(_elements(first), _elements(other), whose)
    if not said and type(first) is Column:
        return _of_columns(first, other, whose)
    return ("", said) if said else None


def _of_arrays(first: Elements | None, other: Elements | None, whose: str) -> str:
    """How two arrays differ; "" if nothing was found, or one is None."""
    if first is None or other is None:
        return ""
    if (first.name, first.shape) != (other.name, other.shape):
        return _both(f"{first.name} {first.shape}", f"{other.name} {other.shape}", whose)
    try:
        samples = [each.sample(most_of(each.shape)) for each in (first, other)]
    except NoPicture:  # a sparse tensor, or one without data
        return ""
    # By digests, which leave out gaps in elements, whose bytes are arbitrary.
    if samples[0].dtype.hasobject or digest_of(samples[0]) == digest_of(samples[1]):
        return ""
    return gap(samples, first.shape, whose)


def _of_columns(first: Column, other: Column, whose: str) -> tuple[str, str] | None:
    """Compare columns of which no single array tells all: of texts, with missing values, of categories."""
    headers = f"{first.dtype} ({first.length},)", f"{other.dtype} ({other.length},)"
    if headers[0] != headers[1]:
        return "", _both(*headers, whose)
    most = most_of((first.length,))
    said = texts_apart(texts_in(first, most), texts_in(other, most), first.length, whose)
    return ("", said) if said else None


def texts_in(column: Column, most: int) -> list[str]:
    """At most so many elements of a column, as text; none of one that holds objects."""
    facts = facts_of(column, most)
    return texts_of(column, facts, most) if facts else []


def texts_apart(texts: list[str], mates: list[str], length: int, whose: str) -> str:
    """Like `why_apart`, for what `texts_in` returned for two columns of that length."""
    apart = [place for place, pair in enumerate(zip(texts, mates, strict=False)) if pair[0] != pair[1]]
    if not apart or len(texts) != len(mates):
        return ""
    place, count, sampled = apart[0], len(apart), len(texts) < length
    of = f"{count:,} of {len(texts):,}{' sampled' * sampled} elements differ{'s' * (count == 1)} from {whose}"
    where = "" if sampled else f", {'the first ' * (count > 1)}at [{place}]"
    return f"{of}{where}: {_of_texts(texts[place], mates[place], whose)}"


def _elements(value: Any) -> Elements | None:
    """The elements of `value`, or of the array that it holds; None if it has none."""
    with suppress(NoPicture):
        return elements_of(alone(facts_of(value)) if type(value) is Column else value)
    return None


def _of_containers(first: Content, other: Content, whose: str) -> tuple[str, str] | None:
    """Compare containers by their lengths, and by the numbers and texts in them."""
    if first.shape != other.shape:
        counts = len(first.items), len(other.items)
        if counts[0] != counts[1]:
            return "", _both(f"{counts[0]:,} items", f"{counts[1]:,} items", whose)
        return "", _both(f"shape {first.shape}", f"shape {other.shape}", whose)  # as tables
    for place, item, mate in _pairs(first, other):
        said = _of_plain(item, mate, whose)
        if said:
            return first.written(place), said
    return None


def _pairs(first: Content, other: Content) -> Iterator[tuple[Any, Any, Any]]:
    """Yield place, item and the other container's item, for all places that both have."""
    if first.places is None or other.places is None:
        return
    if first.in_order and other.in_order and first.places == other.places:
        yield from zip(first.places, first.items, other.items, strict=True)
    # Keys of other types may have a hash of their own.
    elif all(id(kind) in PLAIN_IDS for kind in kinds_of([*first.places, *other.places])):
        mates = dict(zip(other.places, other.items, strict=True))
        yield from (
            (place, item, mates[place])
            for place, item in zip(first.places, first.items, strict=True)
            if place in mates
        )


def seen(text: str) -> str:
    """What a reader sees of a text: an accent and its letter look the same as one character and as two."""
    return text if text.isascii() else normalize("NFC", text)


def numbers_in(value: Any) -> dict[str, Any]:
    """Path -> number or text, for those in a container or an object; empty if it has over 65,536 items."""
    content = content_of(value)
    if content is None or len(content.items) > MOST_ITEMS:
        return {}
    return {label: item for label, item in content.parts(plain=True) if tells_all(type(item))}


def numbers_apart(first: Mapping[str, Any], other: Mapping[str, Any], whose: str) -> str:
    """Like `why_apart`, for what `numbers_in` returned for two values."""
    apart = (
        f"{place}: {said}"
        for place, one in first.items()
        if place in other and (said := _of_plain(one, other[place], whose))
    )
    return next(apart, "")


def _code_points(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _both(one: str, another: str, whose: str) -> str:
    return f"{another}, {whose} is {one}"


def _of_plain(first: Any, other: Any, whose: str) -> str:
    """Compare two numbers or texts, Python's or NumPy's; derived classes may have their own repr."""
    kinds = type(first), type(other)
    if first is other or not all(map(tells_all, kinds)):
        return ""
    if kinds[0] is not kinds[1]:
        return _both(type_name(kinds[0]), type_name(kinds[1]), whose)
    if first == other and first != 0:  # equal at once; zeros may differ in sign
        return ""
    texts = number_text(first), number_text(other)
    return "" if texts[0] == texts[1] else _of_texts(*texts, whose)


def _of_texts(first: str, other: str, whose: str) -> str:
    """Say how two texts differ, in a line."""
    shown = short(first), short(other)
    if seen(shown[0]) != seen(shown[1]):
        return _both(*shown, whose)
    if shown[0] != shown[1]:
        return _both(_code_points(shown[0]), _code_points(shown[1]), whose)
    place = next((n for n, pair in enumerate(zip(first, other, strict=False)) if pair[0] != pair[1]), 0)
    return f"they differ from character {place + 1:,} on"
