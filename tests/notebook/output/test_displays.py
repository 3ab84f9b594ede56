"""What the progress of waits leaves in a notebook: nothing where possible, or one empty display."""

from __future__ import annotations

import pytest

from disco_magic.notebook.output.displays import Displays

QUIET = "import threading\nthreading.Event().wait(0.6);\n"
INNER = f"%%disco\n{QUIET}"


@pytest.fixture
def soon(fresh):
    """A kernel that shows at once where workers are."""
    fresh.ok("import disco_magic\nfrom disco_magic.notebook.output import arrival\narrival.AFTER_S = 0.0")
    fresh.ok("%config DiscoMagics.progress_after = 0.0")
    fresh.ok(f"session, quiet = disco_magic.session(), {QUIET!r}")
    return fresh


def has_shown(ran):
    """Whether it has shown where workers are."""
    return any(each["data"]["text/plain"].startswith("[0-3] ") for each in ran.displays)


WAITS = {
    "session.run": "session.run(quiet);",
    "a handle": "session.run_nowait(quiet).wait();",
    "a sync": "session.run_nowait(quiet)\nsession.sync_all()",
    "a cell": f"%%disco\n{QUIET}",
    "several": "for _ in range(2): session.run(quiet)",
}


@pytest.mark.parametrize("what", WAITS)
def test_a_wait_leaves_nothing_where_nothing_else_was_shown(soon, what):
    # Each left an empty output, which was saved with the notebook: no message removes a display.
    ran = soon.ok(WAITS[what])
    assert has_shown(ran)
    assert ran.saved == []


def test_what_comes_after_a_wait_stays(soon):
    assert soon.ok("session.run(quiet)\nprint('after')").saved == ["after\n"]
    assert soon.ok(f"%%disco\n{QUIET}7").saved == ["[0-3] 7"]
    assert soon.run("session.run(quiet + '1 / 0')").saved == ["CellError"]


def test_what_was_shown_before_a_wait_or_during_it_stays(soon):
    # To clear the cell would be to lose it.
    ran = soon.ok("print('before')\nfor _ in range(3): session.run(quiet)")
    assert has_shown(ran)
    assert ran.saved == ["before\n", ""]  # one display for all three, because there is nothing between them
    ran = soon.ok("session.run(quiet + 'print(worker_id)', workers=[0])\nsession.run(quiet);")
    assert has_shown(ran)
    assert ran.saved == ["", "[0] 0\n", ""]


def test_what_a_cell_has_shown_before_it_runs_another_one_stays(soon):
    # The inner one was taken for a cell that has no output yet.
    ran = soon.ok("display('kept')\nget_ipython().run_cell('session.run(quiet);')\nNone")
    assert has_shown(ran)
    assert ran.saved[0] == "'kept'"


def test_what_a_cell_has_shown_before_it_loads_the_extension_stays(fresh):
    fresh.ok("%unload_ext disco_magic")
    begun = "display('kept')\n%load_ext disco_magic\n%config DiscoMagics.progress_after = 0.0\n%disco start\n"
    ran = fresh.ok(f"{begun}get_ipython().run_cell({INNER!r})\nNone")
    assert "'kept'" in ran.saved


class Counting:
    """A publisher whose kernel has made so many messages."""

    def __init__(self):
        self.session = self
        self.message_count = 5
        self.pub_socket = self.parent_header = self.topic = None
        self.sent = []

    def send(self, socket, kind, content, *, parent, ident):
        self.message_count += 1
        self.sent.append((kind, content))


def test_a_cell_is_cleared_only_if_all_messages_since_it_began_were_about_the_display():
    publisher = Counting()
    displays = Displays(publisher, 5)
    cleared = []
    for others in (0, 0, 1, 0):
        assert displays.begin(publisher) == ""
        publisher.message_count += 1
        displays.sent()
        publisher.message_count += others  # from whatever thread
        cleared.append(displays.cleared(publisher))
    assert cleared == [True, True, False, False]
    assert publisher.sent == [("clear_output", {"wait": False})] * 2


def test_a_cell_is_not_cleared_if_another_thread_has_shown_something_while_rows_were_sent():
    # It was counted as ours.
    publisher = Counting()
    displays = Displays(publisher, 5)
    displays.begin(publisher)
    publisher.message_count += 2  # the rows, and that of the thread
    displays.sent()
    assert not displays.cleared(publisher)
    displays.change()
    publisher.message_count += 1
    displays.sent()
    displays.leave("one")
    assert displays.begin(publisher) == ""  # what the thread has shown is below it
    assert publisher.sent == []


def test_nothing_of_it_is_left_in_the_publisher_after_unloading(fresh):
    fresh.ok("%unload_ext disco_magic")
    assert fresh.ok("[n for n in vars(get_ipython().display_pub) if 'disco' in n]").value == "[]"


def test_a_cell_is_not_cleared_for_a_display_of_another_one(soon):
    # A task that a cell has left behind shows its waits there, and that was taken for the next cell's output.
    task = "async def late():\n    await begun.wait()\n    session.run(quiet)\n    ended.set()\n"
    events = "begun, ended = asyncio.Event(), asyncio.Event()"
    soon.ok(f"import asyncio\n{events}\n{task}task = asyncio.create_task(late())\nprint('kept')")
    kinds = [each["msg_type"] for each in soon.ok("begun.set()\nawait ended.wait();").late]
    assert "display_data" in kinds
    assert "clear_output" not in kinds


def test_where_messages_are_not_counted_no_display_is_removed_or_reused():
    publisher = object()
    displays = Displays(publisher, None)
    assert displays.begin(publisher) == ""
    displays.sent()
    assert not displays.cleared(None)
    displays.leave("one")
    assert displays.begin(publisher) == ""
