"""What workers found, side by side: in what they differ."""

from __future__ import annotations

import pytest

from disco_magic.core.check_row import CheckRow
from disco_magic.core.circles import Circles
from disco_magic.core.divergence import compare
from disco_magic.core.held import NOT_IMPORTED, Held, marked_everywhere
from tests.core.held import DOUBLE, FLOAT, INT, LONG, found, report, value

# --- in what workers differ ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "aspects"),
    [
        (FLOAT, FLOAT, ()),
        (FLOAT, None, ("missing",)),
        (FLOAT, DOUBLE, ("dtype",)),
        (FLOAT, LONG, ("shape",)),
        (FLOAT, Held("ndarray", (9, 4), "float64", "cpu"), ("shape", "dtype")),
        (FLOAT, Held("ndarray", (3, 4), "float32", "cuda:0"), ("device",)),
        (FLOAT, INT, ("type",)),
        (Held("list", (2,), elements="int"), Held("list", (2,), elements="str"), ("elements",)),
        (Held("int", digest=b"1"), Held("int", digest=b"2"), ("value",)),
        (Held(NOT_IMPORTED), FLOAT, ()),
        (Held(NOT_IMPORTED), Held(NOT_IMPORTED), ()),
        (Held(NOT_IMPORTED), None, ("missing",)),
    ],
    ids=[
        "same",
        "missing",
        "dtype",
        "shape",
        "both",
        "device",
        "type",
        "elements",
        "value",
        "lazy",
        "lazies",
        "gone",
    ],
)
def test_a_row_says_in_what_the_workers_differ(one, other, aspects):
    row = CheckRow("w", {0: one, 1: other}, Circles(((0, 1),)))
    assert row.aspects == aspects
    assert row.differs == bool(aspects)


def test_groups_have_to_agree_among_themselves_only():
    workers = {"w": FLOAT}, {"w": FLOAT}, {"w": DOUBLE}, {"w": DOUBLE}
    assert report(*workers, circles=((0, 1), (2, 3))).ok
    mixed = report(*workers, circles=((0, 2), (1, 3)))
    assert [where for where, _ in mixed["w"].splits()] == ["group 0", "group 1"]
    assert "'w' differs in group 0: float32 (3, 4) on worker 0, float64 (3, 4) on worker 2" in mixed.message


def test_a_register_that_only_one_group_has_is_missing_nowhere():
    only = report({"w": FLOAT}, {"w": FLOAT}, {}, {}, circles=((0, 1), (2, 3)))
    assert only.ok
    assert only["w"].lines() == [("same type within each group", "[0-1]", "float32 (3, 4)")]


def test_groups_that_hold_different_things_each_have_a_line():
    both = report({"w": FLOAT}, {"w": DOUBLE}, circles=((0,), (1,)))
    assert both["w"].lines() == [
        ("same type within each group", "[0]", "float32 (3, 4)"),
        ("same type within each group", "[1]", "float64 (3, 4)"),
    ]


def test_columns_of_a_frame_that_is_longer_somewhere_have_no_rows_of_their_own():
    def frame(rows, dtype="int64"):
        parts = {"f['a']": Held("column", (rows,), "int64"), "f['b']": Held("column", (rows,), dtype)}
        return {"f": {"f": Held("pandas.DataFrame", (rows, 2)), **parts}}

    assert [row.name for row in report(frame(2), frame(3))] == ["f"]
    assert [row.name for row in report(frame(2), frame(3, "int8"))] == ["f", "f['b']"]


# --- what tells workers apart ----------------------------------------------------------------------


def held_by(*cells):
    row = CheckRow("w", dict(enumerate(cells)), Circles((tuple(range(len(cells))),)), by_value=True)
    ((_, groups),) = row.splits()
    return groups


def test_workers_that_hold_the_same_stand_together():
    assert held_by(FLOAT, DOUBLE, FLOAT, None) == [
        ((0, 2), "float32 (3, 4)"),
        ((1,), "float64 (3, 4)"),
        ((3,), "not bound"),
    ]


def test_short_values_tell_workers_apart_by_what_they_are():
    assert held_by(value("[0 1]", b"a"), value("[0 2]", b"b")) == [
        ((0,), "int64 (2,) [0 1]"),
        ((1,), "int64 (2,) [0 2]"),
    ]


