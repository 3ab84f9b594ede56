"""Which of the imported modules a worker is to import for itself."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType

from disco_magic.isolation import own_imports
from disco_magic.isolation.own_modules import Importer


class Asked(Importer):
    """An importer that notes for which modules it is asked."""

    def owns(self, name):
        self.names.append(name)
        return super().owns(name)


def test_of_all_modules_of_a_library_it_is_found_out_once_whose_they_are(monkeypatch):
    # For each of them it was: a worker's start took a quarter of a second beside 4000 modules.
    for name in ("a_library", *(f"a_library.part_{number}" for number in range(50))):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, SourceFileLoader(name, "/nowhere.py"), origin="/nowhere.py")
        monkeypatch.setitem(sys.modules, name, module)
    importer = Asked("worker 0", ("mine",), own_imports._FINDER)
    importer.names = []
    own_imports._stand_for(importer)
    assert sum(name.startswith("a_library") for name in importer.names) == 1
