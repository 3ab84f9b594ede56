"""What blocks with names add up to, by worker."""

from __future__ import annotations

from dataclasses import replace

from disco_magic.core.named_blocks import MOST_NAMES
from disco_magic.core.timeline import Span, Timeline


def timeline(*spans, workers=2, end_s=10.0):
    return Timeline(
        1, workers, tuple(spans), 0.0, end_s, (0.0,) * workers, (0,) * workers, tuple(range(workers))
    )


def block(worker, label, start_s, end_s):
    return Span(worker, "span", label, start_s, end_s)


def test_names_that_differ_in_digits_are_one_and_those_that_took_longest_come_first():
    spans = [block(0, "F0", 0.0, 1.0), block(0, "F12", 1.0, 4.0), block(1, "F0", 0.0, 2.0)]
    blocks = timeline(*spans, block(1, "B0 of 3", 2.0, 9.0), block(1, "step", 9.0, 9.5)).named()
    assert [each.name for each in blocks] == ["B0 of 3", "F#", "step"]
    assert (blocks[1].count, blocks[1].seconds) == ({0: 2, 1: 1}, {0: 4.0, 1: 2.0})
    assert [blocks[1].cell(worker) for worker in range(3)] == ["2 \u00d7 2.00 s", "1 \u00d7 2.00 s", ""]


def test_what_a_window_cuts_counts_with_the_part_that_is_in_it():
    whole = timeline(block(0, "a", 1.0, 5.0), block(0, "a", 8.0, 9.0), block(1, "a", 0.0, 9.0))
    (part,) = replace(whole.between(4.0, 7.0), workers=(0,)).named()
    assert (part.count, part.seconds) == ({0: 1}, {0: 1.0})


def test_they_are_below_the_numbers_of_a_timeline():
    lines = str(timeline(block(0, "F1", 0.0, 1.0), block(0, "F2", 1.0, 2.0))).splitlines()
    assert lines[-3:] == ["worker          F#", "     0  2 \u00d7 1.00 s", "     1"]
    assert "#" not in str(timeline())


def test_many_and_long_names_leave_room_for_others():
    many = [block(0, "x" * 30 + "\n" + "y" * number, 0.0, 9.0 - number) for number in range(MOST_NAMES + 2)]
    text = str(timeline(*many))
    assert text.count("x" * 23 + "\u2026") == MOST_NAMES
    assert "2 further names of worker.span took less" in text


def test_the_mean_of_short_blocks_is_not_zero():
    (blocks,) = timeline(block(0, "step", 0.0, 21e-6), block(0, "step", 1.0, 1.0 + 21e-6)).named()
    assert blocks.cell(0) == "2 \u00d7 21 \u00b5s"
