"""What is said of a module that fails on a worker because another one has executed it, too."""

from __future__ import annotations

import re
from typing import Final

from disco_magic.phrases import words

# A text, which `re` compiles with the first such error: that takes as long as three of our files.
_TWICE: Final = (
    r"already|duplicat|\bregister\b|\bexists\b|twice|redefin|conflict|same name|multiple times|\bonce\b"
)
# These say what a module lacks, no matter who else has executed it.
_NEVER: Final = (AttributeError, ImportError, NameError, SyntaxError)
_HELP: Final = (
    "each worker imports {} for itself, and another one has; if it registers what a process has once, let "
    "all share their modules: --own-modules none, or own_modules=()"
)


def advise_sharing(error: BaseException, name: str) -> None:
    """Add a note to the `error` of module `name`, which others have executed, if it sounds like that."""
    if isinstance(error, _NEVER) or not isinstance(error, Exception):
        return
    said = error.strerror if isinstance(error, OSError) else words(error)  # without its file's name
    if type(said) is str and re.search(_TWICE, said, re.IGNORECASE):
        error.add_note(_HELP.format(name))
