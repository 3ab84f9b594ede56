"""What a waiting person sees of a load, and when."""

from __future__ import annotations

import copy
import sys

import pytest

from disco_magic.loader.progress import LOOK_S, Bar, Progress, Tally, Watch, display


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


@pytest.mark.parametrize(
    ("shown", "at_once", "after_a_second"), [(None, False, True), (True, True, True), (False, False, False)]
)
def test_a_load_is_shown_after_a_second_or_as_asked(no_tqdm, capsys, shown, at_once, after_a_second):
    progress = Progress("load", 100, shown=shown)
    progress.at(50, 0.9)
    assert bool(capsys.readouterr().err) == at_once
    progress.at(70, 1.0)
    assert bool(capsys.readouterr().err) == after_a_second
    progress.close()


def test_without_tqdm_there_is_a_line_per_tenth(no_tqdm, capsys):
    progress = Progress("load", 10 * 2**20, shown=True)
    for tenth_of_a_tenth in range(101):
        progress.at(tenth_of_a_tenth * 2**20 // 10, 0.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"load: {tenth} % of 10 MiB" for tenth in range(10, 101, 10)]


def test_nothing_at_all_is_done_at_once(no_tqdm, capsys):
    display("load", 0).show(0)
    assert capsys.readouterr().err == "load: 100 % of 0 B\n"


def test_a_bar_moves_on_by_bytes():
    bar = Bar(ScriptedBar, "load", 100)
    for done in (10, 10, 60):
        bar.show(done)
    assert ScriptedBar.last.n == 60
    assert ScriptedBar.last.options["total"] == 100
    bar.close()
    assert ScriptedBar.last.closed


def test_the_bar_is_tqdms_where_that_is_installed(capsys, monkeypatch):
    # `tqdm.auto` chooses once per process, and another test may have been a notebook.
    monkeypatch.setitem(sys.modules, "tqdm.auto", pytest.importorskip("tqdm.std"))
    bar = display("load", 2**20)
    assert isinstance(bar, Bar)
    bar.show(2**20)
    bar.close()
    assert "1.00M/1.00M" in capsys.readouterr().err


# --- the waiter's side -----------------------------------------------------------------------------


def test_a_watch_without_a_timeout_is_never_overdue():
    watch = Watch("load", Tally(1), 10, None, shown=False)
    assert (watch.pause_s(), watch.overdue) == (LOOK_S, False)


def test_a_watch_does_not_sleep_beyond_its_time():
    watch = Watch("load", Tally(1), 10, 0.0, shown=False)
    assert (watch.pause_s(), watch.overdue) == (0.0, True)
    assert Watch("load", Tally(1), 10, 1000.0, shown=False).pause_s() == LOOK_S


def test_a_watch_says_how_far_it_was():
    tally = Tally(1)
    tally.add(0, 2048)
    watch = Watch("load", tally, 4096, None, shown=False)
    assert watch.end("failed") == "load failed with 2 KiB of 4 KiB loaded; its registers were dropped"
