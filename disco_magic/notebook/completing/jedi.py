"""Completions by Jedi: names that the cell binds above the cursor, and their types, without executing it.

Jedi gets stand-ins for the registers, not the values. It would read attributes of the values, which may
compute them, and its objects, which refer to each other, would keep the values until a garbage collection.
"""

from __future__ import annotations

import gc
import importlib
import logging
import pickle
import re
import sys
import time
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

from disco_magic.notebook.completing.offer import UNKNOWN, Offer
from disco_magic.threads.locks import new_lock
from disco_magic.values.members import Member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco_magic.notebook.completing.offer import Request

_UNSAFE: Final = "allow_unsafe_interpreter_executions"
TYPES_FOR_S: Final = 0.04
"""Seconds for finding the types of all offers together; IPython gives Jedi ten times as much."""

# Jedi caches parsed code in files shared by all processes, and fails on one that another process is writing.
_HALF_WRITTEN: Final = (EOFError, pickle.UnpicklingError)
_READ_AGAIN_S: Final = 0.5  # a file that is still broken then was left by a process that was killed

# A name, or one of an argument; not files and keys, which IPython completes better.
_TYPED: Final = re.compile(r"[\w.]+=?")
_EMPTY: Final[tuple[Any, ...]] = (0, 0.0, 0j, "", b"", [], (), {}, set(), frozenset(), None, False)
_lock = new_lock()


@cache
def is_there() -> bool:
    """Whether Jedi is installed, in a version that can be told not to run code of the objects it sees."""
    try:
        settings = _jedi().settings
    except ImportError:
        return False
    # The same settings as IPython's.
    settings.case_insensitive_completion = False
    logging.getLogger("parso").setLevel(logging.WARNING)
    return hasattr(settings, _UNSAFE)


def _jedi() -> Any:
    return importlib.import_module("jedi")  # has no types


def jedi_offers(bound: dict[str, Any], behind: dict[str, Any], request: Request) -> list[Offer]:
    """The completions of Jedi: names and attributes, not keys and files."""
    until = time.monotonic() + _READ_AGAIN_S
    while True:
        with _Seen(bound, dict(behind), request) as cell, suppress(*_HALF_WRITTEN):  # it empties the dict
            return cell.offers()
        if time.monotonic() > until:
            return []


class _Seen:
    """A cell as Jedi sees it; a context manager, which makes Jedi release its objects at the end."""

    def __init__(self, bound: dict[str, Any], behind: dict[str, Any], request: Request) -> None:
        self._names = [{name: _shadow(value) for name, value in bound.items()}, behind]
        self._request = request
        self._interpreter: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for names in self._interpreter.namespaces:
                names.clear()
            # Functions and modules, which refer to much else.
            for handle in self._interpreter._inference_state.compiled_subprocess._handles.values():  # noqa: SLF001 - see above
                handle.access._obj = None  # noqa: SLF001 - as above
        except AttributeError:  # another version of Jedi, or it failed at once
            gc.collect()

    def offers(self) -> list[Offer]:
        """The completions of Jedi."""
        settings = self._request.settings
        omit = settings.omit__names if self._request.line.endswith(".") else 0
        found = self._completed()
        until = time.monotonic() + min(settings.jedi_compute_type_timeout / 1000, TYPES_FOR_S)
        return [
            self._offer(each, until)
            for each in found
            if _TYPED.fullmatch(each.name_with_symbols) and not _omitted(each.name, omit)
        ]

    def _completed(self) -> list[Any]:
        jedi, text = _jedi(), self._request.text[: self._request.offset]
        try:
            with _cautious(jedi.settings):
                self._interpreter = jedi.Interpreter(text, self._names)
            return list(self._interpreter.complete())
        except _HALF_WRITTEN:
            raise
        except Exception:  # noqa: BLE001 - Jedi fails on some code; IPython then does without it, too
            return []

    def _offer(self, completion: Any, until: float) -> Offer:
        text, end = completion.name_with_symbols, self._request.offset
        start = end - (len(text) - len(completion.complete))
        if time.monotonic() > until:
            return Offer(start, end, text)
        try:
            kind = completion.type
            return Offer(start, end, text, kind, _signature(completion) if kind == "function" else "")
        except Exception:  # noqa: BLE001 - as above
            return Offer(start, end, text, UNKNOWN)


@contextmanager
def _cautious(settings: Any) -> Iterator[None]:
    """In this block, make an interpreter with safe settings, which it keeps; by default properties run."""
    with _lock:
        before = getattr(settings, _UNSAFE)
        setattr(settings, _UNSAFE, False)
        try:
            yield
        finally:
            setattr(settings, _UNSAFE, before)


class _Shadow:
    """Stand-in for an object of which only the name is known."""


_SHADOW: Final = _Shadow()
_BY_KIND: Final[dict[type, Any]] = {type(each): each for each in _EMPTY}


def _shadow(value: Any) -> Any:
    """Functions, classes and modules as they are; for common types an empty value; else a stand-in."""
    kind = type(value)
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        return numpy.empty(0, value.dtype)
    return value if kind is not property and Member(value).is_definition else _SHADOW


def _omitted(name: str, omit: int) -> bool:
    return name.startswith("_") and (omit == 2 or (omit == 1 and name[:2] == "__" == name[-2:]))


def _signature(completion: Any) -> str:
    found = completion.get_signatures()
    return f"({', '.join(param.to_string() for param in found[0].params)})" if found else ""
