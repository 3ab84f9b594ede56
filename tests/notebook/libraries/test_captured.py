"""ipywidgets' Output on workers, in a real kernel: each worker's own."""

from __future__ import annotations

import ast
from weakref import WeakSet

import pytest

from disco_magic.notebook.libraries import contents

pytest.importorskip("ipywidgets")
OUT = (
    "%%disco\nimport ipywidgets as W\n"
    "from IPython.display import HTML, clear_output, display\nout = W.Output()\n"
)


def kept(fresh, worker):
    """What is in a worker's widget."""
    fresh.ok("%%disco\nkept = [dict(each) for each in out.outputs]")
    return ast.literal_eval(
        fresh.ok(f"import disco_magic\ndisco_magic.session()['kept'].get({worker})").value
    )


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def test_what_a_worker_writes_goes_into_its_own_widget_and_no_other_s(fresh):
    ran = fresh.ok(
        f"{OUT}print('before')\nwith out:\n    print('in', worker_id)\n    barrier()\n    print('too')\n"
        "print('after')"
    )
    assert sorted(ran.lines) == sorted(f"[{w}] {word}" for w in range(4) for word in ("before", "after"))
    for worker in range(4):
        assert kept(fresh, worker) == [stream(f"in {worker}\ntoo\n")]


def test_a_block_adds_to_what_is_there_and_clears_when_it_is_told_to(fresh):
    fresh.ok(f"{OUT}for i in range(2):\n    with out:\n        print(i)")
    assert kept(fresh, 1) == [stream("0\n1\n")]
    fresh.ok("%%disco\nwith out:\n    clear_output(wait=True)\n    print('new')")
    assert kept(fresh, 1) == [stream("new\n")]
    fresh.ok("%%disco\nout.clear_output()")
    assert kept(fresh, 1) == []


def test_displays_stay_in_their_order_and_can_be_updated(fresh):
    fresh.ok(
        f"{OUT}import sys\nwith out:\n    print('a')\n    h = display(HTML('<b>1</b>'), display_id=True)\n"
        "    print('b', file=sys.stderr)\n    h.update(HTML('<b>2</b>'))\n    print('c', end='')"
    )
    first, shown, second, third = kept(fresh, 3)
    assert (first, second, third) == (stream("a\n"), stream("b\n", "stderr"), stream("c\n"))
    assert (shown["output_type"], shown["data"]["text/html"]) == ("display_data", "<b>2</b>")


def test_an_error_is_shown_in_the_widget_and_the_cell_goes_on(fresh):
    ran = fresh.ok(f"{OUT}with out:\n    print('x')\n    1 / worker_id\nprint('after')")
    assert sorted(ran.lines) == [f"[{w}] after" for w in range(4)]
    assert kept(fresh, 1) == [stream("x\n")]
    text, error = kept(fresh, 0)
    assert (text, error["ename"], error["evalue"]) == (stream("x\n"), "ZeroDivisionError", "division by zero")
    assert "line 7, in <module>" in error["traceback"][0]
    assert ".py" not in error["traceback"][0]


def test_the_stop_button_is_not_caught(fresh):
    source = f"{OUT}after = 0\nprint('ready')\nwith out:\n    print('in')\n    while True: pass\nafter = 1"
    cell = fresh.send(source)
    before = fresh.until_text(cell, "ready\n", times=4)
    fresh.interrupt()
    assert fresh.finish(cell, before).error["ename"] == "KeyboardInterrupt"
    assert fresh.ok("%%disco\nafter").value == "[0-3] 0"
    assert all(output["output_type"] != "error" for output in kept(fresh, 0))
    ran = fresh.ok("%%disco\nprint('here')")
    assert sorted(ran.lines) == [f"[{w}] here" for w in range(4)]


def test_blocks_within_blocks(fresh):
    fresh.ok(
        f"{OUT}other = W.Output()\nwith out:\n    print(1)\n    with other:\n        print(2)\n    print(3)"
    )
    assert kept(fresh, 2) == [stream("1\n3\n")]
    fresh.ok("%%disco\nout = other")
    assert kept(fresh, 2) == [stream("2\n")]


def test_a_block_that_another_one_outlives_ends_where_it_ends(fresh):
    ran = fresh.run(
        f"{OUT}other = W.Output()\nwith out:\n    other.__exit__(None, None, None)\n    print('in')"
    )
    assert ran.status == "ok", ran.traceback
    assert kept(fresh, 0) == [stream("in\n")]


