"""Lines that are not ended, as a terminal would show them: bars, bars below bars, blank lines."""

from __future__ import annotations

import pytest

from disco_magic.functions.execution.unfinished import HELD_LIMIT, Unfinished

UP = "\x1b[A"


def yes():
    return True


def fed(*pieces):
    """What became lines by each piece, what is shown in the end, and the lines that the rest would make."""
    unfinished = Unfinished()
    lines = [unfinished.feed(piece, yes) for piece in pieces]
    shown = unfinished.shown
    return lines, shown, unfinished.rest()


@pytest.mark.parametrize(
    ("pieces", "lines", "rest"),
    [
        (["a", "b\nc", "d\n"], [[], ["ab"], ["cd"]], []),
        (["a\n\nb\n"], [["a", "", "b"]], []),
        (["a\r\nb\r\n"], [["a", "b"]], []),
        (["a\n", "\n", "b\n"], [["a"], [], ["", "b"]], []),
        (["a\n\n\n", "b"], [["a"], ["", ""]], ["b"]),
        (["\n", "\n"], [[], []], ["", ""]),
        (["\x1b[31mred\x1b[0m\n"], [["\x1b[31mred\x1b[0m"]], []),
    ],
    ids=["pieces", "blank inside", "crlf", "blank held", "two blanks held", "blanks only", "colours"],
)
def test_ordinary_text_becomes_lines_at_once_and_trailing_blank_lines_with_the_next_text(pieces, lines, rest):
    assert fed(*pieces) == (lines, [], rest)


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["\r10%", "\r20%"], ["20%"]),
        (["\r10%", "\r20%\r"], ["20%"]),
        (["x 10%", "\rx 20%"], ["x 20%"]),
        (["\r50%", "\r   "], []),
        (["\r50%", "\x1b[2K"], []),
        (["\r50%", "\r\x1b[K"], []),
        (["\r50%\x1b[K"], ["50%"]),
        (["\r\x1b[32m50%"], ["\x1b[32m50%"]),
        (["\r50%", "!"], ["50%!"]),
        (["a", "b"], []),
    ],
)
def test_a_carriage_return_starts_the_line_anew(pieces, shown):
    assert fed(*pieces)[1] == shown


def test_a_bar_that_ended_stays_until_it_is_known_that_it_ended():
    lines, shown, rest = fed("\r100%", "\n")
    assert (lines, shown, rest) == ([[], []], ["100%"], ["100%"])
    assert fed("\r100%", "\n", "next\n")[0] == [[], [], ["100%", "next"]]


def test_the_next_bar_ends_the_one_before_when_it_is_drawn_again():
    assert fed("\r100%", "\n", "\r1%", "\r2%")[0] == [[], [], [], ["100%"]]


def test_a_bar_below_another_one_is_drawn_in_its_place():
    inner = ["\n", "\rinner 1", UP]
    lines, shown, rest = fed("\router 0", *inner, "\n", "\rinner 2", UP, "\router 1", "\n", "\rinner 3", UP)
    assert not any(lines)
    assert shown == rest == ["outer 1", "inner 3"]


def test_a_bar_on_the_third_line_without_the_others_leaves_no_blank_lines():
    lines, shown, rest = fed("\n\n", "\r10%", UP + UP, "\n\n", "\r20%", UP + UP)
    assert (lines, shown, rest) == ([[]] * 6, ["20%"], ["20%"])


def test_a_lower_bar_that_ends_at_the_top_leaves_nothing_at_its_old_place():
    lines, _, rest = fed("\n\n", "\r10%", UP + UP, "\r100%", "\n")
    assert (any(lines), rest) == (False, ["100%"])


def test_without_bars_of_tqdm_every_newline_ends_a_line():
    unfinished = Unfinished()
    given = [
        unfinished.feed(piece, lambda: False)
        for piece in ("\n", "a\n\n", "\r50%", "\r100%\n", "\n", "\r1%", "\n")
    ]
    assert given == [[""], ["a", ""], [], ["100%"], [""], [], ["1%"]]
    assert (unfinished.shown, unfinished.rest()) == ([], [])


def test_the_last_bar_that_ends_is_a_line_at_once_and_leaves_nothing_at_its_old_place():
    bars = [True]
    unfinished = Unfinished()
    for piece in ("\n\n", "\r10%", UP + UP):
        assert unfinished.feed(piece, lambda: bool(bars)) == []
    bars.clear()
    given = [unfinished.feed(piece, lambda: bool(bars)) for piece in ("\r100%", "\n")]
    assert given == [[], ["100%"]]
    assert (unfinished.size, unfinished.visible, unfinished.rest()) == (0, False, [])


def test_an_inner_bar_that_stays_becomes_a_line_when_the_outer_one_goes_on():
    lines, shown, _ = fed(
        "\router 0", "\n", "\rinner 9", UP, "\rinner 10", "\n", "\router 1", "\n", "\rinner 0", UP
    )
    assert [line for each in lines for line in each] == ["inner 10"]
    assert shown == ["outer 1", "inner 0"]


def test_moving_up_by_a_number_and_beyond_the_top_stops_there():
    assert fed("\ra", "\n", "\rb", "\x1b[7A", "\rc")[1] == ["c", "b"]


def test_text_on_a_line_reached_from_below_takes_its_place():
    assert fed("\ra", "\n", "\rb", UP, "c")[1:] == (["c", "b"], ["c", "b"])


def test_a_thousand_blank_lines_are_not_held_back_until_the_end():
    unfinished = Unfinished()
    given = [line for _ in range(1000) for line in unfinished.feed("\n", yes)]
    assert 0 < 1000 - len(given) <= HELD_LIMIT
    assert given + unfinished.rest() == [""] * 1000


def test_a_flushed_line_is_shown_and_its_successor_is_not():
    unfinished = Unfinished()
    unfinished.feed("loading", yes)
    unfinished.flush()
    assert unfinished.shown == ["loading"]
    unfinished.feed(" done\nnext", yes)
    assert (unfinished.visible, unfinished.shown) == (False, [])


def test_the_size_is_that_of_what_is_there():
    unfinished = Unfinished()
    for step in range(1000):
        unfinished.feed(f"\r{step:03}", yes)
    assert unfinished.size == 3
    unfinished.feed("45", yes)
    assert unfinished.size == 5
    unfinished.rest()
    assert unfinished.size == 0
