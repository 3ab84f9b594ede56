"""Checks of configurations: ranges, dtypes, devices, functions and classes, and how containers are set up."""

from __future__ import annotations


def test_ranges_that_are_equal_are_equal_however_they_were_made(session):
    s = session(2)
    s.run("r = range(0, 10, 3) if worker_id else range(0, 12, 3)")
    s.run("worker.check(r, [r, np.ones(2)])")
    assert not s.look_at("r").differs
    assert s.check("r").ok
