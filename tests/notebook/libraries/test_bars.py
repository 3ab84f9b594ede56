"""tqdm on the workers: a bar per worker, in place; inner bars below outer ones; its own list of bars."""

from __future__ import annotations

import gc
import os
import sys
from weakref import WeakSet

import pytest

tqdm = pytest.importorskip("tqdm", reason="the extra 'loader' has it")

from disco_magic import ThreadedSession  # noqa: E402
from disco_magic.notebook.libraries.bars import BarKeeper, WorkerBars  # noqa: E402 - as the other tests' order
from disco_magic.notebook.libraries.changes import FITS  # noqa: E402
from disco_magic.notebook.output.sink import Sink  # noqa: E402
from disco_magic.notebook.output.streams import using_sink  # noqa: E402
from disco_magic.testing.doubles import Gate  # noqa: E402

AREA = ("display_data", "update_display_data")


@pytest.fixture(autouse=True)
def keeper(monkeypatch):
    """The pages' keeper of bars, a new one. tqdm starts no thread that outlives the test."""
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)
    monkeypatch.setattr(tqdm.tqdm, "_instances", WeakSet())
    before, keeper = tqdm.tqdm._instances, BarKeeper()
    for user in ("libraries.bars", "output.page", "output.sink"):
        monkeypatch.setattr(f"disco_magic.notebook.{user}.BARS", keeper)
    yield keeper
    assert tqdm.tqdm._instances is before


@pytest.fixture
def watch(four, terminal, onto, monkeypatch):
    """``watch(source, rows)`` runs a cell in which ``gate()`` waits until the last rows of the screen fit.

    Args:
        rows: takes the screen, says whether it fits.

    Gives that screen.
    """

    def run(source, rows):
        gate, seen, write = Gate(), [], type(terminal).write
        four.ip.user_ns["gate"] = gate

        def writing(self, written):
            count = write(self, written)
            if rows(self.screen):
                seen.append(self.screen)
                gate.open()
            return count

        with monkeypatch.context() as patch, onto(terminal, terminal):
            patch.setattr(type(terminal), "write", writing)
            ended = four.ip.run_cell(
                f"%%disco --push gate --progress-after none\nfrom tqdm import tqdm\n{source}"
            )
        gate.open()
        assert ended.success
        return seen[0]

    return run


def starts(*beginnings):
    """Whether the screen consists of lines that begin so."""
    return lambda screen: len(screen) == len(beginnings) and all(map(str.startswith, screen, beginnings))


def beginnings(lines, length):
    return sorted(line[:length] for line in lines)


