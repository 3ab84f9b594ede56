"""Hundreds of SIGINTs at random moments, each kind of work in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.session.storms import ACTS

ROOT = Path(__file__).parents[2]
QUICK = 100
SLOW = 30  # of cells that compute, beside which an interrupt takes 50 ms
SHOTS = {"cells": QUICK, "calls": QUICK, "asynchronous_cells": QUICK, "syncs": QUICK}


@pytest.mark.parametrize("act", ACTS)
def test_interrupts_at_random_moments_leave_a_session_that_works(act):
    storm = [sys.executable, "-m", "tests.session.storms", act, str(SHOTS.get(act, SLOW))]
    ended = subprocess.run(  # noqa: S603 - this interpreter, our own module
        storm, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "nothing was lost\n", ""), ended.stderr
