"""What tab completion offers."""

from __future__ import annotations

from functools import partial

import pytest
from IPython.core.completer import provisionalcompleter, rectify_completions

from disco_magic.notebook.completing import jedi, on_worker
from tests.conftest import DEADLINE_S


def offers(shell, cell, at=None):
    """Texts that are offered at the end of a cell, or at a place in it, and what each is said to be."""
    at = len(cell) if at is None else at
    with provisionalcompleter():
        found = list(rectify_completions(cell, shell.ip.Completer.completions(cell, at)))
    return {cell[: each.start].rpartition("\n")[2] + each.text: each.type for each in found}


@pytest.fixture
def offered(bare, monkeypatch):
    """What is offered at the end of a cell, or at a place in it, with types however long these take."""
    for module in (jedi, on_worker):
        monkeypatch.setattr(module, "TYPES_FOR_S", DEADLINE_S)
    bare.ip.Completer.jedi_compute_type_timeout = 1000 * DEADLINE_S
    return partial(offers, bare)


@pytest.fixture(params=[False, True], ids=["without Jedi", "with Jedi"])
def either(offered, shell, request):
    """`offered`, with and without Jedi."""
    shell.ip.Completer.use_jedi = request.param
    return offered


MODEL = """%%disco
class Model:
    def __init__(self):
        self.weight = np.ones((2, 2))
    def forward(self, inputs, scale=2):
        return inputs
def double(value, times=2):
    return value * times
model, table, array = Model(), {"alpha": 1, "beta": {"gamma": 2}}, np.ones(3)
"""
