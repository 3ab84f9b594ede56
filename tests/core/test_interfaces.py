"""What the contracts name is there, with the same parameters; that the types fit, mypy checks."""

from __future__ import annotations

import inspect

import pytest

from disco_magic.core.interfaces import Launcher, Plane
from disco_magic.launchers.threads import ThreadLauncher
from disco_magic.planes.nccl import NcclPlane
from disco_magic.planes.threads import ThreadPlane


@pytest.mark.parametrize(
    ("contract", "made"),
    [(Plane, ThreadPlane), (Plane, NcclPlane), (Launcher, ThreadLauncher)],
)
def test_every_method_of_a_contract_is_there_with_its_parameters(contract, made):
    methods = {name: method for name, method in vars(contract).items() if inspect.isfunction(method)}
    public = [name for name in methods if not name.startswith("_")]
    assert public
    for name in public:
        promised, there = (inspect.signature(getattr(each, name)).parameters for each in (contract, made))
        assert [*promised] == [*there][: len(promised)], name
        assert all(each.default is not each.empty for each in [*there.values()][len(promised) :]), name
