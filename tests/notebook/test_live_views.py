"""Opening inspectors by ``%disco registers``: in a terminal, in a kernel, from the same cell again."""

from __future__ import annotations

import json
import types

import pytest

from disco_magic.errors import UnknownName, UsageMistake
from disco_magic.notebook.live.views import MOST_OPEN, LiveViews, can_show
from disco_magic.session.current import session


class Views:
    """Opens views that note when they are closed."""

    def __init__(self):
        self.closed = []
        self.views = LiveViews()

    def open(self, shell, name):
        view = types.SimpleNamespace(close=lambda: self.closed.append(name))
        assert self.views.open(shell, lambda: view) is view


def a_shell(number, **more):
    return types.SimpleNamespace(execution_count=number, user_ns={}, user_ns_hidden={}, **more)


def a_cell(cell, number):
    return a_shell(number, get_parent=lambda: {"metadata": {"cellId": cell}})


def test_a_cell_that_runs_again_replaces_its_views():
    made = Views()
    made.open(a_cell("a", 1), "first")
    made.open(a_cell("a", 1), "beside it")
    made.open(a_cell("b", 2), "elsewhere")
    assert made.closed == []
    made.open(a_cell("a", 3), "again")
    assert made.closed == ["first", "beside it"]
    made.views.close()
    assert sorted(made.closed[2:]) == ["again", "elsewhere"]
    made.views.close()
    assert len(made.closed) == 4


def test_front_ends_that_do_not_name_cells_keep_all_views():
    made = Views()
    made.open(a_shell(1), "first")
    made.open(a_shell(2), "second")
    assert made.closed == []


def test_of_too_many_views_the_oldest_is_closed():
    made = Views()
    for number in range(MOST_OPEN + 2):
        made.open(a_shell(number), number)
    assert made.closed == [0, 1]


def test_a_view_that_is_closed_is_not_kept_by_the_results_of_cells(shell):
    """IPython kept each of them, with its hundred widgets, as ``Out[n]`` and under two names ``_n``."""
    views, ip = LiveViews(), shell.ip
    ip.execution_count = 1
    old = views.open(ip, lambda: types.SimpleNamespace(close=lambda: None))
    kept = {"_oh": {1: old, 2: "a"}, "_1": old, "_2": "a"}
    ip.user_ns.update(kept)
    ip.user_ns_hidden.update(_1=old)
    for _ in range(MOST_OPEN):
        views.open(ip, lambda: types.SimpleNamespace(close=lambda: None))
    assert ip.user_ns["_oh"] == {2: "a"}
    assert ip.user_ns["_2"] == "a"
    assert "_1" not in {**ip.user_ns, **ip.user_ns_hidden}


def test_a_terminal_gets_a_table(shell):
    shell.run("%disco start -n 2")
    shell.run("%%disco\nx = 1.5\ny = np.ones(3)")
    assert not can_show(shell.ip)
    snapshot = shell.run("%disco registers")
    assert [row.name for row in snapshot.rows] == ["x", "y"]
    assert shell.run("%disco registers y").name == "y"
    reference = session().store(5)
    session().sync_all()
    assert shell.run(f"%disco registers #{reference.register}").name == f"#{reference.register}"
    with pytest.raises(UsageMistake, match="worker 7"):
        shell.run("%disco registers -w 7 --table")
    with pytest.raises(UnknownName, match="register 'yy' is not defined on any worker; did you mean 'y'"):
        shell.run("%disco registers yy")


COUNT = """
import json, threading
from ipywidgets.widgets.widget import _instances
print(json.dumps({
    "comms": len(get_ipython().kernel.comm_manager.comms),
    "widgets": len(_instances),
    "threads": sorted(t.name for t in threading.enumerate() if t.name.startswith("disco")),
}))
"""


def counted(kernel):
    return json.loads(kernel.ok(COUNT).text())


def test_a_kernel_shows_a_still_and_a_widget_and_nothing_is_left_after_unloading(kernel):
    kernel.ok("%load_ext disco_magic")
    kernel.ok("%%disco\nx = np.arange(6.0).reshape(2, 3) + worker_id")
    before = counted(kernel)
    shown = kernel.ok("%disco registers x --as heatmap").displays
    still, widget = [display["data"] for display in shown]
    assert "<img" in still["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in widget
    during = counted(kernel)
    assert during["widgets"] > before["widgets"]
    assert "disco-inspector" in during["threads"]
    assert len(kernel.ok("%disco timeline").displays) == 2
    kernel.ok("%unload_ext disco_magic")
    after = counted(kernel)
    assert after == {"comms": before["comms"], "widgets": before["widgets"], "threads": []}


def test_a_closed_inspector_leaves_nothing_while_the_session_goes_on(kernel):
    kernel.ok("%load_ext disco_magic")
    kernel.ok("%%disco\nx = 1")
    before = counted(kernel)
    kernel.ok("inspector = get_ipython().run_line_magic('disco', 'registers')")
    kernel.ok("inspector.close()")
    assert counted(kernel) == before


def test_every_cell_is_followed_by_a_message_to_the_widget(kernel):
    kernel.ok("%load_ext disco_magic")
    kernel.ok("%%disco\nx = 1")
    kernel.ok("%disco registers")
    cell = kernel.send("%%disco\nlater = 2")

    def shows_it(message):
        data = message["content"].get("data", {}) if message["msg_type"] == "comm_msg" else {}
        return "later" in str(data.get("state", {}).get("value", ""))

    seen = kernel.until(shows_it)  # the refresher's thread sends it, before the cell's reply or after it
    assert kernel.finish(cell, seen).status == "ok"
    kernel.ok("%unload_ext disco_magic")


def test_what_the_last_cell_has_bound_is_in_view_when_the_session_is_stopped(kernel):
    kernel.ok("%load_ext disco_magic")
    kernel.ok("%%disco\nx = 1")
    kernel.ok("inspector = get_ipython().run_line_magic('disco', 'registers')")
    # In one cell, as "Run all" does it before the refresher's thread comes to look.
    stopped = "session().run('later = 2')\n%disco stop"
    kernel.ok(f"from disco_magic import session\n{stopped}")
    assert kernel.ok("print('later' in inspector._table.value)").text() == "True\n"
    kernel.ok("%unload_ext disco_magic")
