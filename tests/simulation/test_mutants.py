"""The simulation notices what is wrong: one machine is broken on purpose, and some seed has to fail."""

from __future__ import annotations

import pytest

from disco_magic.isolation import streams
from tests.simulation import mutants
from tests.simulation.clockwork import Parts
from tests.simulation.worker_reference import Violated
from tests.simulation.world import STORM, run

pytestmark = pytest.mark.unmeasured

# part -> the broken one -> what the simulation says
MISTAKES = [
    ("ledger", mutants.ReusesLivingIds, "sent|lives twice"),
    ("ledger", mutants.ReusesFirstFreed, "sent"),
    ("ledger", mutants.RepeatsNumbers, "sent|sequence number"),
    ("ledger", mutants.AnswersTooEarly, "expectations|is told"),
    ("ledger", mutants.NeverAnswers, "expectations|is told|woken early twice"),
    ("ledger", mutants.KeepsLastFailure, "failures"),
    ("ledger", mutants.RaisesInOrderOfArrival, "a wait raises|failures"),
    ("ledger", mutants.RaisesTwice, "failures|a wait raises"),
    ("ledger", mutants.ForgetsRenaming, "names"),
    ("ledger", mutants.TakesAllForBound, "names"),
    ("ledger", mutants.ForgetsBinding, "names"),
    ("ledger", mutants.HearsTwice, "failures"),
    ("ledger", mutants.ForgetsLoss, "loss"),
    ("interpreter", mutants.ReplacesOrigin, "poisons|says"),
    ("interpreter", mutants.ReportsTwice, "says"),
    ("interpreter", mutants.SkipsFirstEvent, "says|has not said"),
    ("interpreter", mutants.BindsPoison, "names"),
    ("registers", mutants.KeepsKilledPoison, "poisons"),
    ("registers", mutants.KeepsKilledValues, "values|poisons"),
    ("worker", mutants.LetsGhostsSpeak, "ghost"),
    ("worker", mutants.InterruptsInSilence, "sleeps for|nobody will receive"),
    ("worker", mutants.NeverSkips, "skips"),
    ("worker", mutants.NeverLeavesOut, "skips"),
    ("worker", mutants.LosesMail, "should be"),
    ("board", mutants.ForgetsDepartures, "sleeps for"),
    ("board", mutants.ParksBlindly, "sleeps for"),
    ("board", mutants.SeesNoCircles, "circle"),
    ("board", mutants.SeesOnlyCircles, "circle"),
    ("board", mutants.TakesAnyForAll, "though everybody can come"),
    ("board", mutants.LooksNotAgain, "circle"),
    ("board", mutants.AbortsLater, "plane is closed"),
    ("board", mutants.WakesOnlyOne, "nobody is missing|asleep|hopeless"),
    ("board", mutants.PassesNothingOn, "sleep for ever|should be"),
    ("rendezvous", mutants.ForgetsVerdicts, "sleeps for|asleep|hopeless"),
    ("mailbox", mutants.TakesNewestMessage, "recv"),
    ("mailbox", mutants.FindsNewestMessage, "probe"),
    ("mailbox", mutants.LetsReceiversSleep, "nobody is missing"),
    ("mailbox", mutants.LetsSendersSleep, "nobody is missing|sleep for ever"),
    ("mailbox", mutants.WaitsForNoReceiver, "returned, though nobody has asked"),
]

# What few seeds find, and the first one that does. It is tried first: to come to it takes up to 15 s. Where
# the simulation has changed since, all are tried as ever.
FOUND_BY = {mutants.LooksNotAgain: 92, mutants.TakesNewestMessage: 12, mutants.FindsNewestMessage: 5}

# Much goes wrong, so that few steps are needed.
HURRICANE = {**STORM, "interrupt": 15, "lose_somebody": 2, "restart": 4, "call": 60}


@pytest.fixture(autouse=True)
def _streams_are_given_back():
    """A broken machine never ends its cells, and prints of other tests would have the numbers of workers."""
    yield
    for owner in [each() for each in streams._owners]:
        if owner is not None:
            streams.remove_streams(owner)


def search(parts, first):
    """Try seeds until one fails, `first` before the others."""
    for seed in (first, *range(100)):
        run(seed, 1500, size=2 + seed % 3, actions=HURRICANE, talk=0.9, parts=parts)


@pytest.mark.parametrize(
    ("part", "mistake", "says"), MISTAKES, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_mistake_is_noticed(part, mistake, says):
    with pytest.raises(Violated, match=says) as noticed:
        search(Parts(**{part: mistake}), FOUND_BY.get(mistake, 0))
    assert noticed.value.__notes__[0].startswith("replay: python -m tests.simulation --seed")


def test_without_a_mistake_nothing_is_noticed():
    run(0, 1500, actions=HURRICANE, parts=Parts())
