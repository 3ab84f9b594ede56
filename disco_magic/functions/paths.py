"""A path that a caller has given, as text; refuses what is none."""

from __future__ import annotations

import os
import reprlib

from disco_magic.errors import UsageMistake


def path_text(what: str, path: object) -> str:
    """`path` as text; a `pathlib.Path` and the like say theirs.

    Args:
        what: what is done, for the message: ``a file is run``.
        path: what the caller gave.

    Raises:
        UsageMistake: it is neither text nor says any. Bytes are none: a path is joined to texts.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if isinstance(text, str):
        return text
    raise UsageMistake(f"{what} by its path, got {reprlib.repr(path)}")  # not all bytes of a file
