"""An inspector over a real session, driven by its controls as clicks would drive them."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

pytest.importorskip("ipywidgets")

from disco_magic import ThreadedSession
from disco_magic.notebook.inspector.panel import Inspector
from disco_magic.notebook.inspector.refresher import Refresher


class Shell:
    """What an inspector needs of IPython."""

    def __init__(self):
        self.user_ns = {}
        self.execution_count = 1


class Sessions:
    """Finds the session that a test has made."""

    def __init__(self):
        self.session = None

    def find(self):
        return None if self.session is None or self.session.closed else self.session

    def require(self):
        assert self.find() is not None
        return self.session


class Front:
    """The notebook's side."""

    def __init__(self):
        self.shell = Shell()
        self.sessions = Sessions()

    def bind(self, values):
        self.shell.user_ns.update(values)


class Texts(HTMLParser):
    """What a person reads; cells are separated."""

    def __init__(self, html):
        super().__init__()
        self.parts, self._style = [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self._style = self._style or tag in ("style", "title")
        if tag in ("td", "th", "tr", "caption", "div", "figcaption"):
            self.parts.append(" | ")

    def handle_endtag(self, tag):
        self._style = self._style and tag not in ("style", "title")

    def handle_data(self, data):
        if not self._style:
            self.parts.append(data)


def text_of(html):
    """The text of some HTML in one line."""
    return " ".join("".join(Texts(html).parts).split())


@pytest.fixture
def front():
    return Front()


@pytest.fixture
def session(front):
    with ThreadedSession(3) as made:
        front.sessions.session = made
        yield made


@pytest.fixture
def refresher(front):
    made = front.refresher = Refresher()
    yield made
    for inspector in made.inspectors():
        inspector.close()
    made.join()


@pytest.fixture
def inspector(front, session, refresher):
    session.run("x = np.arange(12.0).reshape(3, 4) + worker_id; same = np.ones(5); n = 7")
    return Inspector(front)
