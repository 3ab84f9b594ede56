"""Stand-ins for modules of libraries, with their parents, in `sys.modules`."""

from __future__ import annotations

import sys
from types import ModuleType


def install(monkeypatch, name, **contents):
    """A module of that name with these contents."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        each = ".".join(parts[:count])
        monkeypatch.setitem(sys.modules, each, ModuleType(each))
    vars(sys.modules[name]).update(contents)
    return sys.modules[name]
