"""Output of cells that are not waited for, where a tool executes the notebook: it is in one display."""

from __future__ import annotations

import re

import pytest

from disco_magic.notebook.output import afterwards as module
from disco_magic.notebook.output.afterwards import Afterwards
from disco_magic.notebook.output.outlet import Outlet
from disco_magic.phrases import ranges

GATE = "import builtins, threading\nbuiltins.gate, builtins.there = threading.Event(), threading.Event()"
UPDATE = "update_display_data"
LATE = "%%disco --nowait -w 1 -o h\nimport builtins, sys\nbuiltins.gate.wait(20)\n"


class Display:
    """What an executed notebook has of it."""

    def __init__(self):
        self.data, self.others = {}, {}
        self._id = None

    def publish(self, data, *, transient, update=False, **_):
        name = transient["display_id"]
        if self._id is None:
            assert not update
            self._id = name
        (self.data if name == self._id else self.others.setdefault(name, {})).update(data)
        assert update or not self.others


@pytest.fixture
def display():
    return Display()


@pytest.fixture
def place(display):
    made = Afterwards(display.publish)
    made.bring_up_to_date("")
    return made


def of_worker(worker, **options):
    return {"metadata": {"disco": {"workers": [worker]}}, **options}


def named(name, *, update=False):
    return of_worker(0, transient={"display_id": name}, update=update)


def test_lines_are_text_as_printed_ones_are(place, display):
    place.write("stdout", "[0] one\n[1] two\n")
    place.bring_up_to_date("")
    assert display.data == {"text/plain": "[0] one\n[1] two"}


def test_what_is_more_than_lines_is_html_in_its_order_with_labels(place, display):
    place.write("stdout", "[0] <first>\n")
    place.display("[0]", {"text/plain": "T", "text/html": "<b>table</b>"}, of_worker(0))
    place.write("stderr", "[0] last\n")
    place.bring_up_to_date("")
    assert display.data["text/plain"] == "[0] <first>\n[0]\nT\n[0] last"
    html = display.data["text/html"]
    places = [html.index(text) for text in ("[0] &lt;first&gt;", "[0]</div>", "<b>table</b>", "[0] last")]
    assert places == sorted(places)
    assert "error-background" in html


def test_the_numbers_of_workers_have_their_colours_in_html_too(place, display):
    place.write("stderr", "\x1b[38;5;164m[2]\x1b[0m a \x1b[31mred\x1b[0m <word>\n[2-3] plain\n")
    place.bring_up_to_date("")
    html = display.data["text/html"]
    assert re.search(r'<span style="[^"]*#d700d7[^"]*">\[2]</span> a red &lt;word&gt;\n\[2-3] plain', html)


@pytest.mark.parametrize("workers", [(0, 1, 2), (0, 2), (0, 3, 6, 9, 12)])
def test_so_have_those_of_several_workers_however_they_are_written(place, display, monkeypatch, workers):
    monkeypatch.delenv("NO_COLOR", raising=False)
    Outlet(place.streams["stderr"], 16).lines(workers, ["ValueError: late"])
    place.bring_up_to_date("")
    html = display.data["text/html"]
    assert f"{ranges(workers)}</span>" in html
    assert "[38;5;" not in html


def test_a_display_is_updated_where_it_is_and_one_of_another_cell_there(place, display):
    place.display("", {"text/plain": "1 %"}, named("mine"))
    place.write("stdout", "below\n")
    place.display("", {"text/plain": "2 %"}, named("mine", update=True))
    place.display("", {"text/plain": "elsewhere"}, named("other", update=True))
    assert display.others == {}
    place.bring_up_to_date("")
    assert display.data == {"text/plain": "2 %\nbelow"}
    assert display.others == {"other": {"text/plain": "elsewhere"}}


def test_what_a_worker_has_cleared_is_replaced_by_its_next_display(place, display):
    place.display("", {"text/plain": "done: 5 %"}, named("bar"))
    for step in range(3):
        for worker in (0, 1):
            place.display(f"[{worker}]", {"text/plain": f"plot {step}"}, of_worker(worker))
            place.clear(worker, wait=True)
    place.clear(1, wait=False)
    place.write("stdout", "[1] end\n")
    place.bring_up_to_date("")
    assert display.data == {"text/plain": "done: 5 %\n[0]\nplot 2\n[1] end"}


