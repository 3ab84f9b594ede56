"""Which files belong to libraries: Python's own, installed packages', ours; all others are the user's."""

from __future__ import annotations

import glob
import os
import site
import sys
import sysconfig
from contextlib import suppress
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


# Folders of the import path that were read. Installing something there takes a restart to be noticed.
_read: Final[set[str]] = set()
# Those into which pip has installed something, as with --target, and the names of its packages and modules.
_targets: Final[list[tuple[str, frozenset[str]]]] = []


def is_of_library(filename: str) -> bool:
    """Whether code of that file was not written by the user, as far as can be told. Takes 0.2 us.

    It reads no files: also threads that decide about interrupts ask. See `read_import_path`.
    """
    # What Cython has compiled has names without a folder: ``pandas/_libs/index.pyx``.
    return (
        filename.startswith(_folders())
        or filename.endswith(_OF_CYTHON)
        or (bool(_targets) and _is_installed_elsewhere(filename))
    )


def read_import_path() -> None:
    """Note what was installed into folders of the caller's import path; to be called as modules are imported.

    Takes 1 us if there is no new folder.
    """
    _folders()  # this imports a module, the first time
    for folder in list(sys.path):
        if isinstance(folder, str) and folder not in _read:
            names = _names_in(folder)
            if names:
                _targets.append((os.path.join(folder, ""), names))
            _read.add(folder)


def _is_installed_elsewhere(filename: str) -> bool:
    for inside, names in _targets:
        if filename.startswith(inside):
            first, *inner = filename[len(inside) :].split(os.sep)
            if (first if inner else first.partition(".")[0]) in names:
                return True
    return False


def _names_in(folder: str) -> frozenset[str]:
    """What was installed into a folder; not what is only built there, as by ``setup.py develop``.

    A project has a ``name.egg-info`` beside its packages, too, but no list of files that were copied there.
    """
    if not os.path.isabs(folder) or os.path.join(folder, "").startswith(_folders()):
        return frozenset()
    found = set[str]()
    for kind, files in (("dist-info", "RECORD"), ("egg-info", "installed-files.txt")):
        for record in glob.glob(os.path.join(glob.escape(folder), f"*.{kind}", files)):
            with suppress(OSError, UnicodeError):
                found |= _names_of(os.path.dirname(record), record)
    return frozenset(found)


def _names_of(about: str, record: str) -> set[str]:
    """The names of one distribution; from the short list, where it has one."""
    listed = os.path.join(about, "top_level.txt")
    if os.path.isfile(listed):
        with open(listed, encoding="utf-8") as file:
            return set(file.read().split())
    with open(record, encoding="utf-8") as file:
        paths = [line.partition(",")[0].strip('"').split("/") for line in file]
    return {first if inner else first.partition(".")[0] for first, *inner in paths} - {"..", "bin"}