def test_long_values_tell_workers_apart_by_their_digests():
    first, second = bytes.fromhex("a1b2c3d4e5"), bytes.fromhex("9f8e7d6c5b")
    assert held_by(value("", first), value("", second)) == [
        ((0,), "int64 (2,) a1b2c3d4"),
        ((1,), "int64 (2,) 9f8e7d6c"),
    ]


def test_texts_that_look_alike_get_their_digests_too():
    alike = value("[0.1 0.2]", b"\x01"), value("[0.1 0.2]", b"\x02"), value("[9 9]", b"\x03")
    assert held_by(*alike)[0] == ((0,), "int64 (2,) [0.1 0.2] 01")


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        (FLOAT, "float32 (3, 4)"),
        (Held("MaskedArray", (2,), "int8", "cpu"), "MaskedArray int8 (2,)"),
        (Held("torch.Tensor", (2,), "torch.half", "cuda:1"), "torch.Tensor torch.half (2,) cuda:1"),
        (Held("Series", None, "int64", None), "Series int64"),
        (Held("list", (3,), elements="int, str"), "list of 3 (int, str)"),
        (Held("dict", (0,)), "dict of 0"),
        (Held("DataFrame", (3, 2)), "DataFrame (3, 2)"),
        (Held("Net"), "Net"),
        (Held("Point", elements="int"), "Point (int)"),
        (Held("Net", marked="replicated"), "Net, marked replicated"),
        (Held("Net", marked=""), "Net, not marked"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_a_worker_holds_is_said_in_a_few_words(held, kind):
    assert held.kind == kind


# --- parts -----------------------------------------------------------------------------------------

PARAMS = Held("dict", (2,))


def test_a_part_that_differs_stands_for_its_register():
    same = {"p": PARAMS, "p['b']": FLOAT}
    checked = report({"p": {**same, "p['w']": FLOAT}}, {"p": {**same, "p['w']": LONG}})
    assert [row.name for row in checked] == ["p['w']"]


def test_a_part_that_only_others_looked_at_by_itself_is_found_in_its_register():
    parts = {"w": Held("dict"), "w['a']": Held("dict"), "w['a'].x": FLOAT, "w['ab']": INT}
    held = found({"w": parts})[0]
    assert held.column("w['a']") == {path: parts[path] for path in ("w['a']", "w['a'].x")}
    assert held.column("w['b']") == {}


def test_parts_that_agree_have_no_row_of_their_own():
    checked = report(*[{"p": {"p": PARAMS, "p['w']": FLOAT}}] * 2)
    assert [row.name for row in checked] == ["p"]


def test_a_missing_part_is_told_beside_its_container_that_is_shorter():
    checked = report({"p": {"p": PARAMS, "p['w']": FLOAT}}, {"p": {"p": Held("dict", (1,))}})
    assert [(row.name, row.aspects) for row in checked] == [("p", ("shape",)), ("p['w']", ("missing",))]


def test_the_missing_end_of_a_shorter_list_has_no_row_of_its_own():
    long = {"l": Held("list", (2,)), "l[0]": FLOAT, "l[1]": PARAMS, "l[1]['a']": FLOAT}
    short = {"l": Held("list", (1,)), "l[0]": DOUBLE}
    checked = report({"l": long}, {"l": short})
    assert [(row.name, row.aspects) for row in checked] == [("l", ("shape",)), ("l[0]", ("dtype",))]


def test_below_what_a_worker_has_not_got_nothing_is_missing_besides():
    checked = report({"p": {"p": PARAMS, "p['w']": PARAMS, "p['w']['a']": FLOAT}}, {"p": INT})
    assert [row.name for row in checked] == ["p"]


# --- values ----------------------------------------------------------------------------------------


def test_values_count_only_where_they_were_asked_for():
    held = {"w": value("[0 1]", b"a")}, {"w": value("[0 2]", b"b")}
    assert report(*held).ok
    assert report(*held, by_value=["w"])["w"].aspects == ("value",)


def test_what_could_not_be_compared_is_said_and_is_no_difference():
    net = {"net": Held("Net", opaque="values of type Net cannot be compared")}
    checked = report(net, net, by_value=["net"])
    assert checked.ok
    assert checked.summary == "[0-1] values not compared: net (values of type Net cannot be compared)"
    assert checked["net"].lines() == [("not compared", "[0-1]", "Net: values of type Net cannot be compared")]


def test_a_mark_counts_if_all_workers_that_have_the_register_made_it():
    both = found({"w": FLOAT}, {"w": FLOAT}, marked=["w"])
    assert marked_everywhere(both) == {"w": ()}
    assert marked_everywhere({**both, 2: found({})[0]}) == {"w": ()}
    assert marked_everywhere({**both, 2: found({"w": FLOAT})[0]}) == {}


# --- what was not looked at ------------------------------------------------------------------------


NET = Held("Net", unseen="what is in Net")


@pytest.mark.parametrize("by_value", [[], ["net"]])
def test_what_was_not_looked_into_is_said_in_one_line(by_value):
    checked = report({"net": NET, "n": INT}, {"net": NET, "n": INT}, by_value=by_value)
    assert checked.ok
    assert checked.summary.endswith("; not compared: net (what is in Net)")


def test_parts_that_were_not_looked_into_are_told_once_with_their_register():
    held = {
        "p": PARAMS,
        "p['a']": NET,
        "p['b']": NET,
        "p['c']": Held("dict", (1,), unseen="objects in a dict"),
    }
    checked = report({"p": held}, {"p": {**held, "p['w']": FLOAT}})
    assert [row.name for row in checked] == ["p['w']"]
    assert "not compared: p (what is in Net, objects in a dict)" in checked.message.split("\n")
    assert checked.summary == "[0-1] differ in: p['w']; not compared: p (what is in Net, objects in a dict)"


def test_what_only_one_worker_did_not_look_into_is_no_difference():
    other = Held("Net", unseen="parts after the first 1,000")
    checked = report({"net": NET}, {"net": other})
    assert checked.ok
    assert checked.summary.endswith("not compared: net (what is in Net, parts after the first 1,000)")


def test_what_says_itself_that_it_could_not_be_compared_is_not_told_twice():
    net = Held("Net", opaque="values of type Net cannot be compared", unseen="what is in Net")
    summary = report({"net": net}, {"net": net}, by_value=["net"]).summary
    assert summary == "[0-1] values not compared: net (values of type Net cannot be compared)"


def test_fields_below_what_a_worker_has_not_got_are_missing_nowhere():
    checked = report({"p": {"p": PARAMS, "p.w": PARAMS, "p.w.a": FLOAT}}, {"p": INT})
    assert [row.name for row in checked] == ["p"]


def test_a_value_that_no_two_workers_were_asked_for_is_not_called_equal():
    workers = found({"w": value("[1]", b"1")}, {"w": value("[2]", b"2")}, {})
    apart = Circles(((0, 2), (1,)), ("tp=0", "tp=1"), "dp")
    (row,) = compare(
        {0: workers[0], 1: workers[1]}, Circles(((0,), (1,)), ("a", "b"), "dp"), names="w", by_value="w"
    )
    assert (row.differs, row.opaque) == (False, "none of the workers that should agree were compared")
    assert row.lines()[0][0] == "not compared"
    (row,) = compare(workers, apart, names="w", by_value="w")
    assert row.aspects == ("missing",)
    (row,) = compare(
        {0: workers[0], 1: workers[1]}, Circles(((0,), (1,)), ("a", "b"), "dp"), names="w", by_value=""
    )
    assert row.lines()[0][0] == "same type over dp"


def test_circles_within_others_are_those_that_both_have():
    rows, columns = (
        Circles(((0, 1), (2, 3)), ("dp=0", "dp=1"), "tp"),
        Circles(((0, 2), (1, 3)), ("tp=0", "tp=1"), "dp"),
    )
    assert list(rows.within(columns)) == [
        ((0,), "tp=0 dp=0"),
        ((2,), "tp=0 dp=1"),
        ((1,), "tp=1 dp=0"),
        ((3,), "tp=1 dp=1"),
    ]
    assert list(rows.within(Circles(((0, 1, 2),)))) == [((0, 1), "dp=0"), ((2,), "dp=1")]
    assert Circles.among((1, 2), [(0, 1), (3,)], ["a", "b"]) == Circles(((1,),), ("a",))
