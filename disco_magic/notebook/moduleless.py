"""Tells `inspect` that files belong to no module, while IPython formats a traceback with frames of cells.

For each frame IPython asks `inspect` four times which module its code is from. That remembers the files of
modules only, so it looks through all modules anew each time, and finds none for a cell: 2 ms per frame if 870
modules are imported (2 cores, CPython 3.11), and several times as many are where there is PyTorch.
"""

from __future__ import annotations

import inspect
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NONE: Final = ""  # in `inspect.modulesbyfile`: no module has this name


@contextmanager
def moduleless(files: Iterable[str]) -> Iterator[None]:
    """In the ``with`` block, let `inspect.getmodule` return None for code of these files without a search."""
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
