"""What every plane has to do, of the one on NCCL."""

from __future__ import annotations

import pytest

from disco_magic.testing import PLANE_CHECKS


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("check", PLANE_CHECKS, ids=lambda check: check.__name__)
def test_the_nccl_plane_keeps_the_contract(check, size, keeps_the_contract):
    keeps_the_contract(check, size)
