from __future__ import annotations

import enum

import numpy as np
import pytest

from disco_magic.core.seat import Seat
from disco_magic.errors import CellError, UsageMistake
from disco_magic.planes.arguments import as_index, read_call
from disco_magic.planes.memory import HOST
from disco_magic.planes.threads import ThreadPlane

SEAT = Seat(0, (0, 1), 1)


def test_an_array_is_taken_as_it_is():
    x = np.arange(6.0).reshape(2, 3)
    array, scalar = HOST.read("allreduce", 0, x)
    assert array is x
    assert not scalar


@pytest.mark.parametrize("x", [True, 3, 2.5, 1j, np.float16(1), np.array(7)[()]])
def test_numbers_are_known_as_such(x):
    array, scalar = HOST.read("allreduce", 0, x)
    assert array.shape == ()
    assert scalar


@pytest.mark.parametrize("x", [np.arange(12.0).reshape(3, 4).T, np.arange(10)[::3], np.arange(3)[::-1]])
def test_arrays_with_gaps_are_copied_once_into_c_order(x):
    array, _ = HOST.read("allreduce", 0, x)
    assert array.flags.c_contiguous
    assert not np.may_share_memory(array, x)
    np.testing.assert_array_equal(array, x, strict=True)


def test_a_zero_dimensional_array_stays_one():
    array, scalar = HOST.read("allreduce", 0, np.array(3.0))
    assert array.shape == ()
    assert not scalar


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (None, "None is not an array of numbers"),
        ([1, None], "NumPy can only hold this list as objects, which no data plane carries"),
        (np.array([1, None]), "an array of dtype object is not an array of numbers"),
        (2**80, r"the integer does not fit into 64 bits - pass floats; or let allgather_objects\(x\) carry"),
        ([1, 2**64], "these integers do not all fit into 64 bits"),
        ([[1], [-(2**63) - 1]], "these integers do not all fit into 64 bits"),
        ([1, "a", 2.5], "NumPy would turn the numbers in this list into text"),
        (["a", "b\0"], "NumPy would drop the zeros at the end of a text"),
        (b"ab\0", "NumPy would drop the zeros at the end of this text"),
        (
            [2**62 + 1, 2**63, -1],
            r"NumPy would round these integers to float64.* - no type of 64 bits holds both: pass floats; ",
        ),
        (
            [[2**63], [-1]],
            r"to float64.* - no .*: pass floats; or let allgather_objects\(x\) carry Python's own",
        ),
        ([np.uint64(2**63 + 1), np.int64(1)], r"to float64.* - pass np.array\(x, 'uint64'\) on all$"),
        ([[1, 2], [3]], "list cannot be read as a NumPy array"),
        (np.ma.array([1, 2], mask=[0, 1]), "masked arrays would lose their masks"),
        ({"w": np.zeros(2)}, r"in cells allreduce_tree\(x\) reduces every array in it"),
        (
            [np.zeros(2), np.zeros(3)],
            r"allreduce_tree\(x\) reduces every array in it; or make one call per array, .*, or stack",
        ),
    ],
)
def test_what_is_no_array_of_numbers_is_refused_with_advice(x, text):
    with pytest.raises(UsageMistake, match=text):
        HOST.read("allreduce", 0, x)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        ({"w": np.zeros(2)}, r"one call per value, in one order on all: {key: gather\(x\[key\]\) for"),
        ([np.zeros(2), np.zeros(3)], r"one call per array, \[gather\(each\) for each in x\]"),
    ],
)
def test_of_what_is_gathered_each_array_needs_a_call(x, text):
    with pytest.raises(UsageMistake, match=text):
        HOST.read("gather", 0, x)


@pytest.mark.parametrize("kind", ["alltoall", "reduce_scatter", "scatter"])
def test_a_list_of_parts_is_joined_and_their_lengths_are_counts(kind):
    joined = rf"{kind}\(np\.concatenate\(x\), counts=\[len\(each\) for each in x\]\)"
    text = (
        rf"NumPy array \(its arrays differ in shape\) - .*pass one array with a part for each rank: {joined}$"
    )
    with pytest.raises(UsageMistake, match=text):
        HOST.read(kind, 0, [np.zeros(2), np.zeros(3)])


