"""Where workers went apart that did not make the same collective calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disco_magic.core.partings import lines_of, parting
from disco_magic.core.timeline import Span

ALL = (0, 1, 2)


def calls(lines, members=ALL, seq=7, verb="allreduce"):
    """Worker -> the lines of its calls, as spans."""
    return [
        Span(
            worker,
            "collective",
            f"{verb}()",
            number,
            number + 1,
            f"line {line}",
            meeting=(members, seq, number),
        )
        for worker, made in lines.items()
        for number, line in enumerate(made, 1)
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            {0: [4, 6, 6, 6], 1: [6, 6, 6], 2: [6, 6, 6]},
            (
                "worker 0 made 4, workers [1-2] made 3; "
                "call 1 met at different lines: worker 0 at line 4, workers [1-2] at line 6"
            ),
        ),
        ({0: [3] * 3, 1: [3] * 3, 2: [3] * 1001}, "workers [0-1] made 3, worker 2 made 1,001"),
        (
            {0: [1, 2, 3, 4], 1: [1, 3, 4, 5], 2: [1, 3, 4, 5]},
            "call 2 met at different lines: worker 0 at line 2, workers [1-2] at line 3",
        ),
        (
            {0: [1, 3, 3, 3], 1: [1, 2, 3, 3, 3], 2: [1, 2, 3, 3, 3]},
            (
                "worker 0 made 4, workers [1-2] made 5; "
                "call 2 met at different lines: worker 0 at line 3, workers [1-2] at line 2"
            ),
        ),
    ],
    ids=["one more", "a longer loop", "as many", "one less"],
)
def test_numbers_of_calls_and_the_first_that_met_at_different_lines_are_told(lines, said):
    assert parting(calls(lines), 7) == f"collective calls: {said}"


def test_calls_at_one_line_part_where_what_led_there_does():
    # A helper function, which worker 0 has called once too often.
    lines = {0: [4, 6, 6], 1: [6, 6], 2: [6, 6]}
    spans = [replace(each, site="line 1", callers=(each.site,)) for each in calls(lines)]
    where = "at line 1, called by worker 0 from line 4, workers [1-2] from line 6"
    assert parting(spans, 7) == (
        f"collective calls: worker 0 made 3, workers [1-2] made 2; call 1 met {where}"
    )


@pytest.mark.parametrize(
    "lines",
    [
        {0: [1, 2], 1: [1, 2], 2: [1, 2]},
        {0: [1, 2], 1: [1, 3], 2: [1, 2]},  # the last call, whose error says so
        {0: [1, 1], 1: [1, 1], 2: []},  # as this does
        {0: [3, 6, 7], 1: [5, 6, 7], 2: [5, 6, 7]},  # a root has a line of its own
        {0: [3, 6], 1: [5, 6], 2: [4, 6]},
        {},
    ],
    ids=["alike", "the last", "none", "a root", "three branches", "nobody"],
)
def test_what_the_error_says_itself_is_not_repeated(lines):
    assert parting(calls(lines), 7) == ""


def led(*ways, verb="allreduce"):
    """A call of each worker at the same line, reached by these ways."""
    return [
        Span(worker, "collective", f"{verb}()", 1, 2, "line 9", meeting=(ALL, 7, 1), callers=way)
        for worker, way in enumerate(ways)
    ]


@pytest.mark.parametrize(
    ("ways", "said"),
    [
        ([("line 1",), ("line 2",), ("line 2",)], "worker 0 from line 1, workers [1-2] from line 2"),
        ([("a", "x"), ("a", "x"), ("a", "y")], "workers [0-1] from x, worker 2 from y"),
        ([("a", "a"), ("a",), ("a", "a")], "workers [0,2] from a, worker 1 from elsewhere"),
    ],
)
def test_calls_at_one_line_are_compared_by_what_led_there(ways, said):
    assert lines_of(led(*ways), 7).apart == (f"call 1, allreduce() at line 9, called by {said}",)
    assert lines_of(led(ways[0], ways[0], ways[0]), 7).apart == ()


def test_a_root_may_come_another_way():
    assert lines_of(led(("x",), ("y",), ("y",), verb="broadcast"), 7).apart == ()
    assert lines_of(led(("x",), ("y",), ("z",), verb="broadcast"), 7).apart != ()


def test_only_calls_of_the_command_and_of_the_same_members_are_compared():
    apart = {0: [1, 2, 2], 1: [2, 2, 2]}
    pair = [*calls(apart, seq=6), *calls({0: [1, 2], 2: [1, 2]}, (0, 2)), *calls(apart, (0, 1))]
    waiting = Span(0, "waiting", "allreduce()", 0, 1, "line 9")
    said = "call 1 met at different lines: worker 0 at line 1, worker 1 at line 2"
    assert parting([waiting, *pair], 7) == f"collective calls: {said}"
    assert parting(pair, 5) == ""


# --- calls that fit to the end ---------------------------------------------------------------------


def test_calls_in_another_order_are_told_one_by_one():
    compared, met, apart, first, _ = lines_of(calls({0: [3, 4, 9], 1: [4, 3, 9], 2: [4, 3, 9]}), 7)
    assert (compared, met, first) == (3, 2, 1)
    assert apart == (
        "call 1, allreduce(): worker 0 at line 3, workers [1-2] at line 4",
        "call 2, allreduce(): worker 0 at line 4, workers [1-2] at line 3",
    )


@pytest.mark.parametrize("verb", ["broadcast", "scatter", "reduce", "gather", "broadcast_tree's broadcast"])
def test_a_root_may_call_from_a_line_of_its_own(verb):
    apart = {0: [1], 1: [2], 2: [2]}
    assert lines_of(calls(apart, verb=verb), 7).apart == ()
    assert len(lines_of(calls({0: [1], 1: [2], 2: [3]}, verb=verb), 7).apart) == 1
    four = calls({0: [1], 1: [1], 2: [2], 3: [2]}, (0, 1, 2, 3), verb=verb)
    assert len(lines_of(four, 7).apart) == 1


def test_collectives_of_one_member_and_those_of_which_not_all_calls_are_known_are_left_out():
    made = [*calls({0: [3]}, (0,)), *calls({0: [3], 1: [4]}), *calls({0: [1], 1: [2]}, (0, 1), seq=6)]
    assert lines_of(made, 7) == (0, 0, (), 1, 0)


def test_the_first_known_call_is_told_if_earlier_ones_were_dropped():
    made = [each for each in calls({0: [3, 3], 1: [3, 3]}, (0, 1)) if each.meeting[2] > 1]
    assert lines_of(made, 7) == (1, 0, (), 2, 0)


def test_collectives_of_several_circles_are_told_in_the_order_of_their_beginning():
    pair = calls({0: [1], 1: [2]}, (0, 1))
    late = [span.since(-5) for span in calls({1: [8], 2: [9]}, (1, 2))]
    assert [each[-1] for each in lines_of([*late, *pair], 7).apart] == ["2", "9"]


def test_what_groups_of_a_mesh_do_in_the_same_way_is_told_once():
    rows = [*calls({0: [1, 2], 1: [2, 1]}, (0, 1)), *calls({2: [1, 2], 3: [2, 1]}, (2, 3))]
    other = calls({4: [5], 5: [6]}, (4, 5))
    found = lines_of([*rows, *other], 7)
    assert (found.compared, found.met) == (5, 5)
    assert found.apart == (
        "call 1, allreduce(): workers [0,2] at line 1, workers [1,3] at line 2, in 2 groups",
        "call 1, allreduce(): worker 4 at line 5, worker 5 at line 6",
        "call 2, allreduce(): workers [0,2] at line 2, workers [1,3] at line 1, in 2 groups",
    )


def test_groups_that_share_a_worker_are_told_one_by_one():
    pairs = [*calls({0: [1], 1: [2]}, (0, 1)), *calls({1: [1], 2: [2]}, (1, 2))]
    assert lines_of(pairs, 7).apart == (
        "call 1, allreduce(): worker 0 at line 1, worker 1 at line 2",
        "call 1, allreduce(): worker 1 at line 1, worker 2 at line 2",
    )