def test_bars_leave_room_for_the_prefix(watch, terminal, monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    monkeypatch.setattr(type(terminal), "fileno", lambda _: 1)
    source = "bar = tqdm(total=2, mininterval=0)\nbar.update()\ngate()\nbar.update()\nbar.close()"
    screen = watch(source, starts(*(f"[{worker}]  50%|" for worker in range(4))))
    assert all(row.endswith("it/s]") for row in screen)
    bars = [row for row in terminal.screen if "100%" in row]
    assert len(bars) == 4
    assert all(75 > len(row) > 60 and row.endswith("it/s]") for row in bars)


def test_bars_of_the_notebook_have_its_whole_width_and_so_have_all_after_unload(monkeypatch):
    std = sys.modules["tqdm.std"]

    def before():
        return lambda _: (80, 24)

    monkeypatch.setattr(std, "_screen_shape_wrapper", before)
    undo = FITS["tqdm.std"](std)
    assert std._screen_shape_wrapper()(sys.stderr) == (80, 24)
    with using_sink(Sink(0, None, margin=10)):
        columns, lines = std._screen_shape_wrapper()(sys.stderr)
    assert (columns, lines) == (70, 24)
    undo()
    assert std._screen_shape_wrapper is before


def test_a_bar_in_session_run_leaves_room_for_the_label_too(monkeypatch):
    # Lines of `session.run` have a label, but no sink: a bar as wide as the terminal took two of its lines.
    std = sys.modules["tqdm.std"]
    monkeypatch.setattr(std, "_screen_shape_wrapper", lambda: lambda _: (80, 24))
    undo = FITS["tqdm.std"](std)
    try:
        with ThreadedSession(num_workers=2) as session:
            code = "import sys\nfrom tqdm import std\nstd._screen_shape_wrapper()(sys.stderr)"
            assert session.run(code).values == [(76, 24), (76, 24)]
    finally:
        undo()


def test_four_workers_show_four_bars_in_place_that_become_lines(watch, terminal):
    source = "bar = tqdm(total=2, mininterval=0)\nbar.update()\ngate()\nbar.update()\nbar.close()"
    watch(source, starts(*(f"[{worker}]  50%|" for worker in range(4))))
    assert beginnings(terminal.screen, 9) == ["", *(f"[{worker}] 100%|" for worker in range(4))]


def test_an_inner_bar_is_below_the_outer_one_of_its_worker(watch, terminal):
    source = (
        "for i in tqdm(range(2), desc='out', mininterval=0):\n"
        "    for j in tqdm(range(2), desc='in', mininterval=0, leave=False):\n"
        "        if i == j == 1: gate()"
    )
    pairs = [f"[{worker}] {name}:  50%|" for worker in range(4) for name in ("out", "in")]
    watch(source, starts(*pairs))
    assert beginnings(terminal.screen, 14) == ["", *(f"[{worker}] out: 100%|" for worker in range(4))]


def test_a_line_written_through_tqdm_comes_above_the_bars(watch, terminal):
    source = "bar = tqdm(total=1)\ntqdm.write('note')\ngate()\nbar.update()\nbar.close()"
    shown = watch(source, lambda screen: sum("0%|" in line for line in screen) == 4)
    assert sum("note" in line for line in shown) == 4
    notes = [f"[{worker}] note" for worker in range(4)]
    bars = [f"[{worker}] 100%|" for worker in range(4)]
    assert beginnings(terminal.screen, 9) == sorted(["", *notes, *bars])


def test_a_bar_that_is_not_closed_stays_as_it_was_when_the_cell_ended(watch, terminal, four):
    watch(
        "bar = tqdm(total=2, mininterval=0)\nbar.update()\ngate()",
        starts(*(f"[{w}]  50%|" for w in range(4))),
    )
    assert beginnings(terminal.screen, 9) == ["", *(f"[{worker}]  50%|" for worker in range(4))]
    assert terminal.screen[-1] == ""
    four.run("%%disco\nbar.disable = True")  # else it writes when it is dropped, after the shell is gone


def test_a_cell_that_imports_tqdm_has_bars_of_its_workers_from_the_first(keeper, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.libraries.bars.BARS", keeper)
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "tqdm.std")
        keeper.enter()
    assert not isinstance(tqdm.tqdm._instances, WorkerBars)
    undo = FITS["tqdm.std"](sys.modules["tqdm.std"])
    assert isinstance(tqdm.tqdm._instances, WorkerBars)
    keeper.leave()
    undo()


# --- tqdm's list of bars ---------------------------------------------------------------------------


class Thing:
    """Something that a weak set can hold, and whose sink can be current."""


def on_worker(sink, function, *args):
    with using_sink(sink):
        return function(*args)


def test_every_worker_has_bars_of_its_own_and_the_notebook_the_others():
    mine, first, second = Thing(), Thing(), Thing()
    sinks = Thing(), Thing()
    bars = WorkerBars(WeakSet([mine]))
    on_worker(sinks[0], bars.add, first)
    on_worker(sinks[1], bars.add, second)
    assert on_worker(sinks[0], list, bars) == [first]
    assert on_worker(sinks[1], len, bars) == 1
    assert (list(bars), mine in bars, first in bars) == ([mine], True, False)
    assert set(bars.copy()) == {mine, first, second}
    with pytest.raises(KeyError):
        bars.remove(first)
    on_worker(sinks[0], bars.remove, first)
    assert set(bars.copy()) == {mine, second}


def test_it_is_there_while_cells_run_and_taken_out_by_the_last_one(keeper):
    before = tqdm.tqdm._instances
    keeper.install()
    assert tqdm.tqdm._instances is before
    keeper.enter()
    keeper.enter()
    assert isinstance(tqdm.tqdm._instances, WorkerBars)
    keeper.leave()
    keeper.install()
    assert isinstance(tqdm.tqdm._instances, WorkerBars)
    keeper.leave()
    assert tqdm.tqdm._instances is before


def test_a_worker_has_bars_if_it_made_some_or_nobody_knows_who_did(keeper):
    sink, other, bar, early = Thing(), Thing(), Thing(), Thing()
    assert not keeper.has_any(sink)
    tqdm.tqdm._instances.add(early)  # a cell that imports tqdm itself
    assert keeper.has_any(sink)
    keeper.enter()
    assert keeper.has_any(sink)
    del early
    gc.collect()
    assert not keeper.has_any(sink)
    on_worker(sink, tqdm.tqdm._instances.add, bar)
    assert keeper.has_any(sink)
    assert not keeper.has_any(other)
    keeper.leave()


def test_without_tqdm_nothing_happens(monkeypatch, keeper):
    monkeypatch.delitem(sys.modules, "tqdm.std")
    keeper.enter()
    assert not keeper.has_any(Thing())
    keeper.leave()
    assert "tqdm.std" not in sys.modules


def test_a_cell_that_imports_tqdm_itself_gets_it_with_its_first_bar(monkeypatch, terminal, live):
    std = sys.modules["tqdm.std"]
    monkeypatch.delitem(sys.modules, "tqdm.std")
    _, (sink,) = live(terminal, 1)
    monkeypatch.setitem(sys.modules, "tqdm.std", std)
    sink.writer("stderr")("\r1%")
    assert isinstance(tqdm.tqdm._instances, WorkerBars)
    sink.finish()


# --- a kernel --------------------------------------------------------------------------------------


def test_bars_of_widgets_work_on_every_worker(fresh):
    ran = fresh.ok("%%disco -w 0,1\nfrom tqdm.auto import tqdm\nfor i in tqdm(range(3)):\n    pass\ni")
    assert ran.value == "[0-1] 2"
    assert ran.text("stderr").count("100%") + len(ran.displays) >= 2


def test_bars_of_a_notebook_are_one_display_and_become_lines(fresh, tmp_path):
    door = tmp_path / "door"
    source = (
        "import os\nfrom tqdm import tqdm\nbar = tqdm(total=2, mininterval=0)\nbar.update()\n"
        f"while not os.path.exists({str(door)!r}):\n    i = 1\nbar.update()\nbar.close()"
    )
    cell = fresh.send(f"%%disco --progress-after none\n{source}")

    def all_there(message):
        return message["msg_type"] in AREA and message["content"]["data"]["text/plain"].count("50%") == 4

    before = fresh.until(all_there)
    door.touch()
    ran = fresh.finish(cell, before)
    assert beginnings(ran.text("stderr").splitlines(), 9) == [f"[{worker}] 100%|" for worker in range(4)]
    assert len(ran.displays) == 1
    updates = [m for m in ran.messages if m["msg_type"] in AREA]
    assert updates[-1]["content"]["data"] == {"text/plain": "", "text/html": ""}


def test_the_thread_that_looks_after_all_bars_is_not_that_of_the_worker_with_the_first(fresh):
    fresh.ok("%%disco\nfrom tqdm import tqdm\nfor i in tqdm(range(3)):\n    pass")
    # A worker's would still write to its cell, and keep the streams of cells in place.
    ran = fresh.ok("import sys, tqdm\ntqdm.tqdm.monitor.is_alive(), type(sys.stdout).__name__")
    assert ran.value == "(True, 'OutStream')"
