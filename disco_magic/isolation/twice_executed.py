"""Hints for modules that fail because they are executed once for each worker, not once for all."""

from __future__ import annotations

import os
import re
import traceback
from typing import Final

from disco_magic.libraries import OURS, is_of_library
from disco_magic.phrases import words

_HELP: Final = (
    "each worker imports {} for itself, and another one has; if it registers what a process has once, let "
    "all share their modules: --own-modules none, or own_modules=()"
)
_TWICE: Final = re.compile(
    r"already|duplicat|(?<!not )(?<!not been )(?<!never )\bregister|\bexists\b|twice|redefin|conflict"
    r"|same name|multiple times|more than once|only once",
    re.IGNORECASE,
)
# These say what the module itself lacks, no matter who else has executed it.
_NEVER: Final = (AttributeError, ImportError, NameError, SyntaxError)
_PACKAGES: Final = {"site-packages", "dist-packages"}


def tell_what_helps(error: BaseException, name: str) -> None:
    """Add a note to the error if a module may have failed because another worker has it of its own, too."""
    if can_be_of_twice(error):
        error.add_note(_HELP.format(name))


def can_be_of_twice(error: BaseException) -> bool:
    """Whether a second execution can be the cause: the text says so, or an installed package raised it."""
    if isinstance(error, _NEVER) or not isinstance(error, Exception):
        return False
    if isinstance(error, OSError):  # without its file's name
        return type(error.strerror) is str and _TWICE.search(error.strerror) is not None
    return _TWICE.search(words(error)) is not None or _is_installed(_file_of(error))


def _file_of(error: BaseException) -> str:
    """Return the file of the frame that raised the error."""
    steps = list(traceback.walk_tb(error.__traceback__))
    return steps[-1][0].f_code.co_filename if steps else ""


def _is_installed(file: str) -> bool:
    """Whether an installed package has that file. Python's own modules with registers say so in the error."""
    is_package = not _PACKAGES.isdisjoint(file.split(os.sep))
    return is_package and is_of_library(file) and not file.startswith(OURS)
