"""Spares IPython what it takes long for in a traceback: the middle of recursions, a search for modules."""

from __future__ import annotations

import inspect
import os
import types
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from disco_magic.callers.tracebacks import steps_of, traceback_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_REPEATS: Final = 3  # calls from one line that are shown, and the last ones of all
_MANY: Final = 20  # so few more are shown, too


def chained(steps: Sequence[types.TracebackType]) -> types.TracebackType | None:
    """A traceback of these entries; None of none."""
    result: types.TracebackType | None = None
    for step in reversed(steps):
        result = types.TracebackType(result, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return result


def without_repeats(trace: types.TracebackType | None) -> tuple[types.TracebackType | None, int]:
    """`trace` without the middle of a recursion, and how many entries that were.

    In a kernel IPython 9.18 shows all thousand calls, and takes 17 s (two cores that others used, too).
    """
    steps = list(steps_of(trace))
    seen: Counter[tuple[types.CodeType, int]] = Counter()
    kept = []
    for index, step in enumerate(steps):
        seen[place := (step.tb_frame.f_code, step.tb_lineno)] += 1
        if seen[place] <= _REPEATS or index >= len(steps) - _REPEATS:
            kept.append(step)
    left_out = len(steps) - len(kept)
    return (trace, 0) if left_out < _MANY else (chained(kept), left_out)


@contextmanager
def without_repeats_before(error: BaseException) -> Iterator[int]:
    """In the ``with`` block, leave them out of what led to `error`, too; gives how many entries that were.

    IPython takes those tracebacks from the errors themselves.
    """
    whole = [(each, traceback_of(each)) for each in _led_to(error)]
    left_out = 0
    try:
        for each, trace in whole:
            shorter, count = without_repeats(trace)
            left_out += count
            # Not by assignment: an exception may be a frozen dataclass, which refuses it.
            BaseException.with_traceback(each, shorter)
        yield left_out
    finally:
        for each, trace in whole:
            BaseException.with_traceback(each, trace)


def _led_to(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that IPython shows before `error`."""
    seen = {id(error)}
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while before is not None and id(before) not in seen:
        seen.add(id(before))
        yield before
        before = before.__cause__ or (None if before.__suppress_context__ else before.__context__)


_NONE: Final = ""  # in `inspect.modulesbyfile`: no module has this name


@contextmanager
def moduleless(files: Iterable[str]) -> Iterator[None]:
    """In the ``with`` block, let `inspect.getmodule` return None for code of these files without a search.

    For each frame IPython asks `inspect` four times which module its code is from. That remembers the files
    of modules only, so it looks through all modules anew each time, and finds none for a cell: 2 ms per frame
    if 870 modules are imported (2 cores, CPython 3.11), and several times as many are where there is PyTorch.
    """
    known = inspect.modulesbyfile
    told = {name for file in files for name in _names_of(file)}.difference(known)
    known.update(dict.fromkeys(told, _NONE))
    try:
        yield
    finally:
        for name in told:
            known.pop(name, None)


def _names_of(file: str) -> tuple[str, ...]:
    try:
        return file, os.path.normcase(os.path.abspath(file))
    except FileNotFoundError:  # the current folder was deleted: `inspect` then gives up before it searches
        return (file,)
