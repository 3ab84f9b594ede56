"""An inspector as its user sees and clicks it."""

from __future__ import annotations

import threading

import ipywidgets

from tests.notebook.inspector.conftest import text_of

PATIENCE_S = 30


def table(inspector):
    return text_of(inspector._table.value)


def detail(inspector):
    return text_of(inspector._detail.html)


def message(inspector):
    return text_of(inspector._message.value).replace("| ", "")


def until(condition, inspector):
    """Wait for what another thread draws."""
    drawn = threading.Event()
    inspector._detail._picture.observe(lambda _: drawn.set(), "value")
    while not condition():
        assert drawn.wait(PATIENCE_S)
        drawn.clear()


def press(inspector, label):
    """Click the button that says `label`."""
    (button,) = [
        widget
        for widget in inspector._actions.of_register.children
        if isinstance(widget, ipywidgets.Button) and widget.description == label
    ]
    button.click()


def look_at(inspector, name, face="summary", workers=()):
    inspector.look_at(name, face, workers)
