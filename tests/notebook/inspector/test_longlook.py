"""Looks that take a while: they report, can be stopped, and end with what they belong to."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

pytest.importorskip("ipywidgets")

from disco_magic.errors import Stopped, UsageMistake
from disco_magic.notebook.inspector.longlook import LongLook

PATIENCE_S = 30
READING = "<div>reading \u2026</div>"


@pytest.fixture
def shown():
    return SimpleQueue()


@pytest.fixture
def look(shown):
    made = LongLook(shown.put)
    yield made
    made.stop()


def step(share, done):
    if not share(done):
        raise Stopped("enough")


class Endless:
    """Is made until it is stopped; `inside` is set as soon as that has begun."""

    def __init__(self):
        self.inside = threading.Event()

    def __call__(self, share):
        self.inside.set()
        while True:
            step(share, 0.1)


@pytest.fixture
def endless():
    return Endless()


def test_it_says_how_far_it_is_and_shows_what_was_made(look, shown):
    bars = []

    def make(share):
        step(share, 0.5)
        bars.append((look._bar.value, look.box.layout.display))
        return "made"

    look.start(make)
    assert [shown.get(timeout=PATIENCE_S) for _ in range(2)] == [READING, "made"]
    assert bars == [(50, None)]
    assert look.box.layout.display == "none"


def test_the_button_ends_it(look, shown, endless):
    look.start(endless)
    endless.inside.wait(PATIENCE_S)
    look.box.children[1].click()
    assert shown.get(timeout=PATIENCE_S) == READING
    assert shown.get(timeout=PATIENCE_S) == "<div>stopped before all elements were read</div>"


def test_the_next_one_replaces_it(look, shown, endless):
    look.start(endless)
    endless.inside.wait(PATIENCE_S)
    look.start(lambda share: "second")
    assert [shown.get(timeout=PATIENCE_S) for _ in range(3)] == [READING, READING, "second"]
    assert shown.empty()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UsageMistake("no <numbers>"), "<div>no &lt;numbers&gt;</div>"),
        (KeyError("k"), "<div>\u26a0 KeyError: &#x27;k&#x27;</div>"),
    ],
)
def test_what_goes_wrong_is_shown(look, shown, error, said):
    def make(share):
        raise error

    look.start(make)
    shown.get(timeout=PATIENCE_S)
    assert shown.get(timeout=PATIENCE_S) == said


def test_what_cannot_be_stopped_is_left_to_itself_and_shows_nothing(look, shown, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.inspector.longlook.PATIENCE_S", 0.01)
    gate, inside = threading.Event(), threading.Event()

    def stuck(share):
        inside.set()
        gate.wait(PATIENCE_S)
        return "too late"

    look.start(stuck)
    inside.wait(PATIENCE_S)
    thread = look._thread
    look.start(lambda share: "next")
    gate.set()
    thread.join()
    assert [shown.get(timeout=PATIENCE_S) for _ in range(3)] == [READING, READING, "next"]
    assert shown.empty()


def test_stopping_waits_for_its_thread(look, endless):
    look.start(endless)
    endless.inside.wait(PATIENCE_S)
    look.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "disco-long-look"]
