"""Messages are small, immutable, and say what the machines need."""

from __future__ import annotations

from typing import get_args

import pytest

from disco_magic.core import messages
from disco_magic.core.messages import Call, Command, Event


@pytest.mark.parametrize("kind", get_args(Command), ids=lambda kind: kind.__name__)
def test_every_command_has_a_number_first_and_kills_and_workers(kind):
    assert kind._fields[0] == "seq"
    assert {"kills", "workers"} <= set(kind._fields)


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_says_which_worker_and_which_command(kind):
    assert kind._fields[:2] == ("worker", "seq")


def test_every_message_class_is_a_command_or_an_event():
    classes = {
        value
        for value in vars(messages).values()
        if isinstance(value, type) and issubclass(value, tuple) and value.__module__ == messages.__name__
    }
    assert classes == {*get_args(Command), *get_args(Event)}


def test_a_message_cannot_be_changed():
    with pytest.raises(AttributeError):
        Call(1, 2, len, ()).seq = 5
