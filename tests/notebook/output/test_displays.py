"""What the progress of waits leaves in a notebook: one empty display where that is possible."""

from __future__ import annotations

import io

import pytest

from disco_magic.notebook.output.displays import MOST, displays_of
from disco_magic.notebook.output.livearea import Row
from disco_magic.notebook.output.outlet import Outlet
from disco_magic.notebook.output.screens import NotebookScreen

QUIET = "import threading\nthreading.Event().wait(0.6);\n"


@pytest.fixture
def soon(fresh):
    """A kernel that shows at once where workers are."""
    fresh.ok("import disco_magic\nfrom disco_magic.notebook.output import arrival\narrival.AFTER_S = 0.0")
    fresh.ok("%config DiscoMagics.progress_after = 0.0")
    fresh.ok(f"session, quiet = disco_magic.session(), {QUIET!r}")
    return fresh


def changes(ran):
    """What it made of displays and changed in them, in this order."""
    kinds = ("display_data", "update_display_data")
    return [each["content"] for each in ran.messages if each["msg_type"] in kinds]


def has_shown(ran):
    """Whether it has shown where workers are."""
    return any(each["data"]["text/plain"].startswith("[0-3] ") for each in ran.displays)


WAITS = {
    "session.run": "session.run(quiet);",
    "a handle": "session.run_nowait(quiet).wait();",
    "an await": "await session.run_nowait(quiet)\nNone",
    "a sync": "session.run_nowait(quiet)\nsession.sync_all()",
    "a cell": f"%%disco\n{QUIET}",
    "several": "for _ in range(2): session.run(quiet)",
}


@pytest.mark.parametrize("what", WAITS)
def test_waits_leave_one_empty_display(soon, what):
    # Each left its own, and all were saved with the notebook: no message removes a display.
    ran = soon.ok(WAITS[what])
    assert has_shown(ran)
    assert ran.saved == [""]


@pytest.mark.parametrize("wait", ["h.wait();", "await h\nNone"])
def test_who_waits_for_a_nowait_cell_sees_where_its_workers_are(soon, wait):
    # Only `%%disco` itself and session.run_nowait showed that: `h.wait()` stood still, however long it took.
    soon.ok("import sys, threading\nsys.gate = threading.Event()")
    soon.ok("%%disco --nowait --out h\nimport sys\nsys.gate.wait(60);")
    ran = soon.ok(f"threading.Timer(0.6, sys.gate.set).start()\n{wait}")
    assert has_shown(ran)
    assert ran.saved == [""]


def test_what_comes_after_a_wait_stays_below_it(soon):
    assert soon.ok("session.run(quiet)\nprint('after')").saved == ["", "after\n"]
    assert soon.ok(f"%%disco\n{QUIET}7").saved == ["", "[0-3] 7"]
    assert soon.run("session.run(quiet + '1 / 0')").saved == ["", "CellError"]


def test_waits_with_something_between_them_have_a_display_each(soon):
    ran = soon.ok("print('before')\nfor _ in range(3): session.run(quiet)")
    assert has_shown(ran)
    assert ran.saved == ["before\n", ""]  # one display for all three, because there is nothing between them
    ran = soon.ok("session.run(quiet + 'print(worker_id)', workers=[0])\nsession.run(quiet);")
    assert has_shown(ran)
    assert ran.saved == ["", "[0] 0\n", ""]


def test_a_wait_of_a_cell_within_the_cell_takes_nothing_away(soon):
    ran = soon.ok("display('kept')\nget_ipython().run_cell('session.run(quiet);')\nNone")
    assert has_shown(ran)
    assert ran.saved[:2] == ["'kept'", ""]


def test_waits_between_the_steps_of_a_bar_do_not_cut_it_into_an_output_per_step(soon):
    # Each wait made a display below what the bar had written, and the bar went on below that.
    step = "print(f'\\r{i}', end='', flush=True); session.run(quiet)"
    ran = soon.ok(f"for i in range(5): {step}")
    assert has_shown(ran)
    # What is written in a row is one output, whatever is changed above it meanwhile.
    assert ran.saved == ["\r0", "", "\r1", "", "\r2", "\r3", "\r4"]


def test_a_wait_does_not_carry_out_a_clear_that_waits_for_the_user_s_next_output(soon):
    # A front end clears with the next message, which was that of the wait: what was shown vanished too soon.
    soon.ok("from IPython.display import clear_output")
    ran = soon.ok("print('a')\nclear_output(wait=True)\nsession.run(quiet)\nprint('b')\nsession.run(quiet);")
    kinds = [m["msg_type"] for m in ran.messages if m["msg_type"] not in ("status", "execute_input")]
    assert kinds[:3] == ["stream", "clear_output", "stream"]
    assert has_shown(ran)  # the second wait


def test_waits_after_each_clearing_of_the_output_are_shown(soon):
    soon.ok("from IPython.display import clear_output")
    step = "print(i); session.run(quiet); clear_output()"
    ran = soon.ok(f"for i in range(4): {step}")
    assert len({each["transient"]["display_id"] for each in ran.displays}) == 4


def test_what_a_worker_s_clearing_of_the_output_has_removed_is_not_used_again(soon):
    # It clears in its own thread, where ipykernel calls no hook of ours: the third display was one of those.
    step = f"{QUIET}print('a')\nclear_output()\n".replace("\n", "\n    ")
    ran = soon.ok(f"%%disco -w 0\nfrom IPython.display import clear_output\nfor _ in range(4):\n    {step}")
    assert len({each["transient"]["display_id"] for each in ran.displays}) > MOST


