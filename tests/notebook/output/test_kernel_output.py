"""Where output goes in a real kernel: to the cell it comes from, whole, with the worker's prefix."""

from __future__ import annotations

import itertools
import re

import pytest

GATE = "import builtins, threading\nbuiltins.gate = threading.Event()"
REDIRECTED = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n"
WAITING = "%%disco --nowait -o handle\nimport builtins, sys\nbuiltins.gate.wait(20)\n"


def test_every_line_carries_its_worker_and_is_whole(fresh):
    ran = fresh.ok("%%disco\nfor i in range(500):\n    print('line', i, 'x' * 50)")
    assert sorted(ran.lines) == sorted(f"[{w}] line {i} {'x' * 50}" for w in range(4) for i in range(500))


def test_stderr_stays_stderr(fresh):
    ran = fresh.ok("%%disco -w 1\nimport sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (ran.text("stdout"), ran.text("stderr")) == ("[1] out\n", "[1] err\n")


def test_late_output_goes_to_the_cell_that_was_started_without_waiting(fresh):
    fresh.ok(GATE)
    started = fresh.send(f"{WAITING}print('late')\nprint('late', file=sys.stderr)")
    fresh.finish(started)
    second = fresh.ok("builtins.gate.set()\nhandle.wait()\nprint('done')")
    assert second.lines == ["done"]
    texts = [m["content"] for m in second.late if m["parent_header"]["msg_id"] == started]
    assert len(texts) == len(second.late)
    for name in ("stdout", "stderr"):
        text = "".join(content["text"] for content in texts if content.get("name") == name)
        assert sorted(text.splitlines()) == [f"[{worker}] late" for worker in range(4)]


def test_late_displays_go_to_their_own_cell(fresh):
    fresh.ok(GATE)
    started = fresh.send(
        f"{WAITING}from IPython.display import HTML, display\ndisplay(HTML(f'<b>{{worker_id}}</b>'))"
    )
    fresh.finish(started)
    second = fresh.ok("builtins.gate.set()\nhandle.wait()\nprint('done')")
    late = [m for m in second.late if m["msg_type"] == "display_data"]
    assert {m["parent_header"]["msg_id"] for m in late} == {started}
    assert sorted(m["content"]["data"]["text/html"] for m in late) == [
        f"<b>{worker}</b>" for worker in range(4)
    ]


def test_a_background_cell_that_fails_says_so_in_its_own_output(fresh):
    fresh.ok(GATE)
    started = fresh.send(f"{WAITING}1 / 0")
    fresh.finish(started)
    second = fresh.ok("builtins.gate.set()\nwhile not handle.done(): pass")
    third = fresh.ok("print('next')")
    text = "".join(m["content"]["text"] for m in [*second.late, *third.late] if m["msg_type"] == "stream")
    assert text.splitlines()[0] == "[0-3] ZeroDivisionError: division by zero"
    assert {m["parent_header"]["msg_id"] for m in [*second.late, *third.late]} == {started}


def test_a_display_names_its_worker_and_carries_it_as_metadata(fresh):
    ran = fresh.ok("%%disco -w 2\nfrom IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))")
    assert ran.text() == "[2]\n"
    assert ran.displays[0]["metadata"]["disco"] == {"workers": [2]}


def test_nothing_comes_between_a_display_and_its_label(fresh):
    # What had been written to stderr did: the display could be read as another worker's.
    ran = fresh.ok(
        "%%disco\nimport sys\nfrom IPython.display import HTML, display\n"
        "for _ in range(3):\n    print('careful', file=sys.stderr)\n    display(HTML('x'))"
    )
    shown = [m for m in ran.messages if m["msg_type"] in ("stream", "display_data")]
    labels = [
        (before["content"].get("name"), before["content"].get("text", "").splitlines()[-1:])
        for before, after in itertools.pairwise(shown)
        if after["msg_type"] == "display_data"
    ]
    workers = [
        m["content"]["metadata"]["disco"]["workers"][0]
        for m in ran.messages
        if m["msg_type"] == "display_data"
    ]
    assert labels == [("stdout", [f"[{worker}]"]) for worker in workers]
    assert len(workers) == 12


def test_a_plain_display_is_a_line_of_its_worker(fresh):
    ran = fresh.ok("%%disco -w 2\nfrom IPython.display import display\ndisplay(41, 'a')")
    assert ran.lines == ["[2] 41", "[2] 'a'"]


def test_an_updated_display_keeps_its_place_and_gets_no_second_label(fresh):
    ran = fresh.ok(
        "%%disco -w 3\nfrom IPython.display import HTML, display\nh = display(HTML('1'), display_id=True)\n"
        "h.update(HTML('2'))"
    )
    updates = [m for m in ran.messages if m["msg_type"] == "update_display_data"]
    assert (ran.text(), len(ran.displays), len(updates)) == ("[3]\n", 1, 1)
    assert updates[0]["content"]["transient"] == ran.displays[0]["transient"]


def test_clear_output_clears_what_the_only_worker_that_is_shown_has_written_before(fresh):
    source = "from IPython.display import clear_output\nfor i in 0, 1, 2: clear_output(wait=True), print(i)"
    messages = fresh.ok(f"%%disco -w 0\n{source}").messages
    kinds = [m["msg_type"] for m in messages if m["msg_type"] in ("stream", "clear_output")]
    assert kinds == ["clear_output", "stream"] * 3


def test_clear_output_of_one_worker_does_not_wipe_the_others(fresh):
    source = "from IPython.display import clear_output\nclear_output()"
    assert not [m for m in fresh.ok(f"%%disco\n{source}").messages if m["msg_type"] == "clear_output"]
    assert [m for m in fresh.ok(f"%%disco --show 1\n{source}").messages if m["msg_type"] == "clear_output"]


def test_capture_takes_the_lines_with_their_prefix(fresh):
    fresh.ok("%%capture caught\n%%disco --output ordered\nprint('a')\nprint('b')")
    assert fresh.ok("caught.stdout").value == repr("".join(f"[{w}] {c}\n" for w in range(4) for c in "ab"))


OWN = """
class Own:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": f"own {worker_id}", **more}
"""


def test_a_value_in_a_form_that_no_table_holds_is_displayed_by_each_worker(fresh):
    ran = fresh.ok(f"%%disco\nmore = {{'application/x-own+json': {{}}}}\n{OWN}\nOwn()")
    texts = {tuple(d["metadata"]["disco"]["workers"]): d["data"]["text/plain"] for d in ran.displays}
    assert texts == {(worker,): f"own {worker}" for worker in range(4)}
    assert all("application/x-own+json" in shown["data"] for shown in ran.displays)
    assert ran.value is None


def test_the_text_of_a_value_s_own_bundle_is_its_text(fresh):
    assert fresh.ok(f"%%disco -w 1\nmore = {{}}\n{OWN}\nOwn()").value == "[1] own 1"
    failed = fresh.run(f"%%disco -w 1\nmore = 1\n{OWN}\nOwn()")
    assert "TypeError: 'int' object is not a mapping" in failed.traceback
    assert re.search(r"in (Own\.)?_repr_mimebundle_", failed.traceback)  # IPython 9.4 names no class


@pytest.mark.parametrize("given", ["raise NotImplementedError", "return 'text'", "return None"])
def test_an_object_that_has_no_bundle_after_all_is_shown_as_ever(fresh, given):
    code = f"class Own:\n    def _repr_mimebundle_(self, **_): {given}\n    def __repr__(self): return 'own'"
    assert fresh.ok(f"%%disco -w 1\n{code}\nOwn()").value == "[1] own"


def test_an_object_is_asked_for_its_bundle_once(fresh):
    code = "class Own:\n    def _repr_mimebundle_(self, **_): return print('asked') or {'text/html': 'h'}"
    ran = fresh.ok(f"%%disco -w 1\n{code}\nOwn()")
    assert ran.lines == ["[1] asked"]


def test_capture_takes_displays_and_leaves_the_publisher_alone(fresh):
    fresh.ok(
        "%%capture caught\n%%disco -w 1\nfrom IPython.display import HTML, display\ndisplay(HTML('<i>1</i>'))"
    )
    assert fresh.ok("caught.outputs[0].data['text/html'], caught.stdout").value == "('<i>1</i>', '[1]\\n')"
    assert "'publish'" not in fresh.ok("list(vars(get_ipython().display_pub))").value


def test_redirection_left_behind_by_workers_does_not_silence_the_notebook(fresh):
    # Four interleaved exits of a process-global redirect leave a StringIO and a capturing publisher behind.
    fresh.ok(
        "%%disco\nfrom IPython.utils.capture import capture_output\nleft = capture_output()\nleft.__enter__()"
    )
    ran = fresh.ok("from IPython.display import HTML, display\ndisplay(HTML('x'))\nprint('heard')")
    assert (ran.lines, len(ran.displays)) == (["heard"], 1)


def test_what_executes_notebooks_gets_no_empty_output_of_a_cell_that_took_long(fresh):
    busy = "%%disco --progress-after 0\nimport threading\nthreading.Event().wait(0.5)\n5"
    assert fresh.ok(busy).displays
    ran = fresh.finish(fresh.client.execute(busy, allow_stdin=False))
    assert (ran.value, ran.displays) == ("[0-3] 5", [])


def test_the_next_cell_prints_into_itself(fresh):
    fresh.ok("%%disco\nprint('mine')")
    ran = fresh.ok("print('yours')")
    assert (ran.lines, ran.late) == (["yours"], [])


def test_shell_commands_print_line_by_line_with_the_worker_s_values(fresh):
    ran = fresh.ok("%%disco --output ordered\nname = f'w{worker_id}'\n!echo {name} $worker_id && echo second")
    assert ran.lines == [line for w in range(4) for line in (f"[{w}] w{w} {w}", f"[{w}] second")]


def test_a_figure_on_one_worker_becomes_html_under_its_label(fresh):
    ran = fresh.ok(
        "%%disco\nclass Pixel:\n    def _repr_png_(self): return b'\\x89PNG' + bytes([worker_id])\nPixel()"
    )
    html = next(m for m in ran.messages if m["msg_type"] == "execute_result")["content"]["data"]["text/html"]
    assert (
        html.count("data:image/png;base64,") == html.count("[0]") + html.count("[1]") + html.count("[2]") + 1
    )


def test_output_of_a_thousand_lines_costs_little_more_than_its_text(fresh):
    ran = fresh.ok(
        "%%disco\nfor i in range(1000):\n    print('a line of ordinary length, neither long nor short', i)"
    )
    messages = [m for m in ran.messages if m["msg_type"] == "stream"]
    assert len(messages) < 40
    assert sum(len(m["content"]["text"]) for m in messages) < 1.2 * 4 * sum(
        len(f"a line of ordinary length, neither long nor short {i}\n") for i in range(1000)
    )


def test_widgets_as_values_of_a_cell_are_shown_one_per_worker(fresh):
    ran = fresh.ok("%%disco\nimport ipywidgets\nipywidgets.IntSlider(value=worker_id)")
    views = [shown for shown in ran.displays if "application/vnd.jupyter.widget-view+json" in shown["data"]]
    assert sorted(shown["metadata"]["disco"]["workers"] for shown in views) == [[0], [1], [2], [3]]
    assert [
        shown["data"]["text/plain"] for shown in views if shown["metadata"]["disco"]["workers"] == [2]
    ] == ["IntSlider(value=2)"]
    assert not ran.value


def test_below_its_own_cell_a_handle_says_what_stays_true(fresh):
    sent = fresh.ok("%%disco --nowait -o h\n5").value
    assert sent.startswith("<Cell In[")
    assert sent.endswith("] was sent to workers [0-3]>")
    fresh.ok("h.wait()")
    assert "[0-3]  done  took " in fresh.ok("h").value


def test_a_thread_that_a_cell_has_left_behind_writes_and_displays_in_that_cell(fresh):
    fresh.ok(GATE)
    first = fresh.send(
        "%%disco -w 2\nimport builtins, threading\nfrom IPython.display import HTML, display\n"
        "def late():\n    builtins.gate.wait(20)\n    print('late')\n    display(HTML('<b>late</b>'))\n"
        "builtins.thread = threading.Thread(target=late)\nbuiltins.thread.start()"
    )
    fresh.finish(first)
    second = fresh.ok("builtins.gate.set()\nbuiltins.thread.join()\nprint('done')")
    assert second.lines == ["done"]
    assert {m["parent_header"]["msg_id"] for m in second.late} == {first}
    text = "".join(m["content"].get("text", "") for m in second.late)
    assert text.startswith("[2] late\n")
    assert [m["content"]["data"]["text/html"] for m in second.late if m["msg_type"] == "display_data"] == [
        "<b>late</b>"
    ]


def test_a_thread_of_a_cell_that_was_given_up_while_it_waited_for_that_is_heard_to_its_end(fresh):
    fresh.ok(GATE)
    fresh.ok("builtins.begun = threading.Event()")
    first = fresh.send(
        "%%disco -w 2 --nowait -o h\nimport builtins, threading\n"
        "def late():\n    builtins.gate.wait(20)\n    print('late')\n"
        "builtins.thread = threading.Thread(target=late)\nbuiltins.thread.start()\nbuiltins.begun.set()\n"
        "builtins.thread.join()\nprint('nobody waits for this')"
    )
    fresh.finish(first)
    fresh.ok("builtins.begun.wait(20)\nh.cancel()")
    second = fresh.ok("builtins.gate.set()\nbuiltins.thread.join()\nprint('done')")
    assert second.lines == ["done"]
    assert {m["parent_header"]["msg_id"] for m in second.late} == {first}
    assert "".join(m["content"].get("text", "") for m in second.late) == "[2] late\n"


def test_calls_that_a_cell_gives_to_the_pool_of_another_one_write_in_their_own(fresh):
    fresh.ok("%%disco\nfrom concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)")
    assert sorted(fresh.ok("%%disco\npool.submit(print, 'one').result()").lines) == [
        f"[{worker}] one" for worker in range(4)
    ]
    assert fresh.ok("%%disco -w 1\npool.submit(print, 'two').result()").lines == ["[1] two"]


def test_a_thread_of_a_cell_asks_as_its_worker(fresh):
    cell = fresh.send(
        "%%disco -w 1\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(1) as pool:\n    said = pool.submit(input, 'name? ').result()\nprint(said)"
    )
    fresh.answer("Ada")
    assert fresh.finish(cell).lines[-1] == "[1] Ada"


@pytest.mark.parametrize(
    "inside",
    [
        "contextlib.redirect_stdout(io.StringIO()).__enter__()",
        "sys.stdout = io.StringIO()",  # as many libraries do
    ],
)
def test_what_a_background_cell_puts_in_the_place_of_stdout_does_not_silence_the_notebook(fresh, inside):
    fresh.ok(GATE)
    fresh.ok(f"{WAITING}import contextlib, io\n{inside}")
    fresh.ok("builtins.gate.set()\nhandle.wait()")
    assert fresh.ok("print('heard')").lines == ["heard"]
    assert fresh.ok("%%disco\nprint('not heard')").lines == []  # as the worker wanted it
    fresh.ok("%%disco\nsys.stdout = sys.__stdout__")
    assert sorted(fresh.ok("%%disco\nprint('heard')").lines) == [f"[{worker}] heard" for worker in range(4)]
    assert fresh.ok("import sys\ntype(sys.stdout).__name__").value == "'OutStream'"


@pytest.mark.parametrize(
    "captured",
    [
        "%%capture\n{}",
        f"{REDIRECTED}    get_ipython().run_cell_magic('disco', *{{!r}}[8:].split('\\n', 1))",
    ],
)
def test_a_capture_in_which_a_background_cell_was_sent_ends_with_its_block(fresh, captured):
    fresh.ok(GATE)
    fresh.ok(captured.format(WAITING))
    assert fresh.ok("print('heard')").lines == ["heard"]
    fresh.ok("builtins.gate.set()\nhandle.wait()")
    assert fresh.ok("print('heard')").lines == ["heard"]
    assert sorted(fresh.ok("%%disco\nprint('heard')").lines) == [f"[{worker}] heard" for worker in range(4)]


def test_loggers_may_refer_to_a_worker_s_stream_weakly(fresh):
    assert fresh.ok("%%disco\nimport sys, weakref\nweakref.ref(sys.stdout)() is sys.stdout").lines == []


def test_a_background_cell_that_fails_says_so_without_another_cell(fresh, tmp_path):
    gate = tmp_path / "open"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    cell = fresh.send(f"%%disco --nowait -o h\n{wait}\n1 / 0")
    fresh.finish(cell)
    gate.touch()
    fresh.until_text(cell, "failed after its cell; the handle's .wait() shows where")
    assert fresh.ok("1 + 1").late == []


def test_a_background_cell_that_fails_and_is_asked_says_nothing(fresh):
    cell = fresh.send("%%disco --nowait -o h\n1 / 0")
    fresh.finish(cell)
    assert fresh.run("h.wait()").status == "error"
    assert fresh.ok("import time\ntime.sleep(1.2)").late == []
