"""Cells that fail, and the reports of those in which a check has found a difference."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, Divergence


def failed(session, cell):
    """Worker -> error of a cell that fails."""
    with pytest.raises(CellError) as caught:
        session.run(cell)
    return {worker: failure.exception for worker, failure in caught.value.failures.items()}


def reports(session, cell):
    """The reports of a cell in which something differs, each once."""
    errors = failed(session, cell)
    assert {type(error) for error in errors.values()} == {Divergence}
    return list({str(error.report): error.report for error in errors.values()}.values())


def report(session, cell):
    (one,) = reports(session, cell)
    return one
