"""Lines of the user's code in the words the user knows."""

from __future__ import annotations

import linecache
import sys
import threading

import pytest

import disco_magic
from disco_magic.callers import sites
from disco_magic.callers.current import calling_worker
from disco_magic.callers.sites import Site, call_spot, callers_of, runtime_file, site_of
from disco_magic.callers.tracebacks import error_text


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
    site = site_of(call_spot())
    assert site.filename == __file__
    assert "call_spot()" in linecache.getline(__file__, site.line)


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        (disco_magic.__file__, True),
        (calling_worker.__code__.co_filename, True),
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
    thread.found, thread.look = found, call_spot
    thread.start()
    thread.join()
    assert found == [None]
    assert site_of(None) == Site("", 0)


@pytest.fixture
def labeller():
    def name(filename):
        return {"/tmp/ipykernel_1/23.py": "Cell In[5]"}.get(filename)  # noqa: S108 - no file, a name

    sites.add_labeller(name)
    yield name
    sites.remove_labeller(name)


def test_a_front_end_can_name_the_files_that_it_compiles(labeller):
    site = Site("/tmp/ipykernel_1/23.py", 2)  # noqa: S108 - as above
    assert str(site) == "Cell In[5], line 2"
    assert site.is_labelled
    assert not Site("other.py", 2).is_labelled
    sites.label(site.filename, "Cell In[6]")
    assert str(site) == "Cell In[6], line 2"
    sites.forget(site.filename)
    sites.remove_labeller(labeller)
    assert not site.is_labelled


def test_the_line_of_a_stack_is_the_innermost_that_a_front_end_has_named(labeller):
    names = {"look": lambda: sites.cell_site(sys._getframe())}
    exec(compile("def f():\n    return look()", "/tmp/ipykernel_1/23.py", "exec"), names)  # noqa: S108 - as above
    assert str(names["f"]()) == "Cell In[5], line 2"
    assert sites.cell_site(None) is None


def test_the_traceback_of_a_function_of_a_plain_cell_names_the_cell(labeller):
    names = {}
    exec(compile("def f():\n    1 / 0", "/tmp/ipykernel_1/23.py", "exec"), names)  # noqa: S108 - as above
    with pytest.raises(ZeroDivisionError) as caught:
        names["f"]()
    assert 'File "Cell In[5]", line 2, in f' in error_text(caught.value)


def test_a_file_below_where_one_is_has_its_path_from_there_a_library_s_all_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(Site(str(tmp_path / "lib" / "comm.py"), 4)) == "lib/comm.py, line 4"
    assert str(Site(f"{tmp_path}.py", 4)) == f'File "{tmp_path}.py", line 4'
    monkeypatch.setattr(sites, "is_of_library", lambda filename: "site-packages" in filename)
    with monkeypatch.context() as gone:
        gone.setattr(sites.os, "getcwd", lambda: (_ for _ in ()).throw(FileNotFoundError()))
        assert str(Site("/lib/comm.py", 4)) == 'File "/lib/comm.py", line 4'
    installed = str(tmp_path / "site-packages" / "some.py")
    assert str(Site(installed, 4)) == f'File "{installed}", line 4'


def test_a_line_that_a_user_has_written_is_a_cell_s_or_a_module_s_not_a_library_s(labeller, monkeypatch):
    names = {"look": lambda: sites.own_site(sys._getframe())}
    monkeypatch.setattr(sites, "is_of_library", lambda filename: filename in (__file__, "/lib/some.py"))

    def call(filename):
        exec(compile("def f():\n    return look()", filename, "exec"), names)
        return names["f"]()

    assert str(call("/tmp/ipykernel_1/23.py")) == "Cell In[5], line 2"  # noqa: S108 - as above
    assert str(call("/home/me/comm.py")) == 'File "/home/me/comm.py", line 2'
    assert (call("/lib/some.py") or Site("", 0)).filename not in ("/lib/some.py", __file__)
    assert (call("<made by a library>") or Site("", 0)).filename != "<made by a library>"
    assert sites.own_site(None) is None


def test_the_lines_that_led_to_a_call_are_the_users_the_nearest_first():
    def innermost():
        return callers_of(innermost.__code__)

    def outer(times):
        return outer(times - 1) if times else innermost()

    found = [site_of(spot) for spot in outer(2)]
    lines = [linecache.getline(site.filename, site.line).strip() for site in found[:4]]
    assert lines[:3] == ["return outer(times - 1) if times else innermost()"] * 3
    assert lines[3].startswith("found = [site_of(spot)")
    assert len(outer(200)) == 100
    assert callers_of(outer.__code__) == ()
