"""Optimizers of PyTorch, on stand-ins with the attributes that they have."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from disco_magic.values.describe import describe
from disco_magic.values.divergence import survey
from disco_magic.values.inside import content_of, parts_of
from disco_magic.values.lookalikes import tells_difference
from disco_magic.values.parts import part_at

Base = type("Optimizer", (), {"__module__": "torch.optim.optimizer"})


class Adam(Base):
    def __init__(self, *groups):
        self.defaults = {"lr": 0.1}
        self.state = defaultdict(dict)
        self.param_groups = [{"params": list(group), "lr": 0.1, "betas": (0.9, 0.999)} for group in groups]

    def __getattr__(self, name):
        raise AssertionError("no code of it is to run")


@pytest.fixture
def adam():
    made = Adam([Parameter(), Parameter()], [Parameter()])
    _first, second, third = (parameter for group in made.param_groups for parameter in group["params"])
    made.state[third] = {"step": 3, "average": np.ones(2)}
    made.state[second] = {"step": 3, "average": np.zeros(2)}
    made.state[Parameter()] = {"step": 9}  # of none that it has
    return made


class Parameter:
    def __eq__(self, other):
        raise AssertionError("no code of it is to run")

    __hash__ = object.__hash__


def test_its_parts_are_those_of_its_state_dict(adam):
    paths = [path for path, _ in parts_of("opt", adam)]
    assert "opt.state[1]['average']" in paths
    assert "opt.state[2]['average']" in paths
    assert not any("state[0]" in path or "state[3]" in path for path in paths)
    assert [part_at(adam, f".param_groups[{n}]['params']") for n in range(2)] == [[0, 1], [2]]
    assert part_at(adam, ".state[2]['average']").tolist() == [1, 1]
    assert part_at(adam, ".param_groups[1]['lr']") == 0.1
    assert tells_difference(adam)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda adam, third: adam.state[third]["average"].__iadd__(1), "opt.state[2]['average']"),
        (lambda adam, third: adam.state[third].update(step=4), "opt.state[2]"),
        (lambda adam, third: adam.param_groups[1].update(lr=0.2), "opt.param_groups[1]"),
    ],
)
def test_what_has_drifted_is_found(adam, change, path):
    def digests():
        return {path: held.digest for path, held in survey("opt", adam, values=True)}

    before, told = digests(), describe(adam).fingerprint
    assert b"" not in before.values()
    change(adam, adam.param_groups[1]["params"][0])
    after = digests()
    assert [each for each in before if before[each] != after[each]] == [path]
    assert describe(adam).fingerprint != told


def test_one_that_keeps_its_state_in_another_way_is_left_alone(adam):
    adam.param_groups[0].pop("params")
    assert content_of(adam) is None
    adam.state = None
    assert content_of(adam) is None
    assert content_of(Base()) is None
    assert describe(adam).type == "Adam"


def test_which_parameters_it_has_and_what_is_of_all_of_them_is_compared(adam):
    first, second = Adam([Parameter()], [Parameter()]), Adam([Parameter()], [])
    assert dict(survey("opt", first, values=True)) != dict(survey("opt", second, values=True))
    before = dict(survey("opt", adam, values=True))["opt.state"]
    adam.state["step"] = 4
    assert part_at(adam, ".state['step']") == 4
    assert dict(survey("opt", adam, values=True))["opt.state"] != before
