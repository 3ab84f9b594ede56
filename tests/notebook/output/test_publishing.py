"""display() and clear_output() on workers, with a front end that records what reaches it."""

from __future__ import annotations

import builtins
import gc
import sys
import threading
from functools import partial
from weakref import ref

import pytest
from IPython.core.displaypub import DisplayPublisher


class FrontEnd(DisplayPublisher):
    """Shows rich data, as a kernel's publisher does; keeps what it was sent."""

    def __init__(self, shell):
        super().__init__(parent=shell)
        self.shown = []

    def publish(self, data, metadata=None, **kwargs):
        self.shown.append((data, metadata, kwargs))

    def clear_output(self, wait=False):
        self.shown.append(("clear", wait))


@pytest.fixture
def front(four):
    """The recording front end; cells find it as `pub`."""
    front = FrontEnd(four.ip)
    four.ip.display_pub = front
    builtins.pub = front  # the fixture `bare` removes what is new there
    four.run("%%disco\nimport builtins\ndef show(data, **k):\n    builtins.pub.publish(data, **k)")
    front.shown.clear()
    return front


HTML = "{'text/plain': 'p', 'text/html': f'<b>{worker_id}</b>'}"


def test_rich_data_is_labelled_and_says_which_worker_it_is_from(four, front):
    four.run(f"%%disco -w 2\nshow({HTML})")
    assert four.lines == ["[2]"]
    assert front.shown == [({"text/plain": "p", "text/html": "<b>2</b>"}, {"disco": {"workers": [2]}}, {})]


def test_metadata_of_the_caller_is_kept(four, front):
    four.run(f"%%disco -w 1\nshow({HTML}, metadata={{'a': 1}})")
    assert front.shown[0][1] == {"a": 1, "disco": {"workers": [1]}}


def test_an_unfinished_line_comes_before_the_display(four, front):
    four.run(f"%%disco -w 0\nprint('half', end='')\nshow({HTML})\nprint('after')")
    assert four.lines == ["[0] half", "[0]", "[0] after"]


def test_a_display_is_labelled_once_also_if_a_patch_was_put_over_ours_while_a_cell_ran(four, front):
    # Ours stayed below the patch. The next cell wrapped that, and each of the two wrote the label.
    builtins.gate = threading.Event()
    four.run("%%disco --nowait\nimport builtins\nbuiltins.gate.wait();")
    front.publish = partial(front.publish)
    builtins.gate.set()
    four.run("%disco sync")
    for _ in range(2):
        four.run(f"%%disco -w 2\nshow({HTML})")
        assert four.lines == ["[2]"]
    assert len(front.shown) == 2


def ids(front):
    return [kwargs["transient"]["display_id"] for _, _, kwargs in front.shown]


def test_each_worker_updates_the_display_that_it_has_named_itself(four, front):
    named = "transient={'display_id': 'progress'}"
    four.run(f"%%disco\nshow({HTML}, {named})")
    first = ids(front)
    assert len(set(first)) == 4
    four.run(f"%%disco\nshow({HTML}, {named}, update=True)")
    assert sorted(ids(front)[4:]) == sorted(first)
    front.shown.clear()
    four.run(f"%%disco -w 2\nshow({HTML}, {named}, update=True)")
    assert ids(front) == [each for each in first if "worker 2" in each]


@pytest.mark.parametrize("first", ["live", "ordered", "grouped"])
@pytest.mark.parametrize("second", ["live", "ordered", "grouped"])
def test_so_it_does_where_output_waits_for_the_end_of_the_cell(four, front, first, second):
    named = "transient={'display_id': 'progress'}"
    four.run(f"%%disco --output {first}\nshow({HTML}, {named})")
    shown = ids(front)
    assert len(set(shown)) == 4
    four.run(f"%%disco --output {second}\nshow({HTML}, {named}, update=True)")
    assert sorted(ids(front)[4:]) == sorted(shown)


def test_equal_displays_that_can_be_updated_are_shown_by_themselves(four, front):
    four.run(f"%%disco --output grouped\nshow({HTML}, transient={{'display_id': f'{{worker_id:032x}}'}})")
    assert ids(front) == [f"{worker:032x}" for worker in range(4)]


def test_what_the_notebook_has_shown_can_be_updated_and_the_reverse(four, front):
    four.run(f"%%disco\nshow({HTML}, transient={{'display_id': 'of the notebook'}}, update=True)")
    four.run(f"%%disco -w 1\nshow({HTML}, transient={{'display_id': 'mine'}})")
    made_up = "0123456789abcdef" * 2
    four.run(f"%%disco\nshow({HTML}, transient={{'display_id': {made_up!r}}})")
    assert ids(front) == ["of the notebook"] * 4 + ["mine"] + [made_up] * 4


def test_updates_have_no_label_and_plain_text_with_an_id_stays_a_display(four, front):
    four.run("%%disco -w 0\nshow({'text/plain': 'p'}, transient={'display_id': '1'})")
    assert four.lines == ["[0]"]
    four.run("%%disco -w 0\nshow({'text/plain': 'q'}, transient={'display_id': '1'}, update=True)")
    assert four.out == ""
    assert [data["text/plain"] for data, _, _ in front.shown] == ["p", "q"]


def test_plain_text_becomes_lines(four, front):
    four.run("%%disco -w 3\nshow({'text/plain': 'a\\nb'})")
    assert four.lines == ["[3] a", "[3] b"]
    assert front.shown == []


