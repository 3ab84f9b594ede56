"""Which files belong to libraries: Python's own, installed packages', ours; all others are the user's."""

from __future__ import annotations

import os
import site
import sysconfig
from functools import lru_cache
from typing import Final

OURS: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of this package."""


_OF_CYTHON: Final = (".pyx", ".pxi", ".pxd")


@lru_cache(maxsize=1)
def _folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    known = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    known += [*site.getsitepackages(), site.getusersitepackages()]
    return (*(f"{os.path.abspath(folder)}{os.sep}" for folder in known), OURS)


def is_of_library(filename: str) -> bool:
    """Whether code of that file was not written by the user, as far as can be told."""
    # What Cython has compiled has names without a folder: ``pandas/_libs/index.pyx``.
    return filename.startswith(_folders()) or filename.endswith(_OF_CYTHON)
