"""`session.stats()` as people see it in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser

from disco_magic.core.stats import SessionStats, WorkerStats
from disco_magic.notebook.tables.reports import stats_html
from disco_magic.session.current import session


class Page(HTMLParser):
    """The rows of a table, and the widths of the bars' segments."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.widths, self.labels = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag == "span" and attributes["style"].startswith("width:"):
            self.widths.append(float(attributes["style"][6:].split("%")[0]))
        if "aria-label" in attributes:
            self.labels.append(attributes["aria-label"])

    def handle_data(self, data):
        if self.rows:
            self.rows[-1].append(data)


def test_the_bar_shows_the_shares_of_the_time_and_says_them():
    stats = SessionStats(3, (WorkerStats(0, 10, 8, 2, 1, 24, 1.0, 2.0, 7.0),))
    page = Page(stats_html(stats))
    assert page.rows[0][0] == "worker"
    assert page.rows[1][:6] == ["0", "10", "8", "2", "1", "24 B"]
    assert page.widths == [10.0, 20.0, 70.0]
    assert page.labels == ["running 1.00 s, waiting 2.00 s, idle 7.00 s"]


def test_workers_alike_have_one_bar_if_there_are_many():
    workers = tuple(WorkerStats(worker, 1, 1, 0, 1, 24, worker / 100, 2.0, 8.0) for worker in range(21))
    page = Page(stats_html(SessionStats(3, workers)))
    assert page.rows[1][0] == "[0-20]"
    assert page.labels == ["running 100.0 ms, waiting 2.00 s, idle 8.00 s"]


def test_a_worker_that_did_nothing_yet_has_an_empty_bar():
    stats = SessionStats(3, (WorkerStats(0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0),))
    assert Page(stats_html(stats)).widths == [0.0, 0.0, 0.0]


def test_the_title_above_the_bars_is_not_turned_in_a_narrow_window():
    # As those of numbers are, although the bars are three times as wide as the word.
    html = stats_html(SessionStats(3, (WorkerStats(0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0),)))
    assert ".disco-stats thead th:nth-child(2){writing-mode:horizontal-tb!important}" in html


def test_a_notebook_shows_stats_as_a_table(four):
    four.run("%%disco\nx = 1")
    data, _ = four.ip.display_formatter.format(session().stats())
    assert len(Page(data["text/html"]).rows) == 5
    assert data["text/plain"].startswith("Disco session")
