"""What a cell that takes long shows of its workers: when, in which words, and that it goes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from IPython.core.error import UsageError

from disco_magic.core.doctor import Diagnosis, Position
from disco_magic.errors import CellError, SessionClosed, UsageMistake
from disco_magic.notebook.cell_options import cell_parser
from disco_magic.notebook.output.livearea import Row
from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.progress import Progress, status_rows
from disco_magic.session import pending, pump
from disco_magic.session.session import Session
from disco_magic.testing.doubles import Gate

EVERYBODY = frozenset(range(4))
SITE = "Cell In[7], line 4"
RUNNING = [Position(worker, "executing", "Cell In[7]", SITE, seconds=3.2 + worker) for worker in range(4)]
WAITING = Position(1, "waiting", "Cell In[7]", "Cell In[7], line 5", "barrier()", (0,), 2.1)


def texts(positions, finished=(), workers=EVERYBODY):
    rows = status_rows(Diagnosis(1, tuple(positions)), workers, frozenset(finished))
    assert all(row.status for row in rows)
    return [(list(row.workers), row.text) for row in rows]


# --- words -----------------------------------------------------------------------------------------


def test_workers_at_the_same_line_share_a_row_with_the_longest_time():
    assert texts(RUNNING) == [([0, 1, 2, 3], f"{SITE} \u00b7 6.2 s")]


def test_who_waits_says_in_what_for_whom_and_where():
    rows = texts([RUNNING[0], WAITING, *RUNNING[2:]])
    assert rows[1] == ([1], "waiting in barrier() for worker 0 \u00b7 Cell In[7], line 5 \u00b7 2.1 s")
    assert [workers for workers, _ in rows] == [[0, 2, 3], [1]]


def test_who_has_ended_the_cell_is_done_whatever_he_does_now():
    assert texts(RUNNING, {1, 2}) == [([0, 3], f"{SITE} \u00b7 6.2 s"), ([1, 2], "done")]


def test_only_the_cell_s_own_workers_are_shown():
    assert texts(RUNNING, {0}, frozenset({0, 2})) == [([0], "done"), ([2], f"{SITE} \u00b7 5.2 s")]


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position(0, "idle"), "about to begin"),
        (Position(0, "queued", behind=2), "about to begin"),
        (Position(0, "executing", "Cell In[7]"), "executing Cell In[7]"),
        (
            Position(0, "executing", "a call", seconds=70.0, at_most=True),
            "executing a call \u00b7 <= 1 min 10 s",
        ),
        (
            Position(0, "stopping", "Cell In[7]", SITE, seconds=0.04),
            f"being stopped in Cell In[7] \u00b7 {SITE} \u00b7 0.0 s",
        ),
        (
            Position(0, "moving", "Cell In[7]", SITE, "f()", seconds=9.96),
            f"moving data in f() \u00b7 {SITE} \u00b7 10 s",
        ),
        (Position(0, "executing", "Cell In[7]", SITE, seconds=59.4), f"{SITE} \u00b7 59 s"),
        (Position(0, "executing", "Cell In[7]", SITE, seconds=59.6), f"{SITE} \u00b7 1 min 00 s"),
    ],
)
def test_every_state_has_its_words(position, text):
    assert texts([position]) == [([0], text)]


# --- when ------------------------------------------------------------------------------------------


class Stage:
    """A page, its area, a clock and a session, as far as progress asks them."""

    stopped_by = "the stop button"

    def __init__(self, after_s=1.0):
        self.now = self.quiet_since = 0.0
        self.finished = frozenset()
        self.shown = []
        self.asked = 0
        self.ending = ""
        self.progress = Progress(
            self,
            self,
            EVERYBODY,
            self.doctor,
            after_s=after_s,
            ending=lambda: self.ending,
            clock=lambda: self.now,
        )

    def doctor(self):
        self.asked += 1
        return Diagnosis(1, tuple(RUNNING))

    def look(self, status):
        self.shown.append(status)

    def at(self, *times):
        for self.now in times:
            self.progress.look()
        return [status is not None for status in self.shown]


def test_nothing_is_shown_before_the_workers_have_been_quiet_for_long_enough():
    stage = Stage()
    assert stage.at(0.1, 0.9, 1.0) == [False, False, True]
    assert stage.asked == 1


def test_a_cell_that_prints_all_the_time_shows_none_of_it():
    stage = Stage()
    for tenths in range(100):
        stage.quiet_since = tenths / 10
        stage.at(tenths / 10 + 0.09)
    assert stage.asked == 0


def test_once_shown_it_stays_and_is_looked_at_twice_a_second():
    stage = Stage()
    stage.at(1.0)
    stage.quiet_since = 1.1
    assert stage.at(1.2, 1.4, 1.5, 1.9, 2.0) == [True, False, False, True, False, True]


def test_at_once_and_never_are_possible():
    assert Stage(0.0).at(0.0) == [True]
    assert Stage(float("inf")).at(1e9, 2e9) == [False, False]


def test_a_cell_that_was_asked_to_end_says_when_at_once_and_below_the_others():
    stage = Stage()
    assert stage.at(0.1) == [False]
    stage.ending, stage.finished = "ends after step 7", frozenset({1})
    assert stage.at(0.2, 0.3) == [False, True, False]
    assert stage.shown[1][-1] == Row((0, 2, 3), "ends after step 7", status=True)
    assert len(stage.shown[1]) == 3
    stage.ending = ""
    stage.at(0.8)
    assert len(stage.shown[-1]) == 2


def test_who_has_not_begun_a_cell_says_what_it_comes_after_and_what_stopping_it_means():
    stage = Stage()
    positions = [replace(each, seq=7) for each in RUNNING]
    stage.doctor = lambda: Diagnosis(1, tuple(positions))

    def below(seq, spares=()):
        stage.progress = Progress(
            stage, stage, EVERYBODY, stage.doctor, after_s=0, seq=seq, spares=lambda _: spares
        )
        stage.shown.clear()
        stage.progress.look()
        return stage.shown[0][-1].text

    assert below(8) == "comes after Cell In[7] \u00b7 the stop button ends both"
    assert below(8, ["Cell In[7]"]) == "comes after Cell In[7] \u00b7 the stop button ends this cell only"
    stage.stopped_by = "Ctrl-C"
    assert below(8) == "comes after Cell In[7] \u00b7 Ctrl-C ends both"
    stage.stopped_by = "the stop button"
    assert below(7).startswith(SITE)
    positions[1] = replace(positions[1], command="call f")
    assert below(8) == "comes after Cell In[7], call f \u00b7 the stop button ends all of them"
    positions[2] = replace(positions[2], seq=8, command="Cell In[8]")
    assert below(8) == "comes after Cell In[7], call f \u00b7 the stop button ends all of them"
    assert stage.shown[0][-1].workers == (0, 1, 3)


def test_who_wants_to_see_nothing_is_not_told_when_a_cell_ends():
    stage = Stage(float("inf"))
    stage.ending = "ends after step 7"
    assert stage.at(0.2, 9.0) == [False, False]


def test_a_session_that_is_closed_meanwhile_ends_the_progress_and_not_the_cell(monkeypatch, caplog):
    caplog.set_level("DEBUG", "disco_magic")
    stage = Stage()
    gone = SessionClosed("session 1 was shut down")

    def refuse():
        raise gone

    monkeypatch.setattr(stage.progress, "_diagnose", refuse)
    stage.at(1.0, 2.0, 3.0)
    assert stage.shown == [[], None, None]
    assert "SessionClosed: session 1 was shut down" in caplog.text


# --- the option ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "seconds"), [("2.5", 2.5), ("0", 0.0), ("none", float("inf"))])
def test_the_option_takes_seconds_0_and_none(text, seconds):
    assert cell_parser().read(f"--progress-after {text}").progress_after == seconds


@pytest.mark.parametrize("text", ["-2", "soon", "nan"])
def test_other_times_are_refused(four, text):
    assert "is not a time; write seconds" in str(four.fail(f"%%disco --progress-after={text}\n1", UsageError))


def test_a_cell_that_nobody_waits_for_has_no_progress(four):
    four.fail("%%disco --nowait --progress-after 0\n1", UsageMistake)


# --- a shell on a terminal -------------------------------------------------------------------------


@pytest.fixture
def watch(four, terminal, onto, monkeypatch):
    """``watch(line, body, *rows)`` runs a cell in which ``gate()`` waits until the terminal shows all `rows`.

    Each row is the beginning of a line. Gives the first such screen, and how the cell ended.
    """

    def run(line, body, *rows):
        gate, seen, write = Gate(), [], type(terminal).write
        four.ip.user_ns["gate"] = gate

        def writing(self, written):
            count = write(self, written)
            if all(any(shown.startswith(row) for shown in self.screen) for row in rows):
                seen.append(self.screen)
                gate.open()
            return count

        with monkeypatch.context() as patch, onto(terminal, terminal):
            patch.setattr(type(terminal), "write", writing)
            ended = four.ip.run_cell(f"%%disco --push gate {line}\n{body}")
        gate.open()
        return seen[0], ended

    return run


def test_a_cell_shows_who_keeps_whom_waiting_and_nothing_of_it_at_the_end(watch, terminal):
    _, ended = watch(
        "--progress-after 0",
        "if worker_id == 2:\n    gate()\nbarrier()",
        "[0-1,3] waiting in barrier() for worker 2 \u00b7 Cell In[3], line 4 \u00b7 ",
        "[2]     Cell In[3], line 3 \u00b7 ",
    )
    assert ended.success
    assert terminal.screen == [""]


def test_lines_come_above_and_who_is_done_is_shown_as_such(watch, terminal):
    body = "print('mine')\nif worker_id == 2:\n    gate()"
    screen, ended = watch("--progress-after 0", body, "[0-1,3] done")
    assert sorted(screen[:4]) == [f"[{worker}] mine" for worker in range(4)]
    assert screen[4] == "[0-1,3] done"
    assert ended.success
    assert terminal.screen == [*screen[:4], ""]


def test_a_terminal_has_no_stop_button(terminal, onto):
    with onto(terminal, terminal):
        assert Page((0,), (0,)).area.stopped_by == "Ctrl-C"


def test_a_cell_that_fails_leaves_nothing_of_it(watch, terminal):
    _, ended = watch(
        "--progress-after 0", "if worker_id == 0:\n    gate()\n    1 / 0\nbarrier()", "[1-3] waiting in"
    )
    assert isinstance(ended.error_in_exec, CellError)
    assert not any("waiting in barrier() for worker" in line and "\u00b7" in line for line in terminal.screen)


def test_a_cell_that_takes_too_long_leaves_nothing_of_it(watch, terminal):
    body = "gate()\nwhile worker_id == 0: __import__('time').sleep(0.01)\nbarrier()"
    _, ended = watch("--progress-after 0 --timeout 1", body, "[0-3] Cell In[3], line 2")
    assert type(ended.error_in_exec).__name__ == "SyncTimeout"
    assert not any("\u00b7" in line for line in terminal.screen)


@pytest.mark.parametrize("line", ["--output ordered", "--output none", "--progress-after none"])
def test_where_it_is_not_wanted_the_workers_are_never_looked_at(four, terminal, onto, monkeypatch, line):
    gate, looks = Gate(), []
    four.ip.user_ns["gate"] = gate
    take = pump.take

    def counting(inbox, timeout_s, on_look=None):
        def look():
            looks.append(None)
            if on_look is not None:
                on_look()
            if len(looks) == 5:
                gate.open()

        return take(inbox, timeout_s, look)

    monkeypatch.setattr(pending, "take", counting)
    monkeypatch.setattr(pump, "LOOK_UP_S", 0.001)
    monkeypatch.setattr(Session, "doctor", None)
    with onto(terminal, terminal):
        assert four.ip.run_cell(f"%%disco --push gate {line}\ngate()").success
    assert len(looks) >= 5
    assert terminal.getvalue() == ""


def test_the_trait_says_when_unless_the_option_does(four, terminal, watch):
    four.run("%config DiscoMagics.progress_after = None")
    assert four.ip.magics_manager.registry["DiscoMagics"].progress_after is None
    four.run("%config DiscoMagics.progress_after = 0")
    _, ended = watch("", "if worker_id == 0:\n    gate()\nbarrier()", "[0]   Cell In[", "[1-3] waiting in")
    assert ended.success
