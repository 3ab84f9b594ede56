"""Worker numbers as people type them."""

from __future__ import annotations

import pytest

from disco_magic.errors import UsageMistake
from disco_magic.notebook.targets import list_workers, parse_workers, workers_of_group


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("0", (0,)),
        ("1,2", (1, 2)),
        ("2,1,1", (1, 2)),
        ("1:3", (1, 2)),
        ("2:4", (2, 3)),
        ("::2", (0, 2)),
        ("0-2", (0, 1, 2)),
        ("0,2:4", (0, 2, 3)),
        ("-1", (3,)),
        (":", (0, 1, 2, 3)),
        (" 1 , 3 ", (1, 3)),
        ("0,all", (0, 1, 2, 3)),
        ("all", None),
        (None, None),
    ],
)
def test_numbers_ranges_and_slices_name_workers(text, chosen):
    assert parse_workers(text, 4) == chosen


@pytest.mark.parametrize("text", ["4", "-5", "0-4", "2:5", "9:", "0,7"])
def test_a_worker_that_does_not_exist_is_refused_with_those_that_do(text):
    with pytest.raises(UsageMistake, match="this session has 4 workers, 0-3"):
        parse_workers(text, 4)


@pytest.mark.parametrize("text", ["", "a", "__import__('os')", "1;2", "0..2", "1:2:3:4", "[0]"])
def test_anything_else_is_refused_and_never_evaluated(text):
    with pytest.raises(UsageMistake, match="names no workers: write numbers and ranges"):
        parse_workers(text, 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("3-1", "runs backwards: write 1-3"), ("::0", "step of 0"), ("2:2", "names no worker of 0-3")],
)
def test_ranges_that_name_nobody_say_why(text, reason):
    with pytest.raises(UsageMistake, match=reason):
        parse_workers(text, 4)


def test_a_group_is_its_workers_and_a_wrong_one_is_refused():
    assert workers_of_group(1, 6, 3) == (2, 3)
    assert workers_of_group(None, 6, 3) is None
    with pytest.raises(UsageMistake, match=r"no group 3: this session has 3 groups \(0-2\)"):
        workers_of_group(3, 6, 3)


def test_one_worker_is_spoken_of_in_the_singular():
    with pytest.raises(UsageMistake, match=r"this session has 1 worker, 0$"):
        parse_workers("1", 1)


def test_a_list_keeps_the_order_in_which_workers_are_named():
    assert list_workers("2,0", 4) == (2, 0)
    assert list_workers("3,0-2,1", 4) == (3, 0, 1, 2)
    assert list_workers("all", 4) is None
