from __future__ import annotations

import functools
from itertools import product

import pytest

from disco_magic.planes.plans import FoldPlan
from disco_magic.planes.small import plan_of
from disco_magic.planes.threads import ThreadPlane
from disco_magic.testing import PLANE_CHECKS, check_plane
from disco_magic.testing.plane_conduct import close_ends_everything_twice, disagreement_raises_on_every_member
from disco_magic.testing.plane_values import (
    members_get_the_same_bits,
    reductions_agree_with_numpy,
    the_giver_s_library_is_told,
)


@pytest.mark.parametrize(("plan", "size"), [*product([plan_of], [1, 2, 3]), *product([FoldPlan], [1, 3, 4])])
@pytest.mark.parametrize("check", PLANE_CHECKS, ids=lambda check: check.__name__)
def test_the_thread_plane_keeps_the_contract_for_small_arrays_as_for_large_ones(plan, check, size, make, run):
    check_plane(functools.partial(make, plan=plan), run, sizes=[size], checks=[check])


class OffByOne(ThreadPlane):
    """Gives worker 1 another result than the others."""

    def allreduce(self, seat, x, op, out):
        return super().allreduce(seat, x, op, out) + type(x.flat[0])(seat.worker == 1)


class Deaf(ThreadPlane):
    """Raises something of its own instead of PlaneMismatch."""

    def allreduce(self, seat, x, op, out):
        raise ValueError("lost")


class Forgetful(ThreadPlane):
    """Tells everybody that what came was brought by itself."""

    def library_of(self, worker):
        return f"library {worker}"


class NeverCloses(ThreadPlane):
    """Forgets that it was closed."""

    def close(self):
        self._board.abort(1, "closed")


@pytest.mark.parametrize(
    ("plane", "check", "text"),
    [
        (OffByOne, reductions_agree_with_numpy, "allreduce sum of bool on worker 1"),
        (OffByOne, members_get_the_same_bits, "worker 1 got other bits for length 1"),
        (Forgetful, the_giver_s_library_is_told, r"worker 0 was told \['library 0', 'library 0'"),
        (Deaf, disagreement_raises_on_every_member, "worker 0 raised ValueError: lost"),
        (NeverCloses, close_ends_everything_twice, "worker 0: expected PlaneAborted, got"),
    ],
)
def test_a_plane_that_breaks_the_contract_is_found_out(plane, check, text, run):
    with pytest.raises(AssertionError, match=text) as raised:
        check_plane(plane, run, sizes=[2], checks=[check])
    assert raised.value.__notes__ == [f"{check.__name__}, 2 workers: {check.__doc__}"]