def test_the_notebook_s_own_displays_go_through_untouched(four, front):
    four.run("import builtins, threading\nbuiltins.gate = threading.Event()")
    four.run("%%disco --nowait -o h\nbuiltins.gate.wait(20)")
    assert "publish" in vars(front)
    four.run("builtins.pub.publish({'text/plain': 'mine'})\nbuiltins.pub.clear_output(wait=True)")
    four.run("builtins.gate.set()\nh.wait()")
    assert ({"text/plain": "mine"}, None, {}) in front.shown
    assert ("clear", True) in front.shown


def test_kept_displays_come_in_order_and_equal_ones_once(four, front):
    four.run(f"%%disco --output ordered\nshow({HTML})")
    assert [data["text/html"] for data, _, _ in front.shown] == [f"<b>{worker}</b>" for worker in range(4)]
    assert four.lines == [f"[{worker}]" for worker in range(4)]
    front.shown.clear()
    four.run("%%disco --output grouped\nshow({'text/plain': '', 'text/html': str(worker_id // 2)})")
    assert four.lines == ["[0-1]", "[2-3]"]
    assert [metadata for _, metadata, _ in front.shown] == [
        {"disco": {"workers": w}} for w in ([0, 1], [2, 3])
    ]


def test_displays_of_workers_that_are_not_shown_are_not_shown(four, front):
    four.run(f"%%disco --show 1\nshow({HTML})")
    assert [data["text/html"] for data, _, _ in front.shown] == ["<b>1</b>"]
    front.shown.clear()
    four.run(f"%%disco --output none\nshow({HTML})")
    assert front.shown == []


def test_clearing_is_for_a_worker_that_is_shown_alone(four, front):
    four.run("%%disco\nbuiltins.pub.clear_output()")
    assert front.shown == []
    four.run("%%disco --show 2\nbuiltins.pub.clear_output(wait=True)")
    assert front.shown == [("clear", True)]


def test_the_publisher_is_left_as_it_was(four, front):
    before = dict(vars(front))
    four.run(f"%%disco\nshow({HTML})")
    assert vars(front) == before
    vars(front)["publish"] = own = lambda *_, **__: None
    four.run(f"%%disco\nshow({HTML})")
    assert vars(front)["publish"] is own


@pytest.mark.parametrize("name", ["publish", "clear_output"])
def test_what_a_cell_puts_over_the_publisher_stays(four, front, name):
    # Recorders of displays replace a publisher's methods, and may do so while ours are there.
    other = {"publish": "clear_output", "clear_output": "publish"}[name]
    four.run(f"%%disco -w 0\nbuiltins.pub.{name} = builtins.print")
    assert vars(front)[name] is print
    assert other not in vars(front)
    four.run(f"%%disco -w 0\ndel builtins.pub.{name}")
    assert name not in vars(front)


def test_in_a_terminal_rich_data_is_its_text(four):
    builtins.pub = four.ip.display_pub
    four.run(f"%%disco -w 1\nimport builtins\nbuiltins.pub.publish({HTML})")
    assert four.lines == ["[1] p"]


def test_what_a_cell_did_to_the_streams_is_undone(four):
    before = sys.stdout, sys.stderr, sys.displayhook, four.ip.display_pub, four.ip.displayhook
    try:
        four.ip.run_cell("import builtins\nbuiltins.shell_under_test = get_ipython()")
        four.ip.run_cell(
            "%%disco\nimport builtins, io, sys\nip = builtins.shell_under_test\nsys.stdout = io.StringIO()\n"
            "sys.displayhook = print\nip.display_pub = type(ip.display_pub)(shell=ip)\n"
            "ip.displayhook = type(ip.displayhook)(shell=ip)"
        )
        assert (sys.stdout, sys.stderr, sys.displayhook, four.ip.display_pub, four.ip.displayhook) == before
    finally:
        del builtins.shell_under_test


def test_functions_without_a_name_that_are_equal_are_shown_once_as_those_with_one(four):
    four.run("%%disco\ndef f(): pass\nf")
    named = four.lines
    four.run("%%disco\nlambda: 3")
    assert [line.partition("<")[0] for line in (*named, *four.lines)] == ["[0-3] "] * 2
    four.run("%%disco\n[(lambda: 3), (lambda x: x)][worker_id % 2]")
    assert [line.partition("<")[0] for line in four.lines] == ["[0,2] ", "[1,3] "]


def test_what_a_tool_wraps_between_two_cells_is_called_by_the_second_one(four, front):
    """Our wrappers are kept for the next cell, and would have called what they had found first."""
    four.run(f"%%disco -w 0\nshow({HTML})")
    front.shown.clear()
    front.publish = lambda data, **_: front.shown.append(("tool", data["text/plain"]))
    four.run(f"%%disco -w 0\nshow({HTML})")
    assert front.shown == [("tool", "p")]
    del front.publish
    four.run(f"%%disco -w 0\nshow({HTML})")
    assert len(front.shown) == 2
    assert front.shown[1][0]["text/plain"] == "p"


def test_a_publisher_that_captures_is_let_go_when_its_cell_has_ended(four):
    class Captures(DisplayPublisher):
        pass

    before, seen = four.ip.display_pub, []

    def capture():
        four.ip.display_pub = captures = Captures(parent=four.ip)
        try:
            four.ip.run_cell_magic("disco", "-w 0", "pass")
        finally:
            four.ip.display_pub = before
        seen.append(ref(captures))

    four.ip.user_ns["capture"] = capture
    four.run("capture()")
    gc.collect()
    assert seen[0]() is None
