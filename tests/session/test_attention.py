"""What hears SIGINT while somebody waits, and who hears it afterwards."""

from __future__ import annotations

import signal

import pytest

from disco_magic.session import pump
from disco_magic.session.pump import INTERRUPT, attentive, sigint_to


@pytest.fixture(autouse=True)
def handler():
    """The handler that was there, which every test must leave there."""
    before = signal.getsignal(signal.SIGINT)
    yield before
    after = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert after is before


def strike():
    signal.raise_signal(signal.SIGINT)


def test_within_it_a_sigint_is_a_message_and_afterwards_an_exception():
    with attentive() as inbox:
        strike()
        assert inbox.get_nowait() is INTERRUPT
    with pytest.raises(KeyboardInterrupt):
        strike()


def test_the_one_that_began_last_hears_it():
    heard = []
    with sigint_to(lambda: heard.append("outer")):
        with sigint_to(lambda: heard.append("inner")):
            strike()
        strike()
    assert heard == ["inner", "outer"]


def test_they_may_end_in_any_order():
    heard = []
    first, second = (sigint_to(lambda name=name: heard.append(name)) for name in ("first", "second"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    strike()
    second.__exit__(None, None, None)
    assert heard == ["second"]
    with pytest.raises(KeyboardInterrupt):
        strike()


@pytest.mark.parametrize("moment", ["getsignal", "signal"])
def test_one_that_strikes_while_it_ends_is_raised_and_leaves_the_handler_of_before(monkeypatch, moment):
    context = sigint_to(lambda: pytest.fail("nobody hears this any more"))
    context.__enter__()
    real = getattr(signal, moment)

    def struck(*args):
        monkeypatch.undo()
        strike()
        return real(*args)

    monkeypatch.setattr(pump.signal, moment, struck)
    with pytest.raises(KeyboardInterrupt):
        context.__exit__(None, None, None)


@pytest.mark.parametrize("below", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_is_no_function_is_put_back_too(handler, below):
    signal.signal(signal.SIGINT, below)
    with attentive() as inbox:
        strike()
    assert not inbox.empty()
    assert signal.getsignal(signal.SIGINT) is below
    signal.signal(signal.SIGINT, handler)
