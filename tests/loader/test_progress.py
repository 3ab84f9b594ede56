"""What a waiting person sees of a load, and when."""

from __future__ import annotations

import copy
import sys

import pytest

from disco_magic.loader import progress
from disco_magic.loader.progress import Tally, Watch
from tests.doubles.scripted import JumpingClock


@pytest.fixture
def no_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


class ScriptedBar:
    """Stands in for `tqdm.tqdm`."""

    def __init__(self, **options):
        self.options, self.n, self.closed = options, 0, False
        ScriptedBar.last = self

    def update(self, count):
        self.n += count

    def close(self):
        self.closed = True


# --- the counter -----------------------------------------------------------------------------------


def test_a_tally_adds_up_what_workers_say():
    tally = Tally(3)
    tally.add(0, 5)
    tally.add(2, 7)
    tally.add(0, 1)
    assert (tally.done, tally.stopped) == (13, False)
    tally.stop()
    assert (tally.done, tally.stopped) == (13, True)


def test_a_copy_of_a_tally_is_the_tally():
    tally = Tally(1)
    assert copy.deepcopy(tally) is tally


# --- when something is shown -----------------------------------------------------------------------


def watch(total, **options):
    tally = Tally(1)
    return tally, Watch("load", tally, total, **options)


@pytest.mark.parametrize(
    ("shown", "at_once", "after_a_second"), [(None, False, True), (True, True, True), (False, False, False)]
)
def test_a_load_is_shown_after_a_second_or_as_asked(  # noqa: PLR0917 - fixtures
    no_tqdm, capsys, monkeypatch, shown, at_once, after_a_second
):
    monkeypatch.setattr(progress, "time", JumpingClock(0.9))  # each look is so much later
    tally, load = watch(100, shown=shown)
    tally.add(0, 50)
    load.look()
    assert bool(capsys.readouterr().err) == at_once
    tally.add(0, 20)
    load.look()
    assert bool(capsys.readouterr().err) == after_a_second
    load.close()


def test_without_tqdm_there_is_a_line_per_tenth(no_tqdm, capsys):
    tally, load = watch(10 * 2**20, shown=True)
    for _ in range(100):
        tally.add(0, 2**20 // 10 + 1)
        load.look()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"load: {tenth} % of 10 MiB" for tenth in range(10, 101, 10)]


def test_nothing_at_all_is_done_at_once(no_tqdm, capsys):
    _, load = watch(0, shown=True)
    load.look()
    assert capsys.readouterr().err == "load: 100 % of 0 B\n"


def test_a_bar_moves_on_by_bytes(monkeypatch):
    monkeypatch.setattr(progress, "_kind_of_bar", lambda: ScriptedBar)
    tally, load = watch(100, shown=True)
    for count in (10, 0, 50):
        tally.add(0, count)
        load.look()
    assert ScriptedBar.last.n == 60
    assert ScriptedBar.last.options["total"] == 100
    load.close()
    assert ScriptedBar.last.closed


def test_the_bar_is_tqdms_where_that_is_installed(capsys, monkeypatch):
    # `tqdm.auto` chooses once per process, and another test may have been a notebook.
    monkeypatch.setitem(sys.modules, "tqdm.auto", pytest.importorskip("tqdm.std"))
    tally, load = watch(2**20, shown=True)
    tally.add(0, 2**20)
    load.look()
    load.close()
    assert "1.00M/1.00M" in capsys.readouterr().err


# --- the waiter's side -----------------------------------------------------------------------------


def test_a_watch_says_how_far_it_was():
    tally, load = watch(4096, shown=False)
    tally.add(0, 2048)
    assert load.end("failed") == "load failed with 2 KiB of 4 KiB loaded; its registers were dropped"