@pytest.mark.parametrize(
    ("kind", "x", "text"),
    [
        (
            "broadcast",
            {"w": 1},
            r"in cells broadcast_object\(x\) takes any object; or make one call per value",
        ),
        (
            "allgather",
            {"w": 1},
            r"in cells allgather_objects\(x\) takes any object; or make one call per value",
        ),
        ("broadcast", object(), r"broadcast_object\(x\) takes any object; or pass an array"),
        ("gather", {"w": 1}, r"allgather_objects\(x\) takes any object; or make one call per value"),
        ("gather", object(), r"allgather_objects\(x\) takes any object; or pass an array"),
        ("scatter", [object()], r"broadcast_object\(x\)\[worker_id\] takes a list of any objects; or pass"),
        ("reduce", lambda a, b: a + b, "this is a collective; Python's own reduce is functools.reduce"),
        ("reduce", max, "Python's own reduce is functools.reduce"),
        ("send", {"w": 1}, "send one value after the other, in an order that the receiver knows"),
        ("reduce", object(), "no data plane carries - pass an array"),
    ],
)
def test_verbs_that_take_any_object_are_named(kind, x, text):
    with pytest.raises(UsageMistake, match=text):
        HOST.read(kind, 0, x)


@pytest.mark.parametrize("kind", ["reduce", "gather", "broadcast", "scatter"])
@pytest.mark.parametrize("root", [-1, 2, 2.0, "0", None])
def test_a_root_that_is_no_rank_is_refused(kind, root):
    expected = (
        f"root={root} is not a rank" if isinstance(root, int) else f"root must be an integer, got {root!r}"
    )
    with pytest.raises(UsageMistake, match=f"{kind}: {expected}"):
        read_call(kind, SEAT, np.ones(2), op="sum", root=root, axis=0)


@pytest.mark.parametrize("kind", ["allgather", "gather", "reduce_scatter", "scatter", "alltoall"])
@pytest.mark.parametrize("axis", [1.0, "0", None])
def test_an_axis_that_is_no_number_is_refused(kind, axis):
    with pytest.raises(UsageMistake, match=f"{kind}: axis must be an integer, got {axis!r}"):
        read_call(kind, SEAT, np.ones(2), op="sum", root=0, axis=axis)


OUT = "; for an array that takes the result write out="


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("recv", "source", OUT),  # as `comm.Recv(y, 1)`
        # Of `dist.all_gather(parts, x)`, too: the list was told to be `out=`, which does not take one.
        ("gather", "root", f"{OUT}; no list is filled, gather(x) returns the whole"),
        ("allgather", "axis", f"{OUT}; no list is filled, allgather(x) returns the whole"),
        ("send", "to", "; what is sent comes first"),
    ],
)
def test_an_array_where_a_number_belongs_is_not_printed_but_told_its_place(kind, name, text):
    with pytest.raises(UsageMistake) as caught:
        as_index(kind, name, np.zeros(10_000))
    assert str(caught.value) == f"{kind}: {name} must be an integer, got a value of type ndarray{text}"


@pytest.mark.parametrize("value", [np.float64(1.5), np.array(1.5), np.ndarray])
@pytest.mark.parametrize(("kind", "name"), [("recv", "source"), ("send", "to"), ("probe", "source")])
def test_what_has_no_elements_is_printed_and_not_told_to_be_an_array(kind, name, value):
    # NumPy's numbers and classes have `__array__`, too: "a value of type float64; ... write out=".
    with pytest.raises(UsageMistake) as caught:
        as_index(kind, name, value)
    assert str(caught.value) == f"{kind}: {name} must be an integer, got {value!r}"


def test_a_probe_is_not_told_of_an_array_that_takes_its_result(session):
    with pytest.raises(CellError, match=r"source must be an integer, got np\.float64\(0\.0\)\n"):
        session(1).run("probe(np.zeros(2))")
    with pytest.raises(UsageMistake, match=r"got a value of type ndarray$"):
        as_index("iprobe", "source", np.zeros(2))


@pytest.mark.parametrize("kind", ["scatter", "alltoall", "reduce_scatter"])
def test_an_array_of_lengths_where_a_number_belongs_is_told_its_name(kind):
    with pytest.raises(UsageMistake, match=r"type ndarray; the lengths of the parts are counts=$"):
        as_index(kind, "axis", np.array([1, 1]))


