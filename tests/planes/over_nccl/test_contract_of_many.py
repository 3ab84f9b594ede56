"""What every plane has to do, of the one on NCCL with as many workers as machines have GPUs.

Coverage does not measure here: that takes longer than the tests, and `test_contract` runs the same lines.
"""

from __future__ import annotations

import pytest

from disco_magic.testing import PLANE_CHECKS
from tests.sampled import in_turn

pytestmark = pytest.mark.unmeasured

# Each check has met three workers already: what more of them change is no matter of the check.
CASES = [
    pytest.param(check, size, id=f"{check.__name__}-{size}")
    for check, size in in_turn(PLANE_CHECKS, (4, 5, 6, 7, 8))
]


@pytest.mark.parametrize("gpus", [None], ids=["prompt"], indirect=True)
@pytest.mark.parametrize(("check", "size"), CASES)
def test_the_nccl_plane_keeps_the_contract_on_many_gpus(check, size, keeps_the_contract):
    keeps_the_contract(check, size)
