"""What stands for the module in which CuPy keeps a random state for each GPU."""

from __future__ import annotations

import sys
from types import ModuleType

_CODE = """
class RandomState:
    def __init__(self): self.seeds = []
    def seed(self, seed): self.seeds.append(seed)

_random_states = {}

def get_random_state():
    found = _random_states.get(0, None)
    if found is None:
        found = _random_states.setdefault(0, RandomState())
    return found

def set_random_state(state):
    _random_states[0] = state

def reset_states():
    global _random_states
    _random_states = {}

def seed(seed):
    get_random_state().seed(seed)
"""


def stand_in(monkeypatch):
    """Put it where `import` finds it; returns it. It keeps states as CuPy 14 does."""
    for name in ("cupy", "cupy.random", "cupy.random._generator"):
        module = ModuleType(name)
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["cupy.random"]._generator = module
    sys.modules["cupy"].random = sys.modules["cupy.random"]
    exec(_CODE, vars(module))
    return module
