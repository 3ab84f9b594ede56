"""The two pure machines, and the plane's bookkeeping, against a seeded scheduler."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.simulation.__main__ import main
from tests.simulation.world import SENDING, World, run

# The machines are covered, line by line, by tests of their own.
pytestmark = [
    pytest.mark.unmeasured,
    # Its own generator is among what `conftest` freezes: from Python 3.14 on, it finds nobody who has that.
    pytest.mark.filterwarnings("ignore:It looks like `register_random`:hypothesis.errors.HypothesisWarning"),
]

STEPS = 5000
SEEDS = range(20)

# What has to happen somewhere in the long run, or it checks less than it seems to.
KINDS = [
    *(
        f"send {kind}"
        for kind in ("call", "store", "load", "bind", "unbind", "cell", "sync", "fetch", "kill")
    ),
    *(
        f"take {kind}"
        for kind in ("call", "store", "load", "bind", "unbind", "cell", "sync", "fetch", "kill")
    ),
    *(f"hear {kind}" for kind in ("Failed", "Reached", "Answer", "CellDone", "Lost")),
    *(
        f"fails with {kind}"
        for kind in ("Boom", "TypeError", "PlaneAborted", "PlaneMismatch", "WorkerInterrupt")
    ),
    *(
        "drop",
        "orphan",
        "forget",
        "collect",
        "collect a loss",
        "raise",
        "restart",
        "lose",
        "replace",
        "take stop",
    ),
    *(
        "interrupt",
        "interrupt finds",
        "interrupt passes",
        "interrupt strikes",
        "interrupt strikes late",
        "withdraw",
        "withdraw finds",
        "skip",
    ),
    *(
        "inherit",
        "returns",
        "raises Boom",
        "raises TypeError",
        "ends well",
        "user code raises",
        "C code returns",
    ),
    *("user code swallows an interrupt", "user code goes into C", "user code is in C as it is interrupted"),
    *("a ghost ends", "a ghost goes on", "a plane call is refused", "user code goes on after an error"),
    *("Meet", "Send", "Recv", "parks", "wakes", "plane call raises PlaneAborted"),
    *("plane call raises PlaneMismatch", "no thread can be started"),
]


@pytest.fixture(scope="module")
def happened():
    """What happened in all the long runs together."""
    return Counter()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_invariants_hold_in_a_long_run(seed, happened):
    happened.update(run(seed, STEPS))


def test_everything_that_can_happen_has_happened(happened):
    if happened["--- step"] < STEPS * len(SEEDS):
        pytest.skip("not all the long runs were made in this process")
    assert [kind for kind in KINDS if not happened[kind]] == []


def test_a_hundred_thousand_steps_are_made():
    assert STEPS * len(SEEDS) >= 100_000


def test_a_seed_replays_step_by_step():
    first, second = [], []
    run(7, 600, trace=first.append)
    run(7, 600, trace=second.append)
    assert first == second
    assert first[0] == "--- step: 1"


def test_the_command_line_replays_and_tries_many(capsys):
    assert main(["--seed", "3", "--steps", "50", "--trace"]) == 0
    assert "--- step: 50" in capsys.readouterr().out
    assert main(["--seeds", "3:5", "--steps", "50"]) == 0
    assert [line[:7] for line in capsys.readouterr().out.splitlines()] == ["seed 3:", "seed 4:"]


def _rng(seed):
    return random.Random(seed)  # noqa: S311 - no secret


class Simulation(RuleBasedStateMachine):
    """The same world, with hypothesis as its scheduler: what it finds, it makes small."""

    seeds = st.integers(0, 2**16)

    @initialize(size=st.integers(1, 4))
    def begin(self, size):
        self.world = World(_rng(0), size).__enter__()
        self.sound = True

    @contextmanager
    def drawing(self, seed):
        """One event; details are drawn from `seed`."""
        self.sound = False
        self.world.rng = _rng(seed)
        yield self.world
        self.world.check()
        self.sound = True

    @rule(name=st.sampled_from(sorted(SENDING)), seed=seeds)
    def send(self, name, seed):
        with self.drawing(seed) as world:
            world.act(name)

    @rule(name=st.sampled_from(["drop", "flush", "collect", "forget", "orphan"]), seed=seeds)
    def look_after(self, name, seed):
        with self.drawing(seed) as world:
            world.act(name)

    @rule(
        name=st.sampled_from(["interrupt", "replace"] * 2 + ["withdraw", "run_out_of_threads"]),
        seed=seeds,
    )
    def stop(self, name, seed):
        with self.drawing(seed) as world:
            world.act(name)

    @rule(name=st.sampled_from(["lose_somebody", "restart"]), seed=seeds)
    def end(self, name, seed):
        with self.drawing(seed) as world:
            world.act(name)

    @precondition(lambda self: self.world.threads())
    @rule(which=st.integers(0, 7), steps=st.integers(1, 9), seed=seeds)
    def work(self, which, steps, seed):
        """One thread gets some way."""
        with self.drawing(seed) as world:
            threads = world.threads()
            thread = threads[which % len(threads)]
            for _ in range(steps):
                world.step_thread(thread)
                world.check()
                if thread not in world.threads():
                    break

    @precondition(lambda self: self.world.mail())
    @rule(which=st.integers(0, 3), seed=seeds)
    def arrive(self, which, seed):
        with self.drawing(seed) as world:
            mail = world.mail()
            world.deliver(mail[which % len(mail)])

    def teardown(self):
        if not hasattr(self, "world"):
            return
        try:
            if self.sound:
                self.world.rng = _rng(0)
                self.world.drain()
                self.world.shutdown()
        finally:
            self.world.__exit__()


TestSimulation = Simulation.TestCase
TestSimulation.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