def test_much_is_sent_now_and_then_and_is_all_there_in_the_end(fresh):
    fresh.ok(f"{OUT}with out:\n    for i in range(5000): print(i)")
    (all_of_it,) = kept(fresh, 0)
    assert all_of_it == stream("".join(f"{i}\n" for i in range(5000)))


def test_interact_prints_first_into_the_widget_of_its_worker(fresh):
    ran = fresh.ok(
        f"{OUT}w = W.interactive(lambda x: print('x', x, worker_id), x=(0, 10))\nw.update()\nout = w.out"
    )
    assert ran.text() == ""
    for worker in range(4):
        assert kept(fresh, worker) == [stream(f"x 5 {worker}\n")]


def test_in_the_notebook_it_is_ipywidgets_own(fresh):
    fresh.ok("%%disco\nimport ipywidgets")
    ran = fresh.ok(
        "import ipywidgets as W\nout = W.Output()\nwith out:\n    inside = out.msg_id\n"
        "(len(inside) > 0, out.msg_id)"
    )
    assert ran.value == "(True, '')"
    fresh.ok("%unload_ext disco_magic")
    for name in ("__enter__", "append_stdout"):
        assert fresh.ok(f"hasattr(W.Output.{name}, '__wrapped__')").value == "False"


def test_what_was_written_is_shown_soon_also_if_nothing_follows(fresh):
    source = (
        f"{OUT}import time\nwith out:\n    print(1)\n    print(2)\n"
        "    while not out.outputs or out.outputs[0]['text'] != '1\\n2\\n': time.sleep(0.01)"
    )
    fresh.ok(source)


def test_figures_are_the_worker_s_within_a_block_too(fresh):
    pytest.importorskip("matplotlib", reason="the extra 'test' has it")
    fresh.ok("%matplotlib inline")
    source = (
        f"{OUT}import matplotlib.pyplot as plt\nfigure = plt.figure()\nwith out:\n"
        "    same = plt.gcf() is figure\n    plt.plot([worker_id, 1])\n    plt.show()\n"
        "same, plt.get_fignums()"
    )
    assert fresh.ok(source).value == "[0-3] (True, [])"
    (shown,) = kept(fresh, 3)
    assert "image/png" in shown["data"]


# --- several blocks of one widget ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "held"),
    [
        ("print(1)\n    with out:\n        print(2)\n    print(3)", "1\n2\n3\n"),
        ("print(1)\n    step(2)\n    step(3)\n    print(4)", "1\n2\n3\n4\n"),
        ("print(1)\n    out.clear_output()\n    print(2)", "2\n"),
        ("print(1)\n    out.clear_output(wait=True)\n    print(2)", "2\n"),
        ("print(1)\n    out.outputs = ()\n    print(2)", "2\n"),
        ("print(1, end='')\n    step(2)", "12\n"),
    ],
)
def test_a_widget_within_itself(fresh, block, held):
    fresh.ok(f"{OUT}def step(i):\n    with out:\n        print(i)\nwith out:\n    {block}")
    text = "".join(each["text"] for each in kept(fresh, 2))
    assert text == held


def test_what_others_put_into_a_widget_stays_there(fresh):
    fresh.ok(
        f"{OUT}with out:\n    print(1)\n    print(2)\n    out.append_stdout('A')\n    print(3)\n"
        "out.append_stderr('B')\nwith out:\n    print(4)\nout.append_display_data(HTML('C'))"
    )
    *texts, shown = kept(fresh, 0)
    assert texts == [stream("1\n2\n"), stream("A3\n"), stream("B", "stderr"), stream("4\n")]
    assert shown["data"]["text/html"] == "C"


def test_a_clearing_that_waits_waits_for_the_next_block_too(fresh):
    fresh.ok(
        f"{OUT}@out.capture(clear_output=True, wait=True)\ndef show(i):\n    print(i)\n"
        "for i in range(4): show(i)"
    )
    assert kept(fresh, 0) == [stream("3\n")]
    fresh.ok("%%disco\nout.clear_output(wait=True)")
    assert kept(fresh, 1) == [stream("3\n")]
    fresh.ok("%%disco\nwith out: print('new')")
    assert kept(fresh, 1) == [stream("new\n")]