def test_where_one_worker_is_shown_all_is_cleared(place, display):
    place.write("stdout", "[0] 1\n")
    place.clear(None, wait=True)
    place.bring_up_to_date("")
    assert display.data == {"text/plain": "[0] 1"}
    place.write("stdout", "[0] 2\n")
    place.bring_up_to_date("")
    assert display.data == {"text/plain": "[0] 2"}


def test_text_that_is_no_unicode_is_shown_in_escapes(place, display):
    place.write("stdout", "[0] cut: \ud83d\n[0] whole: \U0001f600\n")
    place.bring_up_to_date("")
    assert display.data == {"text/plain": "[0] cut: \\ud83d\n[0] whole: \U0001f600"}


def test_so_many_lines_are_kept_and_it_says_how_many_not(place, display, monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 10)
    for number in range(6):
        place.write("stdout", f"[0] {number}\n")
    place.bring_up_to_date("")
    assert display.data == {"text/plain": "[0] 0\n[0] 1\n... 4 more lines left out ..."}


def test_it_is_sent_only_when_it_has_changed(place, display):
    place.write("stdout", "[0] 1\n")
    for note in ("goes on", "goes on", ""):
        place.bring_up_to_date(note)
        assert display.data == {"text/plain": "\n".join(filter(None, ["[0] 1", note]))}
    display.data.clear()
    place.bring_up_to_date("")
    assert display.data == {}


