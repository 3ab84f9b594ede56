"""What every plane has to do, of the one on NCCL with as many workers as machines have GPUs.

Coverage does not measure here: that takes longer than the tests, and `test_contract` runs the same lines.
"""

from __future__ import annotations

import pytest

from disco_magic.testing import PLANE_CHECKS

pytestmark = pytest.mark.unmeasured


@pytest.mark.parametrize("gpus", [None], ids=["prompt"], indirect=True)
@pytest.mark.parametrize("size", [5, 6, 7, 8])
@pytest.mark.parametrize("check", PLANE_CHECKS, ids=lambda check: check.__name__)
def test_the_nccl_plane_keeps_the_contract_on_many_gpus(check, size, keeps_the_contract):
    keeps_the_contract(check, size)