@pytest.mark.parametrize(("kind", "place"), [("scatter", "root"), ("alltoall", "axis")])
def test_lengths_of_parts_where_a_number_belongs_are_told_their_name(kind, place):
    with pytest.raises(UsageMistake, match=r"got \[1, 1\]; the lengths of the parts are counts="):
        read_call(kind, SEAT, np.ones(2), **{"root": 0, "axis": 0, place: [1, 1]})


def test_a_dtype_that_cannot_be_reduced_is_what_is_told_first():
    with pytest.raises(UsageMistake, match="dtype <U1 cannot be reduced"):
        read_call("reduce_scatter", SEAT, np.array(["a"]), op="sum", axis=7, out="no array")


@pytest.mark.parametrize("axis", [-1, 1, np.int64(1)])
def test_an_axis_is_counted_from_the_front(axis):
    assert read_call("alltoall", SEAT, np.zeros((3, 2)), axis=axis).axis == 1


def test_an_axis_that_is_not_there_names_the_range():
    with pytest.raises(UsageMistake, match=r"axis=2 is out of range for shape \(3, 2\); expected -2 to 1"):
        read_call("alltoall", SEAT, np.zeros((3, 2)), axis=2)


def test_a_number_cannot_be_split():
    with pytest.raises(UsageMistake, match=r"array of shape \(\) has no axis that could be split"):
        read_call("scatter", SEAT, 3.0, root=0, axis=0)


def test_a_caller_that_is_no_member_is_refused():
    with pytest.raises(UsageMistake, match=r"worker 5 is not one of the members \[0-1\]"):
        read_call("barrier", Seat(5, (0, 1), 1))


def test_a_command_sent_to_a_subset_says_what_to_do():
    with pytest.raises(UsageMistake) as raised:
        read_call("barrier", Seat(0, (0, 1, 2, 3), 1, present=(0, 1)))
    assert "needs workers [0-3], but this command was sent to workers [0-1] only" in str(raised.value)
    assert "so workers [2-3] can never join - send it to all workers (drop -w or" in str(raised.value)


def test_a_group_inside_the_subset_is_fine():
    assert read_call("barrier", Seat(0, (0, 1), 1, present=(0, 1))).kind == "barrier"


def test_the_root_of_a_broadcast_has_to_bring_something():
    with pytest.raises(UsageMistake, match="None is not an array of numbers"):
        read_call("broadcast", SEAT, None, root=0)
    assert read_call("broadcast", SEAT, None, root=1).array is None


def test_a_plane_needs_a_worker():
    with pytest.raises(UsageMistake, match="at least 1 worker, got 0"):
        ThreadPlane(0)


class Alike:
    """Is no text, but has the hash of one and says that it is equal."""

    def __hash__(self):
        return hash("sum")

    def __eq__(self, other):
        return other == "sum"


class Named(enum.StrEnum):
    SUM = "sum"


@pytest.mark.parametrize("op", [Alike(), ["sum"], None, b"sum"], ids=["alike", "list", "None", "bytes"])
def test_an_op_is_a_text_whatever_was_asked_for_before(op):
    assert read_call("allreduce", SEAT, 1.0, op="sum").op == "sum"
    with pytest.raises(UsageMistake, match=r"there is no reduction|op is the name of a reduction"):
        read_call("allreduce", SEAT, 1.0, op=op)


def test_who_passes_an_array_to_fill_as_the_op_is_told_to_write_out():
    with pytest.raises(UsageMistake) as refused:
        read_call("allreduce", SEAT, np.ones(3), op=np.empty(1000))
    assert str(refused.value) == (
        "allreduce: op is the name of a reduction, one of sum, prod, min, max, avg, got a value of type "
        "ndarray; for an array that takes the result write out="
    )


def test_a_kind_of_text_is_an_op_and_nobody_elses():
    x = np.ones(2, "f2")
    assert read_call("allreduce", SEAT, x, op=Named.SUM).op == "sum"
    assert type(read_call("allreduce", SEAT, x, op="sum").op) is str


@pytest.mark.parametrize("op", ["sum", Named.SUM])
def test_dtypes_that_cannot_be_reduced_are_refused_each_time(op):
    for _ in range(2):
        with pytest.raises(UsageMistake, match="cannot be reduced"):
            read_call("allreduce", SEAT, np.array(["a"]), op=op)