@pytest.mark.parametrize("update", ["with out:\n    h.update(HTML('2'))", "h.update(HTML('2'))"])
def test_a_display_is_updated_where_it_stands_also_from_elsewhere(fresh, update):
    fresh.ok(f"{OUT}with out:\n    print('a')\n    h = display(HTML('1'), display_id=True)\n    print('b')")
    ran = fresh.ok(f"%%disco\n{update}")
    assert ran.displays == []
    first, shown, last = kept(fresh, 3)
    assert (first, shown["data"]["text/html"], last) == (stream("a\n"), "2", stream("b\n"))


def test_one_widget_of_several_workers_keeps_everything(fresh):
    fresh.ok("import sys, ipywidgets\nsys.shared = ipywidgets.Output()")
    fresh.ok(
        f"{OUT}import sys\nout = sys.shared\nwith out:\n    for i in range(5): print(worker_id, i)\n"
        "    barrier()"
    )
    lines = "".join(each["text"] for each in kept(fresh, 0)).splitlines()
    assert sorted(lines) == sorted(f"{worker} {i}" for worker in range(4) for i in range(5))


def test_blocks_that_cross_end_one_by_one(fresh):
    ran = fresh.ok(
        f"{OUT}other = W.Output()\nout.__enter__()\nother.__enter__()\nout.__exit__(None, None, None)\n"
        "print('in')\nother.__exit__(None, None, None)\nprint('after')"
    )
    assert sorted(ran.lines) == [f"[{worker}] after" for worker in range(4)]
    assert kept(fresh, 0) == []
    fresh.ok("%%disco\nout = other")
    assert kept(fresh, 0) == [stream("in\n")]


def test_a_block_that_no_cell_has_ended_ends_with_its_cell(fresh):
    fresh.ok(f"{OUT}import gc, sys\nout.__enter__()\nprint('in')")
    ran = fresh.ok("%%disco\nprint('here')\nout.__exit__(None, None, None)\nprint('there')")
    assert sorted(ran.lines) == sorted(f"[{w}] {word}" for w in range(4) for word in ("here", "there"))
    for _ in range(5):
        fresh.ok("%%disco\nout.__enter__()")
    fresh.ok("%%disco\nwith out: print('last')")
    assert kept(fresh, 0) == [stream("in\nlast\n")]
    assert fresh.left("disco_magic.notebook.libraries.captured", "Capture") == 0


def test_what_shows_it_later_is_no_thread_of_a_worker_s(fresh):
    ran = fresh.ok(
        f"{OUT}import threading\nfrom disco_magic.functions.context import calling_worker\nseen = []\n"
        "def look(_): seen.append((threading.current_thread().name, calling_worker() is None))\n"
        "out.observe(look, 'outputs')\nwith out:\n"
        "    while 'disco-later' not in dict(seen): print('x')\n"
        "[nobody for name, nobody in seen if name == 'disco-later'][0]"
    )
    assert ran.value == "[0-3] True"


def test_the_end_of_a_cell_looks_at_all_widgets_while_nobody_adds_one(monkeypatch):
    seen = []

    class Waiting(WeakSet):
        def __iter__(self):
            seen.append(contents._lock._is_owned())
            return super().__iter__()

    class One:
        def put(self):
            seen.append(self)

    one = One()
    monkeypatch.setattr(contents, "_waiting", Waiting([one]))
    contents.show_all()
    assert seen == [True, one]


def test_blocks_by_the_hundred_are_not_sent_by_the_hundred(fresh):
    ran = fresh.ok(f"{OUT}for i in range(500):\n    with out: print(i)")
    assert kept(fresh, 0) == [stream("".join(f"{i}\n" for i in range(500)))]
    sent = [each for each in ran.messages if each["msg_type"] == "comm_msg"]
    assert 4 <= len(sent) < 1000  # 2,000 blocks have ended; some ten of them a second are shown at once


def test_what_other_workers_did_is_not_hidden_in_a_widget(fresh):
    ran = fresh.run(
        f"{OUT}with out:\n    if worker_id == 1: raise ValueError('lost')\n    barrier()\nprint('after')"
    )
    assert ran.status == "error"
    assert "PlaneAborted" in ran.traceback
    assert [each["ename"] for each in kept(fresh, 1)] == ["ValueError"]
    assert kept(fresh, 0) == []
