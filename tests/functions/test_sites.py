"""Lines of the user's code in the words the user knows."""

from __future__ import annotations

import linecache
import threading

import pytest

import disco_magic
from disco_magic.functions import sites
from disco_magic.functions.context import worker
from disco_magic.functions.sites import Site, call_site, runtime_file


@pytest.mark.parametrize(
    ("site", "text"),
    [
        (Site("some.py", 4), 'File "some.py", line 4'),
        (Site("", 0), "a command of the session"),
        (Site("<a cell of this test>", 2), "Cell In[7], line 2"),
    ],
)
def test_a_site_is_written_as_people_know_it(site, text):
    sites.label("<a cell of this test>", "Cell In[7]")
    assert str(site) == text


def test_the_call_site_is_the_innermost_line_outside_of_the_package():
    site = call_site()
    assert site.filename == __file__
    assert "call_site()" in linecache.getline(__file__, site.line)


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        (disco_magic.__file__, True),
        (worker.__code__.co_filename, True),
        (threading.__file__, True),
        (__file__, False),
        ("<disco cell 1>", False),
    ],
)
def test_the_runtimes_own_files_are_told_from_the_users(filename, expected):
    assert runtime_file(filename) is expected


def test_a_thread_without_a_line_of_the_user_has_no_site():
    found = []

    class Thread(threading.Thread):
        run = staticmethod(lambda: None)

    code = compile("def run(self):\n    self.found.append(self.look())", sites.__file__, "exec")
    names = {}
    exec(code, names)
    Thread.run = names["run"]
    thread = Thread()
    thread.found, thread.look = found, call_site
    thread.start()
    thread.join()
    assert found == [Site("", 0)]
