"""What is installed on this machine, found out without importing or loading any of it.

Importing an optional package only to see whether it is there takes seconds, starts a driver or an MPI
runtime, fails where it is broken, and decides which of several NCCLs or MPIs this process is bound to. So
packages are found as the import system finds them, their versions are read from their metadata, and shared
libraries are looked for where the dynamic loader looks. What is found may still turn out broken in use.

A question takes a few milliseconds at most; none raises for what is missing or cannot be read.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import site
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DEV = Path("/dev")
_DRIVER = Path("/proc/driver/nvidia/version")
_LOADER_CACHE = Path("/etc/ld.so.cache")
# Where loaders without a cache look: musl's, and that of macOS with Homebrew's additions.
_FOLDERS = tuple(Path(name) for name in ("/lib", "/usr/lib", "/usr/local/lib", "/opt/homebrew/lib"))


def has_package(name: str) -> bool:
    """Whether ``import name`` would find a package or module with code; it may still fail."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a finder that refuses the name; a module made by hand
        return False
    # A folder without code, such as the rest of an uninstalled package, has no origin.
    return spec is not None and spec.origin is not None


def first_of(*distributions: str) -> str | None:
    """The first of `distributions`, named as pip names them, that is installed."""
    for name in distributions:
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        except ValueError:
            pass  # it is there; since Python 3.15 its metadata is read here, and is no text
        return name
    return None


def version_of(*distributions: str) -> str | None:
    """The version of the first of `distributions` that is installed; None if none is, or if it has none."""
    name = first_of(*distributions)
    if name is None:
        return None
    try:
        # `importlib.metadata.version` warns, and will raise, if the metadata has no version.
        versions = importlib.metadata.metadata(name).get_all("Version")
    except (OSError, ValueError):  # missing, or not text
        return None
    return versions[0] if versions else None


def find_library(*names: str, also: Iterable[Path] = ()) -> Path | None:
    """The first shared library of those file names, where the dynamic loader and Python's packages put them.

    Args:
        names: complete file names, ``libmpi.so.12``, the preferred one first.
        also: folders to look into before all others.
    """
    folders = [*also, *paths_in("LD_LIBRARY_PATH")]
    # Wheels of MPI, and conda, install their libraries next to Python.
    user = site.USER_BASE if site.ENABLE_USER_SITE else None
    folders += [Path(prefix, "lib") for prefix in (sys.prefix, user, sys.base_prefix) if prefix]
    for name in names:
        for path in (*(folder / name for folder in folders), *_known_to_loader(name)):
            if is_file(path):
                return path
    return None


def _known_to_loader(name: str) -> Iterator[Path]:
    """The paths of a library in the loader's cache, or in its usual folders if it has no cache.

    `ctypes.util.find_library` would start a process to find out.
    """
    try:
        content = _LOADER_CACHE.read_bytes()
    except OSError:
        yield from (folder / name for folder in _FOLDERS)
        return
    # The cache contains the paths as they are, each ended by a zero byte.
    for found in re.findall(rb"/[^\0]*/" + re.escape(name.encode()) + rb"(?=\0)", content):
        yield Path(os.fsdecode(found))


def library_version(path: Path) -> str | None:
    """``2.27.7`` for a link to ``libnccl.so.2.27.7``; None if the file's name has no such number."""
    found = re.search(r"\.so\.(\d+(?:\.\d+)+)$", os.path.realpath(path))
    return found[1] if found else None


def paths_in(variable: str) -> list[Path]:
    """The paths in an environment variable like PATH; none if it is not set."""
    return [Path(entry) for entry in os.environ.get(variable, "").split(os.pathsep) if entry]


def is_file(path: Path) -> bool:
    """Whether the path is a file; False if its folder must not be read."""
    try:
        return path.is_file()
    except OSError:
        return False


def visible_gpus() -> int:
    """How many NVIDIA GPUs CUDA would show: their device files, as CUDA_VISIBLE_DEVICES restricts them.

    CUDA itself is not asked: that starts the driver, which takes up to seconds, and then the process can no
    longer fork. CUDA's rule for the variable: entries count up to the first that does not exist; those that
    name a GPU by its UUID are assumed to exist.
    """
    try:
        names = os.listdir(_DEV)
    except OSError:
        return 0
    count = sum(name.startswith("nvidia") and name[len("nvidia") :].isdecimal() for name in names)
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return count
    known = set(map(str, range(count)))
    entries = [entry.strip() for entry in chosen.split(",")]
    valid = [entry in known or entry.startswith(("GPU-", "MIG-")) for entry in entries]
    return min(count, valid.index(False) if False in valid else len(valid))


def nvidia_driver() -> int | None:
    """The major version of the loaded NVIDIA driver, such as 580; None if there is none."""
    try:
        found = re.search(r"\s(\d{3,})\.\d+", _DRIVER.read_text(errors="replace"))
    except OSError:
        return None
    return int(found[1]) if found else None
