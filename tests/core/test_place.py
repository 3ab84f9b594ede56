"""A place: what a worker needs of where it computes."""

from __future__ import annotations

import pytest

from disco_magic.core.place import Place
from disco_magic.functions.places import HOST_PLACE

NAMES = [name for name in vars(Place) if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_the_host_has_all_that_a_worker_may_call(name):
    assert callable(getattr(HOST_PLACE, name))


def test_the_contract_is_no_empty_one():
    assert {"enter", "finish", "empty", "adopt", "take", "copy"} <= set(NAMES)