CHANGES = {
    "lines": lambda place: place.write("stdout", "[0] 1\n"),
    "a display": lambda place: place.display("", {"text/plain": "T"}, named("mine")),
    "an update of another cell's": lambda place: place.display(
        "", {"text/plain": "T"}, named("o", update=True)
    ),
    "a clear": lambda place: place.clear(0, wait=False),
    "a value": lambda place: setattr(place, "value", {"text/plain": "5"}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_it_is_at_rest_until_there_is_something_to_show_and_tells_of_that(place, what):
    told = []
    place.on_change = lambda: told.append(place)
    place.write("stdout", "[0] before\n")
    place.bring_up_to_date("")
    assert place.is_at_rest
    told.clear()
    CHANGES[what](place)
    assert (place.is_at_rest, set(told)) == (False, {place})


def test_a_value_that_was_shown_is_still_to_be_removed(place, display):
    place.value = {"text/plain": "5"}
    place.bring_up_to_date("")
    assert not place.is_at_rest
    place.bring_up_to_date("")
    assert place.is_at_rest
    assert display.data == {"text/plain": ""}


def executed(kernel, code):
    """Run a cell as nbclient does, which can answer no question."""
    return kernel.finish(kernel.client.execute(code, allow_stdin=False))


def test_a_later_cell_updates_the_display_of_the_cell_that_was_not_waited_for(fresh):
    fresh.ok(GATE)
    first = executed(fresh, f"{LATE}print('late')\nprint('odd', file=sys.stderr)\nbuiltins.there.set()\n5")
    [place] = first.displays
    assert place["data"] == {
        "text/plain": "still running on worker 1; %disco sync in a later cell waits for it"
    }
    assert first.lines == []
    second = executed(fresh, "builtins.gate.set()\nbuiltins.there.wait(20)\nh.wait()")
    assert second.value == "[1] 5"  # which has asked for it
    updates = [each["content"] for each in second.messages if each["msg_type"] == UPDATE]
    assert updates[-1]["transient"] == place["transient"]
    assert updates[-1]["data"]["text/plain"] == "[1] late\n[1] odd"
    assert [each["msg_type"] for each in second.late] == []


def test_a_value_that_nobody_has_asked_for_is_there_until_somebody_does(fresh):
    fresh.ok(GATE)
    executed(fresh, f"{LATE}print('mine')\n5")
    texts = []
    for cell in ("builtins.gate.set()\n%disco sync", "h.wait()"):
        ran = executed(fresh, cell)
        updates = [each["content"]["data"] for each in ran.messages if each["msg_type"] == UPDATE]
        texts.append(updates[-1]["text/plain"])
    assert texts == ["[1] mine\n[1] 5", "[1] mine"]


def test_a_front_end_with_a_person_before_it_gets_the_lines_themselves(fresh):
    fresh.ok(GATE)
    assert fresh.ok(f"{LATE}print('late')\nbuiltins.there.set()").displays == []
    ran = fresh.ok("builtins.gate.set()\nbuiltins.there.wait(20)\nvalue = h.wait()")
    assert UPDATE not in [each["msg_type"] for each in ran.messages]


def test_what_has_come_before_the_extension_is_unloaded_is_there(fresh):
    fresh.ok(GATE)
    executed(fresh, f"{LATE}print('late')\nbuiltins.there.set()\n5")
    ran = executed(fresh, "builtins.gate.set()\nbuiltins.there.wait(20)\n%unload_ext disco_magic")
    updates = [each["content"]["data"] for each in ran.messages if each["msg_type"] == UPDATE]
    assert updates[-1]["text/plain"].startswith("[1] late")


def sent_and_ended(code):
    """The code of a notebook's cell in which a ``--nowait`` cell has ended when it ends itself."""
    return f"get_ipython().run_cell_magic('disco', '--nowait -w 1 -o h', {code!r})\n%disco sync"


def test_a_silent_cell_that_has_ended_has_no_output(fresh):
    ran = executed(fresh, sent_and_ended("x = 1"))
    assert ran.displays == []
    ran = executed(fresh, "%disco sync")
    assert UPDATE not in [each["msg_type"] for each in ran.messages]


def test_of_a_silent_cell_that_went_on_it_says_that_it_has_ended(fresh):
    fresh.ok(GATE)
    [place] = executed(fresh, f"{LATE}pass").displays
    ran = executed(fresh, "builtins.gate.set()\n%disco sync")
    [update] = [each["content"] for each in ran.messages if each["msg_type"] == UPDATE]
    assert update["transient"] == place["transient"]
    assert update["data"] == {"text/plain": "ended on worker 1"}


COUNTED = """
from unittest.mock import patch
from disco_magic.notebook.output.page import Page
asking = patch.object(Page, "bring_up_to_date")
asked = asking.start()
"""


@pytest.mark.parametrize("code", ["x = 1", "print(1)", "5"])
def test_later_cells_do_not_ask_again_what_a_cell_has_shown_that_has_ended(fresh, code):
    # Each asked all of them: a kernel that a program drives for days became slower with every one.
    for _ in range(3):
        executed(fresh, sent_and_ended(code))
        executed(fresh, "h.wait()")
    executed(fresh, "pass")  # removes the value
    executed(fresh, COUNTED)
    ran = executed(fresh, "asking.stop()\nasked.call_count")
    assert ran.value == "0"


THREAD = """import builtins, threading
def late():
    builtins.gate.wait(20)
    print("late")
builtins.thread = threading.Thread(target=late)
builtins.thread.start()"""


def test_what_a_thread_prints_after_its_cell_has_its_place(fresh):
    fresh.ok(GATE)
    [place] = executed(fresh, sent_and_ended(THREAD)).displays
    assert place["data"] == {"text/plain": "ended on worker 1"}
    ran = executed(fresh, "builtins.gate.set()\nbuiltins.thread.join(20)")
    [update] = [each["content"] for each in ran.messages if each["msg_type"] == UPDATE]
    assert update["transient"] == place["transient"]
    assert update["data"] == {"text/plain": "[1] late"}


def test_that_a_cell_has_caught_an_error_of_a_collective_is_there_before_its_value_is_told(fresh):
    code = "try:\n    allreduce(np.zeros(1 + worker_id))\nexcept Exception:\n    pass"
    send = f"get_ipython().run_cell_magic('disco', '--nowait -o h', {code!r})\n%disco sync"
    [place] = executed(fresh, send).displays
    assert "caught PlaneMismatch at" in place["data"]["text/plain"]
