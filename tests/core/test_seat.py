"""A seat: who makes a plane call, with whom."""

from __future__ import annotations

import pytest

from disco_magic.core.seat import Seat


@pytest.mark.parametrize(("worker", "members", "rank"), [(0, (0,), 0), (5, (4, 5, 6), 1), (6, (4, 5, 6), 2)])
def test_the_rank_is_the_position_among_the_members(worker, members, rank):
    assert Seat(worker, members, 1).rank == rank
