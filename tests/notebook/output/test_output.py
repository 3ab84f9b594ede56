"""Lines of workers, without a shell: sinks over streams that record."""

from __future__ import annotations

import gc
import sys
import threading
import types
from collections import defaultdict

import pytest

from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.scope import shown_workers

PATIENCE_S = 30

# --- lines -----------------------------------------------------------------------------------------


def test_pieces_become_whole_lines_under_the_worker_s_prefix(texts, live):
    _, (first, second) = live(texts)
    out, other = first.writer("stdout"), second.writer("stdout")
    out("a")
    other("x\ny")
    out("b\nc")
    assert texts[0].getvalue() == "[1] x\n[0] ab\n"
    first.finish()
    second.finish()
    assert texts[0].getvalue() == "[1] x\n[0] ab\n[0] c\n[1] y\n"


@pytest.mark.parametrize("mode", ["live", "ordered", "grouped"])
def test_lines_of_ten_workers_and_more_stand_in_one_column(shell, mode):
    shell.run("%disco start -n 11")
    shell.run(f"%%disco -w 9,10 --output {mode}\nprint('x', 'y' * (worker_id % 2))")
    assert sorted(shell.lines) == ["[10] x ", "[9]  x y"]
    shell.run(f"%%disco -w 1,3 --output {mode}\nprint('x')")
    assert sorted(shell.lines) == (["[1,3] x"] if mode == "grouped" else ["[1]  x", "[3]  x"])


def test_what_a_cell_has_printed_is_freed_at_its_end_and_not_when_the_collector_comes(shell):
    # The page and what stands beside its lines referred to each other, and kept the cell's sinks.
    def pages():
        return [each for each in gc.get_objects() if type(each) is Page]

    shell.run("%disco start -n 2")
    shell.run("%%disco\nprint('x')")
    gc.collect()
    before = len(pages())
    gc.disable()
    try:
        shell.run("%%disco\nprint('x')")
        assert len(pages()) == before
    finally:
        gc.enable()


def test_both_channels_keep_their_own_unfinished_line(texts, live):
    _, (first, _) = live(texts)
    first.writer("stdout")("out")
    first.writer("stderr")("err\n")
    first.finish()
    assert [stream.getvalue() for stream in texts] == ["[0] out\n", "[0] err\n"]


def test_only_shown_workers_are_shown_and_all_are_recorded(texts, live):
    _, (first, second) = live(texts, shown=[1])
    first.writer("stdout")("a\n")
    second.writer("stdout")("b\n")
    assert (texts[0].getvalue(), first.text, second.text) == ("[1] b\n", "a\n", "b\n")


def test_a_worker_may_print_while_ipython_begins_to_record_what_the_notebook_prints(four, monkeypatch):
    gates = types.ModuleType("disco_test_gates")
    gates.go, gates.printed = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, gates.__name__, gates)

    class Outputs(defaultdict):
        """IPython's record, made in two steps: the worker prints between them."""

        def __missing__(self, number):
            outputs = self[number] = []
            gates.go.set()
            gates.printed.wait(PATIENCE_S)
            return outputs

    monkeypatch.setattr(four.ip.history_manager, "outputs", Outputs())
    body = "import disco_test_gates as gates\ngates.go.wait()\ntry:\n    print('in between')\n"
    body += "finally:\n    gates.printed.set()"
    magic = f"get_ipython().run_cell_magic('disco', '--nowait -w 0 -o handle', {body!r})"
    four.run(f"{magic}\nimport sys\nwritten = sys.stdout.write('the notebook\\n')")
    assert four.lines == ["the notebook", "[0] in between"]
    four.run("handle.wait()")


def test_lines_of_many_threads_are_never_torn(texts, live):
    _, sinks = live(texts, 4)
    start = threading.Barrier(4)

    def write(sink):
        start.wait(20)
        for i in range(300):
            sink.writer("stdout")(f"{i}")
            sink.writer("stdout")(" end\n")

    threads = [threading.Thread(target=write, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    lines = texts[0].getvalue().splitlines()
    assert sorted(lines) == sorted(f"[{w}] {i} end" for w in range(4) for i in range(300))


def test_an_abandoned_worker_writes_nowhere(texts, live):
    _, (first, _) = live(texts)
    first.writer("stdout")("before\nhalf")
    first.abandon()
    assert first.writer("stdout")("stray\n") == 6
    assert texts[0].getvalue() == "[0] before\n[0] half\n"
    assert first.text == "before\nhalf"


def test_writing_something_else_than_text_is_refused_as_by_any_stream(texts, live):
    _, (first, _) = live(texts)
    with pytest.raises(TypeError, match=r"write\(\) argument must be str, not bytes"):
        first.writer("stdout")(b"x")


def test_an_empty_piece_makes_no_line(texts, live):
    _, (first, _) = live(texts)
    first.writer("stdout")("a\n")
    first.writer("stdout")("")
    first.finish()
    assert texts[0].getvalue() == "[0] a\n"


def test_printing_while_a_line_is_being_printed_does_not_deadlock(texts, live):
    page, (first, _) = live(texts)
    with page.lock:
        first.writer("stdout")("from a finalizer\n")
    assert texts[0].getvalue() == "[0] from a finalizer\n"


# --- what is shown, and in how many pieces ---------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "show", "shown"),
    [
        ("live", None, None),
        ("live", [2], (2,)),
        ("worker0", None, (1,)),
        ("worker0", [3], (3,)),
        ("none", None, None),
    ],
)
def test_worker0_is_the_first_that_runs_the_cell_and_a_filter_goes_before_it(mode, show, shown):
    assert shown_workers(mode, (3, 1, 2), show) == shown


def test_with_worker0_lines_of_the_first_worker_only_are_shown_and_errors_of_all(four):
    error = four.fail("%%disco -w 1,2 --output worker0\nprint(worker_id)\n1 / 0")
    lines = [line for line in four.lines if line.startswith("[")]
    assert lines == ["[1] 1", "[1-2] ZeroDivisionError: division by zero"]
    assert set(error.failures) == {1, 2}


def test_what_is_kept_is_written_in_one_piece_until_the_other_channel_comes(texts, kept):
    pieces = []
    for name, stream in zip("oe", texts, strict=True):
        stream.write = lambda text, name=name: pieces.append((name, text))
    _, sinks = kept(texts, "ordered", 2)
    for sink in sinks:
        for channel in ("stdout", "stderr", "stdout"):
            sink.writer(channel)("a\nb\n")
    for sink in sinks:
        sink.finish()
    out, both = "[{0}] a\n[{0}] b\n", "[0] a\n[0] b\n[1] a\n[1] b\n"
    ends = [("o", both), ("e", out.format(1)), ("o", out.format(1))]
    assert pieces == [("o", out.format(0)), ("e", out.format(0)), *ends]