@pytest.mark.parametrize("load", ["%load_ext disco_magic", "%%capture\n%load_ext disco_magic"])
def test_the_hook_that_heeds_clearing_is_there_once_and_ends_with_the_extension(soon, load):
    # Under `%%capture` the shell has another publisher, which has no hooks.
    ours = "[hook for hook in get_ipython().display_pub._hooks if 'disco_magic' in hook.__module__]"
    for line, hooks in (
        ("%unload_ext disco_magic", 0),
        (load, 1),
        ("%reload_ext disco_magic", 1),
        ("%unload_ext disco_magic", 0),
    ):
        soon.ok(line)
        soon.ok(f"assert len({ours}) == {hooks}")


def test_waits_at_the_same_time_have_a_display_each(soon):
    # From the third on they wrote into the display of the second, by turns, or before there was any.
    soon.ok("import asyncio\nasync def until(handle): return await handle")
    ran = soon.ok(
        "handles = [session.run_nowait(quiet, workers=[each]) for each in range(4)]\n"
        "await asyncio.gather(*map(until, handles))\nNone"
    )
    shown = {}
    for each in changes(ran):
        shown.setdefault(each["transient"]["display_id"], set()).add(each["data"]["text/plain"][:4])
    assert len(shown) == 4
    assert all(len(labels - {""}) == 1 for labels in shown.values())


def test_a_change_of_a_display_in_place_does_not_end_the_wait_for_the_user_s_next_output(soon):
    # Front ends clear with the next output. What followed the change was ours, and cleared the display.
    soon.ok("from IPython.display import clear_output, display")
    ran = soon.ok(
        "shown = display(1, display_id=True)\nclear_output(wait=True)\nshown.update(2)\n"
        "session.run(quiet)\nshown.update(3)"
    )
    assert [each["data"]["text/plain"] for each in changes(ran)] == ["1", "2", "3"]


class Counting:
    """A publisher of a cell, whose kernel has made so many messages."""

    def __init__(self):
        self.session = self
        self.message_count = 5
        self.parent_header = {"msg_id": "one"}
        self.ids = []

    def publish(self, data, *, metadata, transient, update):
        self.message_count += 1
        self.ids.append(transient["display_id"])


ROWS = [Row((0,), "waiting", status=True)]


@pytest.fixture
def publisher():
    return Counting()


@pytest.fixture
def screen(publisher):
    """Makes the screen of a further wait, or cell of the workers, in one cell of the notebook."""
    return lambda: NotebookScreen(Outlet(io.StringIO()), publisher)


def test_a_cell_of_the_workers_has_its_rows_below_what_it_has_printed(publisher, screen):
    # Its third display was its second, above all that had been printed since.
    one = screen()
    for _ in range(4):
        one.show(ROWS)
        one.show([])
        publisher.message_count += 1  # it prints
    assert len(set(publisher.ids)) == 4 > MOST


def test_waits_at_the_same_time_never_share_a_display(publisher, screen):
    # With `gather`, a third wait took the display that the second had filled, and both changed it by turns.
    waits = [screen() for _ in range(MOST + 1)]
    for wait in waits:
        publisher.message_count += 1
        wait.show(ROWS)
    assert len(set(publisher.ids)) == MOST + 1
    waits[0].show([])
    screen().show(ROWS)
    assert publisher.ids[-1] == publisher.ids[0]


def test_a_pending_clear_is_carried_out_by_a_worker_s_bar_but_not_by_our_status(publisher, screen):
    # A bar is the user's output: held back with our status, it was seen only when it had ended.
    displays_of(publisher).clear(wait=True)
    one = screen()
    one.show(ROWS)
    assert not publisher.ids
    one.show([Row((0,), "bar"), *ROWS])
    assert len(publisher.ids) == 1


def test_a_display_that_was_cleared_while_it_was_filled_is_not_used_again(publisher, screen):
    first = screen()
    first.show(ROWS)
    displays_of(publisher).clear(wait=False)
    first.show([])
    for _ in range(MOST + 1):
        one = screen()
        one.show(ROWS)
        one.show([])
        publisher.message_count += 1
    assert publisher.ids[0] not in publisher.ids[2:]


@pytest.mark.parametrize("others", ["none", "while they are shown", "while they are sent", "afterwards"])
def test_a_display_is_used_again_only_if_all_messages_since_were_about_it(others):
    publisher = Counting()
    displays = displays_of(publisher)
    assert displays.begin(publisher) == ""
    displays.make("left")
    for what in ("the rows", "none of them"):
        publisher.message_count += 1 + (others == "while they are sent")
        displays.sent()
        publisher.message_count += others == "while they are shown"
        if what == "the rows":
            displays.change()
    displays.leave("left")
    publisher.message_count += others == "afterwards"
    assert displays.begin(publisher) == ("left" if others == "none" else "")
    assert displays.begin(publisher) == ""  # it is taken


def test_the_display_of_a_cell_is_not_used_by_the_next_one():
    publisher = Counting()
    displays = displays_of(publisher)
    displays.begin(publisher)
    displays.make("left")
    publisher.message_count += 1
    displays.sent()
    displays.leave("left")
    assert displays_of(publisher) is displays
    publisher.parent_header = {"msg_id": "two"}
    assert displays.begin(publisher) == ""
    assert displays_of(publisher).begin(publisher) == ""


def test_where_messages_are_not_counted_no_display_is_used_again():
    publisher = type("Plain", (), {})()
    displays = displays_of(publisher)
    assert displays.begin(publisher) == ""
    displays.make("left")
    displays.sent()
    displays.leave("left")
    assert displays.begin(publisher) == ""
