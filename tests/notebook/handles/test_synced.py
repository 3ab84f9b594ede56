"""``%disco sync`` raises what failed in cells that nobody has asked about."""

from __future__ import annotations

import pytest

import disco_magic as disco
from disco_magic.errors import CellError, WorkerError
from tests.conftest import until
from tests.notebook.handles.cells import SPIN

FAILS = "%%disco --nowait -o h\n1 / 0"


def ended(four, cell=FAILS):
    """A cell that has ended, and that has said so in its output."""
    four.run(cell)
    until(four.ip.user_ns["h"].done)
    four.run("1 + 1")


def test_what_has_failed_before_another_cell_is_raised_once(four):
    ended(four)
    four.run("%disco status")
    assert "ended, and nobody has asked how" in four.out
    assert "ZeroDivisionError" in str(four.fail("%disco sync", WorkerError))
    four.run("%disco sync\n%disco status")
    assert "nobody has asked how" not in four.out
    with pytest.raises(CellError, match="ZeroDivisionError"):
        four.ip.user_ns["h"].wait()


def test_all_of_them_are_told_of(four):
    ended(four)
    four.ip.user_ns["kept"] = four.ip.user_ns["h"]
    ended(four, "%%disco --nowait -o h -w 2\n{}['key']")
    later = disco.session().run_nowait("None + 1", workers=[3])
    said = str(four.fail("%disco sync", WorkerError))
    assert "ZeroDivisionError" in said
    assert "KeyError: 'key'" in said
    assert "TypeError: unsupported operand" in said
    assert later.done()


def test_who_has_asked_is_not_told_again(four):
    ended(four)
    with pytest.raises(CellError):
        four.ip.user_ns["h"].wait()
    four.run("%disco sync")


def test_what_was_stopped_is_not_raised(four):
    four.run(f"%%disco --nowait -o h\n{SPIN}")
    four.run("%disco interrupt\n%disco sync")
    assert four.ip.user_ns["h"].done()


def test_cells_of_another_session_are_not_its_business(four):
    ended(four)
    four.run("%disco stop\n%disco start -n 2\n%disco sync")
