"""Our channel and our launcher keep their contracts; the checks notice those that do not."""

from __future__ import annotations

import pytest

from disco_magic.channels.thread import ThreadChannel
from disco_magic.core.messages import Sync
from disco_magic.core.topology import Topology
from disco_magic.errors import SessionClosed
from disco_magic.launchers.threads import ThreadLauncher
from disco_magic.planes.threads import ThreadPlane
from disco_magic.testing.channel import CHANNEL_CHECKS, check_channel
from disco_magic.testing.launcher import LAUNCHER_CHECKS, check_launcher
from tests.doubles.scripted import ScriptedChannel


def thread_channel():
    channel = ThreadChannel()
    return channel, channel.receive


def thread_launcher(size):
    return ThreadLauncher(Topology(size), ThreadPlane(size), session_id=9000)


def scripted_channel():
    channel = ScriptedChannel()
    return channel, lambda: channel.commands.pop(0)


@pytest.mark.parametrize("make", [thread_channel, scripted_channel])
def test_the_channel_keeps_the_contract(make):
    check_channel(make)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("check", LAUNCHER_CHECKS, ids=lambda check: check.__name__)
def test_the_launcher_of_threads_keeps_the_contract(check, size):
    check_launcher(thread_launcher, sizes=[size], checks=[check])


# --- what breaks the contract is noticed -----------------------------------------------------------


class Broken(ScriptedChannel):
    """A channel with one fault."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def send(self, command):
        if self.fault == "loses" and command[0] == 300:
            return
        super().send(command)
        if self.fault == "reorders" and len(self.commands) > 1:
            self.commands.insert(-1, self.commands.pop())
        if self.fault == "changes":
            self.commands[-1] = Sync(command[0])

    def close(self):
        if self.fault == "drops at close":
            self.commands.clear()
        super().close()
        self.closed = self.fault != "stays open"


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("loses", "sending_does_not_wait_for_the_receiver"),
        ("reorders", "messages_arrive_whole_and_in_order"),
        ("changes", "messages_arrive_whole_and_in_order"),
        ("stays open", "what_was_sent_before_closing_still_arrives"),
    ],
)
def test_a_faulty_channel_is_found_and_the_broken_rule_named(fault, check):
    def make():
        channel = Broken(fault)
        return channel, lambda: channel.commands.pop(0) if channel.commands else Sync(-1)

    with pytest.raises(AssertionError) as caught:
        check_channel(make)
    assert caught.value.__notes__[0].startswith(f"{check}: ")
    assert check in {each.__name__ for each in CHANNEL_CHECKS}


class Deaf(ThreadLauncher):
    """A launcher that interrupts also what it was not asked to."""

    def interrupt(self, through, workers):
        return super().interrupt(through + 100, workers)


class Silent(ThreadLauncher):
    """A launcher that cannot say what one of its workers does."""

    def positions(self):
        return super().positions()[:-1]


class Confused(ThreadLauncher):
    """A launcher whose workers all say that they are worker 0."""

    def start(self, deliver):
        return super().start(lambda event: deliver(event._replace(worker=0)))


class Waiting(ThreadLauncher):
    """A launcher that looks at values of idle workers only."""

    def examine(self, register, function, arguments, circles):
        found = super().examine(register, function, arguments, circles)
        return [None if any(self.backlog()) else each for each in found]


class Uniform(ThreadLauncher):
    """A launcher that shows the names of worker 0 for those of all."""

    def examine_names(self, function, arguments, workers):
        return super().examine_names(function, arguments, [0 for _ in workers])


class Hasty(ThreadLauncher):
    """A launcher that takes a worker for done as soon as it has taken up the last command."""

    def has_rested(self, worker, seq):
        return bool(self.workers[worker].lane.running) or super().has_rested(worker, seq)


class Sweeping(ThreadLauncher):
    """A launcher that stops what comes before a withdrawn cell, too."""

    def withdraw(self, seq, workers):
        unbegun = super().withdraw(seq, workers)
        self.interrupt(seq, workers)
        return unbegun


class Hard(ThreadLauncher):
    """A launcher that stops what is executed where only what was sent is to be skipped."""

    def skip(self, through, workers):
        self.interrupt(through, workers)


class Generous(ThreadLauncher):
    """A launcher that hands out the workers' own values."""

    def glance(self, worker, register):
        return self.workers[worker].registers.values.get(register)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Hasty, "a_worker_at_rest_has_done_and_told_everything"),
        (Generous, "a_worker_at_rest_has_done_and_told_everything"),
        (Deaf, "an_interrupt_ends_what_runs_and_skips_what_was_sent"),
        (Hard, "what_was_sent_can_be_skipped"),
        (Sweeping, "a_withdrawn_cell_ends_alone"),
        (Silent, "positions_say_what_every_worker_does"),
        (Confused, "every_worker_answers"),
        (Waiting, "values_are_examined_where_they_are"),
        (Uniform, "names_are_examined_where_they_are"),
    ],
)
def test_a_faulty_launcher_is_found_and_the_broken_rule_named(kind, check):
    def make(size):
        return kind(Topology(size), ThreadPlane(size), session_id=9001)

    with pytest.raises(AssertionError) as caught:
        check_launcher(make, sizes=[2])
    assert caught.value.__notes__[0].startswith(f"{check}, 2 workers: ")


def test_a_closed_channel_says_what_it_refused():
    channel = ThreadChannel()
    channel.close()
    with pytest.raises(SessionClosed, match="Sync cannot be sent: the channel is closed"):
        channel.send(Sync(1))
