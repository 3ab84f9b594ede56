"""What every plane has to do, of the one on NCCL."""

from __future__ import annotations

import pytest

from disco_magic.testing import PLANE_CHECKS
from tests.sampled import EVERY_CASE

# With streams that are late at random one size will do: one that is odd, with peers of a peer.
SCENES = [
    *(pytest.param(None, size, id=f"prompt-{size}") for size in ((1, 2) if EVERY_CASE else (1,))),
    pytest.param(7, 3, id="lagging-3"),
]


@pytest.mark.parametrize(("gpus", "size"), SCENES, indirect=["gpus"])
@pytest.mark.parametrize("check", PLANE_CHECKS, ids=lambda check: check.__name__)
def test_the_nccl_plane_keeps_the_contract(check, size, keeps_the_contract):
    keeps_the_contract(check, size)
