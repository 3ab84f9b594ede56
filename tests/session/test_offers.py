"""What tab completion offers of what users hold."""

from __future__ import annotations

from disco_magic.functions.context import WorkerContext
from disco_magic.session.pending import PendingCell
from disco_magic.session.session import Session


def test_what_is_for_our_own_files_is_there_and_not_offered(session):
    s = session(1, extras=lambda worker: {"me": [worker]})
    pending = s.run_nowait(
        "me[0] is worker, dir(worker), [hasattr(worker, name) for name in worker._not_offered]"
    )
    is_mine, offered, there = pending.wait()[0]
    assert is_mine
    assert all(there)
    assert not WorkerContext._not_offered & set(offered)
    assert {"allreduce", "id", "check", "steps", "__class__"} <= set(offered)
    for thing, kind in ((s, Session), (pending, PendingCell)):
        assert all(hasattr(thing, name) for name in kind._not_offered)
        assert not kind._not_offered & set(dir(thing))
    assert {"wait", "cancel", "workers"} <= set(dir(pending))
