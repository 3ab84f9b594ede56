"""A shell whose cells can be held up."""

from __future__ import annotations

import pytest


@pytest.fixture
def gated(four, gate):
    """A shell with four workers, and a register `gate` at which their cells stop until it is opened."""
    four.ip.user_ns["gate"] = gate
    four.run("%disco broadcast gate")
    return four
