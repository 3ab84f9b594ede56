"""Reads typed fields from JSON files of unknown origin; every error names the file and the place in it.

`where` is the beginning of an error's sentence: the file, and the record in it.
"""

from __future__ import annotations

import json
from typing import Any, cast

from disco_magic.errors import UsageMistake

Object = dict[str, Any]


def parse(text: str, where: str) -> Object:
    """Return the JSON object that `text` holds."""
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise UsageMistake(f"{where} is not valid JSON: it is nested too deeply") from None
    except ValueError as reason:
        raise UsageMistake(f"{where} is not valid JSON: {reason}") from None
    return _object(value, where)


def _once(pairs: list[tuple[str, Any]]) -> Object:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} is there twice")
    return made


def _object(value: object, where: str) -> Object:
    if not isinstance(value, dict):
        raise UsageMistake(f"{where} is {_name(value)}, expected a JSON object")
    return cast("Object", value)


def _name(value: object) -> str:
    return {list: "a list", str: "text", dict: "an object", type(None): "null"}.get(type(value), repr(value))


def _field(record: Object, key: str, where: str) -> Any:
    if key not in record:
        raise UsageMistake(f"{where}: {key!r} is missing; there are: {', '.join(record) or 'no fields'}")
    return record[key]


def string(record: Object, key: str, where: str) -> str:
    """Return a field that holds text."""
    value = _field(record, key, where)
    if not isinstance(value, str):
        raise UsageMistake(f"{where}: {key!r} is {_name(value)}, expected text")
    return value


def optional_string(record: Object, key: str, where: str) -> str | None:
    """Return a field that holds text; None if it is null or missing."""
    return None if record.get(key) is None else string(record, key, where)


def count(record: Object, key: str, where: str) -> int:
    """Return a field that holds a whole number of at least 0."""
    return whole(_field(record, key, where), f"{where}: {key!r}")


def whole(value: object, where: str) -> int:
    """Return `value`, checked to be a whole number of at least 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageMistake(f"{where} is {_name(value)}, expected a whole number of at least 0")
    return value


def counts(record: Object, key: str, where: str) -> tuple[int, ...]:
    """Return a field that holds a list of such numbers: a shape, offsets."""
    return wholes(_field(record, key, where), f"{where}: {key!r}")


def wholes(value: object, where: str) -> tuple[int, ...]:
    """Return `value`, checked to be a list of such numbers."""
    return tuple(whole(item, f"an entry of {where}") for item in items(value, where))


def items(value: object, where: str) -> list[Any]:
    """Return `value`, checked to be a list."""
    if not isinstance(value, list):
        raise UsageMistake(f"{where} is {_name(value)}, expected a list")
    return value


def objects(record: Object, key: str, where: str) -> list[Object]:
    """Return a field that holds a list of objects."""
    listed = items(_field(record, key, where), f"{where}: {key!r}")
    return [_object(item, f"{where}: an entry of {key!r}") for item in listed]


def object_in(record: Object, key: str, where: str) -> Object:
    """Return a field that holds an object."""
    return _object(_field(record, key, where), f"{where}: {key!r}")


def optional_object(record: Object, key: str, where: str) -> Object:
    """Return a field that holds an object; an empty one if the field is null or missing."""
    return {} if record.get(key) is None else object_in(record, key, where)
