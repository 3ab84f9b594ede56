"""What the tests of Disco's surface share. They use public names only, as one who comes from Disco would.

The names of the tests are the names of the rows in `docs/disco.md`, and a test keeps the two together.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import disco_magic as disco

# Workers and groups: 2 groups of 2, 2 groups of 3, 3 groups of 2.
groupings = pytest.mark.parametrize(("n", "groups"), [(4, 2), (6, 2), (6, 3)])
both_ways = pytest.mark.parametrize("in_group", [True, False], ids=["group", "all"])


@pytest.fixture(autouse=True)
def nothing_stays_imported():
    """Modules that a test gave to workers by path do not outlive it; theirs are names nobody else has."""
    yield
    for name in [name for name in sys.modules if name.startswith("_disco_")]:
        del sys.modules[name]


def who():
    return disco.worker().id


def give(*args, **kwargs):
    return args, kwargs


def fail_on(worker):
    if who() == worker:
        raise ValueError("boom")
    return "fine"


def members(worker, n, groups, in_group=True):
    """Ids of those who take part in a collective with `worker`: its group of neighbours, or all."""
    size = n // groups if in_group else n
    first = worker // size * size
    return range(first, first + size)


def position(s):
    """How many commands were sent, and the register that the next result takes.

    The number of commands is the one thing in these tests that Disco does not show.
    """
    s.sync_all()
    sent = s.ledger.seq
    return sent, s.call_packed(who).register


def unchanged_by(s, refused):
    """Whether `refused`, which raises, sent nothing and kept no register."""
    sent, register = position(s)
    refused()
    return s.ledger.seq == sent + 1 and s.call_packed(who).register == register


def usable(s):
    """Whether every worker still executes commands, and all of them a collective."""
    everybody = list(range(s.num_workers))
    total = s.allreduce(s.call_packed(np.float64, 1.0), in_group=False).get_all()
    return s.call_packed(who).get_all() == everybody and total == [s.num_workers] * s.num_workers
