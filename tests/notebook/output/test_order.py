"""Output that is kept until the end of a cell, and the order in which it is shown."""

from __future__ import annotations

import re

import pytest

# --- orders ----------------------------------------------------------------------------------------


def write_out_of_order(sinks):
    sinks[2].writer("stdout")("two\n")
    sinks[0].writer("stderr")("warning\n")
    sinks[0].writer("stdout")("zero\n")
    sinks[1].writer("stdout")("one\n")
    for sink in sinks:
        sink.finish()


def test_ordered_output_comes_at_the_end_by_worker(texts, kept):
    _, sinks = kept(texts, "ordered")
    sinks[0].writer("stdout")("x\n")
    assert texts[0].getvalue() == ""
    write_out_of_order(sinks)
    assert texts[0].getvalue() == "[0] x\n[0] zero\n[1] one\n[2] two\n"
    assert texts[1].getvalue() == "[0] warning\n"


def test_grouped_output_shows_equal_text_once(texts, kept):
    _, sinks = kept(texts, "grouped")
    for worker in (2, 0, 1):
        sinks[worker].writer("stdout")("same\n" if worker != 1 else "other\n")
    for sink in sinks:
        sink.finish()
    assert texts[0].getvalue() == "[0,2] same\n[1] other\n"


def test_digits_make_a_difference_when_output_is_grouped(texts, kept):
    _, sinks = kept(texts, "grouped", 2)
    for worker, sink in enumerate(sinks):
        sink.writer("stdout")(f"loss 0.{worker}\n")
        sink.finish()
    assert texts[0].getvalue() == "[0] loss 0.0\n[1] loss 0.1\n"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("type", "so0 so1 se0 d0a d0b d1a d1b"),
        ("order", "so0 so1 se0 d0a d1a d0b d1b"),
        ("engine", "se0 so0 d0a d0b so1 d1a d1b"),
    ],
)
def test_groupings_of_px_keep_their_meaning(texts, mode, expected, kept):
    shown = []
    for stream in texts:
        stream.write = lambda text: shown.extend(re.findall(r"s[oe]\d", text))
    _, sinks = kept(texts, mode, 2)
    sinks[0].writer("stderr")("se0\n")
    for worker, sink in enumerate(sinks):
        sink.writer("stdout")(f"so{worker}\n")
        for turn in "ab":
            sink.display(
                lambda data, **_: shown.append(data["text/html"]), {"text/html": f"d{worker}{turn}"}, {}
            )
    for sink in sinks:
        sink.finish()
    assert " ".join(shown) == expected


def test_kept_output_is_bounded_and_says_what_it_left_out(texts, monkeypatch, kept):
    monkeypatch.setattr("disco_magic.notebook.output.afterwards.LIMIT", 10)
    _, sinks = kept(texts, "ordered", 1)
    for i in range(100):
        sinks[0].writer("stdout")(f"line {i}\n")
    sinks[0].finish()
    assert texts[0].getvalue().splitlines() == [
        "[0] line 0",
        "[0] line 1",
        "[0] ... 98 more lines left out ...",
    ]


def test_a_worker_that_never_began_does_not_keep_the_others_output_back(texts, kept):
    page, sinks = kept(texts, "ordered", 2)
    sinks[0].writer("stdout")("here\n")
    sinks[0].finish()
    page.close()
    page.close()
    assert texts[0].getvalue() == "[0] here\n"


def test_a_thread_that_outlives_the_cell_is_shown_as_it_writes(texts, kept):
    _, sinks = kept(texts, "ordered", 1)
    sinks[0].finish()
    sinks[0].writer("stdout")("later\n")
    assert texts[0].getvalue() == "[0] later\n"


def test_clearing_forgets_what_the_worker_wrote_so_far(texts, kept):
    _, sinks = kept(texts, "ordered", 2)
    sinks[0].writer("stdout")("old\n")
    sinks[1].writer("stdout")("other\n")
    sinks[0].clear(lambda **_: None, wait=False)
    sinks[0].writer("stdout")("new\n")
    for sink in sinks:
        sink.finish()
    assert texts[0].getvalue() == "[0] new\n[1] other\n"
