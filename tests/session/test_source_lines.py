"""Lines of files that have changed are dropped by several workers at once."""

from __future__ import annotations

import linecache

import pytest


class Dropped(dict):
    """A cache of which another thread drops a file as soon as this one has seen its name."""

    def keys(self):
        names = list(super().keys())
        for name in names[:1]:
            del self[name]
        return names


@pytest.fixture
def files(tmp_path):
    names = [str(tmp_path / f"{number}.py") for number in range(5)]
    for name in names:
        (tmp_path / name).write_text("1\n")
        linecache.getlines(name)
        (tmp_path / name).unlink()
    return names


@pytest.mark.parametrize("ask", ["linecache.checkcache()", "pdb.Pdb().reset()"])
def test_a_file_that_another_thread_has_dropped_is_no_error(session, files, monkeypatch, ask):
    s = session(1)
    with monkeypatch.context() as patch:
        patch.setattr(linecache, "cache", Dropped({name: linecache.cache[name] for name in files}))
        s.run(f"import linecache, pdb\n{ask}")
    s.run("linecache.checkcache()")
    assert not set(files) & linecache.cache.keys()


def test_no_session_leaves_it_changed(session):
    before = linecache.checkcache
    session(1).shutdown()
    assert linecache.checkcache is before
