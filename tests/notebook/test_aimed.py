"""``%disco COMMAND --session NAME``: one of several sessions, which is not the current one."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from disco_magic.errors import SessionClosed, UsageMistake
from disco_magic.notebook.commands.table import COMMANDS, command_of
from disco_magic.session.config import ThreadedSession
from disco_magic.session.current import make_current, session

# The others start a session, are about plain cells, or about what failed last in whichever.
WITHOUT = {"auto", "debug", "start"}


@pytest.fixture
def other(four):
    """A session in the notebook's variable `s2`; the current one has four workers."""
    current = session()
    with ThreadedSession(num_workers=3) as made:
        make_current(current)
        four.ip.user_ns.update(s2=made, a=np.arange(6))
        yield made
        make_current(current)


def test_every_command_about_a_session_takes_it():
    with_it = {name for name in COMMANDS if "--session" in command_of(name).parser.format_help()}
    assert with_it == COMMANDS.keys() - WITHOUT


def test_copies_go_to_it_and_come_from_it(four, other):
    four.run("%disco scatter a --session s2")
    assert [len(part) for part in other["a"].get_all()] == [2, 2, 2]
    assert session().names() == ()
    four.run("%disco gather a --session s2\na[:] = a * 10")
    four.run("%disco put a --session s2")
    four.run("%disco get a --session s2")
    assert four.ip.user_ns["a"].tolist() == [0, 10, 20, 30, 40, 50]
    four.run("%disco rm a --session s2")
    assert (other.names(), session().num_workers) == ((), 4)


def test_it_is_looked_at(four, other):
    other.run("only_there = worker_id")
    for line, told in (
        ("who", "only_there"),
        ("whos", "only_there"),
        ("status", "3 workers"),
        ("registers", "only_there"),
        ("timeline", "3 workers"),
        ("log", "Cell"),
    ):
        four.run(f"%disco {line} --session s2")
        assert told in four.out, line
        four.run(f"%disco {line}")
        about = four.out.partition("also open")[0]  # status names the other one, too
        assert told not in about or line == "log", line


@pytest.mark.parametrize("drawn", ["--live", "--as heatmap"])
def test_what_follows_the_current_session_is_refused_of_another_one(four, other, drawn):
    # It said that widgets were missing, in a notebook, or showed a table that stood still.
    other.run("x = np.ones(3)")
    said = f"{drawn} is about the current session, and s2 is another one: leave one out"
    assert said in str(four.fail(f"%disco registers x {drawn} --session s2", UsageMistake))
    make_current(other)
    assert said not in str(four.run(f"%disco registers x {drawn if drawn == '--live' else ''} --session s2"))


def test_it_is_interrupted_and_waited_for(four, other):
    pending = other.run_nowait("while True: pass")
    four.run("%disco interrupt --session s2")
    four.run("%disco sync --session s2")
    assert pending.done()


def test_it_begins_again_and_ends_while_the_other_one_goes_on(four, other):
    current = session()
    current.run("kept = 1")
    other.run("gone = 1")
    four.run("%disco restart --session s2")
    assert session() is current
    assert (other.names(), current.names()) == ((), ("kept",))
    four.run("%disco stop --session s2")
    assert other.closed
    assert session() is current
    four.fail("%disco put a --session s2", SessionClosed)


def test_what_holds_no_session_is_refused(four, other):
    assert "'a' holds no session but" in str(four.fail("%disco sync --session a", UsageMistake))
    assert "has no variable 'nope'" in str(four.fail("%disco sync --session nope", UsageMistake))


def test_other_threads_find_the_current_one_meanwhile(four, other):
    found = []
    keeper = four.ip.magics_manager.magics["line"]["disco"].__self__.front.sessions
    with keeper.aimed_at(other):
        assert keeper.find() is other
        thread = threading.Thread(target=lambda: found.append(keeper.find()))
        thread.start()
        thread.join()
    assert found == [session()]
    assert keeper.find() is session()


def test_a_session_that_no_variable_holds_is_named_by_its_number(four, other):
    first = session()
    four.run(f"%%disco --session {other.id}\nnum_workers")
    assert four.lines == ["[0-2] 3"]
    four.run(f"%disco broadcast a --session {first.id}")
    assert first.names() == ("a",)
    four.fail("%disco status --session 99999", UsageMistake)
    assert f"there is no open session 99999; there are: {first.id}, {other.id}" in four.shown[-1]
