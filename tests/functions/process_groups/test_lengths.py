"""What members of a process group of PyTorch's exchange: whose lengths have to fit, and how that is told."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError


def test_lengths_of_rows_are_told_in_rows(s):
    line = "x, y = t([1, 2], [3, 4], [5, 6]), t([0, 0], [0, 0], [0, 0])\nworld.all_to_all_single("
    with pytest.raises(
        CellError, match=r"give worker 0 \[1, 3, 1\] rows, by rank, and it has room for \[1, 1, 1\]"
    ):
        s.run(f"{line}y, x, None, [3, 0, 0] if worker_id == 1 else None)")
    with pytest.raises(
        CellError,
        match=r"give worker 0 \[2, 6, 2\] elements, .* room for \[2, 2, 2\] in an output of shape \(",
    ):
        s.run(f"{line}t(*range(6)), x, None, [3, 0, 0] if worker_id == 1 else None)")


def test_members_need_not_know_which_of_them_pass_sizes(gives):
    some = """
n = [[1, 1, 1], [1, 2, 1], [1, 1, 1]]
mine, theirs = n[worker_id], [each[worker_id] for each in n]
out, sizes = t(*[0] * sum(theirs)), (theirs, mine) if worker_id == 1 else ()
world.all_to_all_single(out, t(*[me] * sum(mine)), *sizes)
"""
    assert gives(some, "out") == [[[0, 1, 2]], [[0, 1, 1, 2]], [[0, 1, 2]]]
    of_own_length = (
        "out = t(*[0] * 6)\nworld.all_to_all_single(out, t(*[me] * 3 * (worker_id + 1)), [1, 2, 3])"
    )
    assert gives(of_own_length, "out") == [[[0, 1, 1, 2, 2, 2]]] * 3


def test_what_is_filled_by_all_may_have_another_shape(gives):
    line = "out = t(*range(6))\nworld.all_to_all_single(out, t([me, 1], [me, 2], [me, 3]))"
    assert gives(line, "out") == [[[0, k, 1, k, 2, k]] for k in (1, 2, 3)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "y, t(1, 2)",
            "the input has 2 rows, which 3 members cannot share evenly - pad it to 3, or pass input_sp",
        ),
        ("t(1, 2), y", "the output has 2 rows, .* or pass output_split_sizes"),
        ("y, t(1, 2), None, [2]", r"input_split_sizes=\[2\] - expected 3 of them, none below 0"),
        ("y, y, [1, 1, 2]", r"output_split_sizes=\[1, 1, 2\] - they are 4 in all, the output has 3 rows"),
        ("y, tensor(np.array(1.0), device='cpu')", "the input is a number - pass a tensor that has rows"),
    ],
)
def test_sizes_that_do_not_divide_a_tensor_are_the_caller_s_mistake(s, arguments, said):
    with pytest.raises(CellError, match=f"UsageMistake: all_to_all_single: {said}"):
        s.run(f"y = t(0, 0, 0)\nworld.all_to_all_single({arguments})")


def test_as_many_tensors_are_given_as_there_are_members(s):
    with pytest.raises(CellError, match="2 input tensors were passed for 3 members"):
        s.run("world.alltoall([t(0)] * 3, [t(0)] * 2)")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            "all_to_all_single(t(0, 0, 0), t(1, 2, 3), [1, 1, 1], [1, 1, 1])",
            "all_to_all_single(float32 (3,))",
        ),
        ("alltoall([t(0), t(0), t(0)], [t(1), t(2), t(3)])", "all_to_all(float32 (1,), parts=3)"),
        ("alltoall([t(0)] * 3, [t(1), t([2]), t(3)])", "all_to_all(float32 (1,), (1, 1), (1,), parts=3)"),
        ("allreduce([t([me])], opts())", "all_reduce(float32 (1, 1), op=sum)"),
        ("allgather([[t(0)] * 3], [t([me])])", "all_gather(float32 (1, 1), parts=3)"),
        (
            "gather([[t(0, 0)] * 3] if worker_id == 1 else [], [t([me, 1])], opts(root=1))",
            "gather(float32 (1, 2), parts=3, root=1)",
        ),
        ("reduce_scatter([t(0)], [[t([1])] * 3])", "reduce_scatter(float32 (1, 1), parts=3, op=sum)"),
        ("_allgather_base(t(0, 0, 0, 0, 0, 0), t([1, 2]))", "all_gather_into_tensor(float32 (1, 2))"),
        ("_reduce_scatter_base(t(0), t([1, 2, 3]))", "reduce_scatter_tensor(float32 (1, 3), op=sum)"),
    ],
)
def test_who_waits_is_told_of_by_the_call_that_the_user_made(s, call, told):
    cell = s.run_nowait(f"if worker_id == 1: 1 / 0\nworld.{call}")
    with pytest.raises(CellError) as caught:
        cell.wait()
    assert f"without it, {told} that workers [0,2] wait in at {cell.label}, line 2" in str(caught.value)
    labels = {span.label for span in s.timeline().spans if span.kind == "collective"}
    assert {each.replace(", over=None", "") for each in labels} >= {told}


def test_a_root_s_list_is_told_of_with_its_number_of_tensors(s):
    s.run("y = t(0)\nworld.scatter([y], [[t(1), t(2), t(3)]] if worker_id == 1 else [], opts(root=1))")
    labels = [(span.worker, span.label) for span in s.timeline().of_cell().spans if span.kind == "collective"]
    assert sorted(labels) == [
        (0, "scatter(no array, root=1)"),
        (1, "scatter(float32 (1,), parts=3, root=1)"),
        (2, "scatter(no array, root=1)"),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "allgather([[t(*[0] * len(x))] * 3], [t(*x)])",
            r"all_gather: the members give worker 0 \[2, 3, 2\] elements, by rank, and it has room",
        ),
        (
            "gather([[t(0, 0)] * 3] if me == 0 else [], [t(*x)], opts(root=0))",
            r"gather: the members disagree on shape: worker 1 gave \(3,\), workers \[0,2\] gave \(2,\)",
        ),
        ("reduce_scatter([t(0)], [[t(*x)] * 3])", r"disagree on shape: worker 1 gave \(3,\), .* gave \(2,\)"),
        (
            "reduce_scatter([t(0)], [[t(0), t(0, 0), t(*x)]])",
            r"disagree on lengths: worker 1 gave tensors of \(1,\), \(2,\), \(3,\), .* - pass lists of",
        ),
    ],
)
def test_lists_that_do_not_fit_are_told_of_by_the_shapes_of_their_tensors(s, line, said):
    with pytest.raises(CellError, match=said) as caught:
        s.run(f"x = [1, 2, 3] if worker_id == 1 else [1, 2]\nworld.{line}")
    assert "axis" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        # Six elements are shared evenly by three members, each of which got parts of two tensors.
        ("reduce_scatter([t(0, 0)], [[t(1, 2, 3), t(4, 5, 6)]])", "reduce_scatter: 2 input"),
        ("scatter([t(0)], [[t(1)] * 2] if me == 0 else [], opts(root=0))", "scatter: 2 input"),
        ("gather([[t(1)] * 2] if me == 0 else [], [t(0)], opts(root=0))", "gather: 2 output"),
        ("allgather([[t(1)] * 2], [t(0)])", "all_gather: 2 output"),
    ],
)
def test_a_list_has_a_tensor_for_each_member(s, line, said):
    with pytest.raises(CellError, match=f"{said} tensors were passed for 3 members"):
        s.run(f"world.{line}")


def test_members_gather_tensors_of_one_shape_into_one(s):
    said = r"all_gather_into_tensor: the members disagree on shape: worker 1 gave \(3, 1\), .* gave \(1, 2\)"
    with pytest.raises(CellError, match=said):
        s.run("x = t([1], [2], [3]) if worker_id == 1 else t([1, 2])\nworld._allgather_base(t(*range(6)), x)")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            "_allgather_base(t([0, 0]), x)",
            r"all_gather_into_tensor: the output of worker 0 has 2 elements \(1, 2\), and 9 come - pass",
        ),
        ("_reduce_scatter_base(t([0, 0]), x)", r"reduce_scatter_tensor: .* 2 elements \(1, 2\), and 1 come"),
        (
            "_reduce_scatter_base(x, t([1, 2]))",
            r"2 elements, of shape \(1, 2\), cannot be shared evenly by 3 members",
        ),
        (
            "scatter([t([0, 0])] if worker_id else [x], [[x] * 3] if not worker_id else [])",
            r"2 elements \(1, 2\), and 3",
        ),
        (
            "_allgather_base(t(*range(9), dtype='f8'), x)",
            "is float64, what comes is float32 - pass one of that dtype",
        ),
    ],
)
def test_what_does_not_fit_a_tensor_is_told_by_its_shape_and_without_advice_for_arrays(s, call, said):
    with pytest.raises(CellError, match=said) as caught:
        s.run(f"x = t(1, 2, 3)\nworld.{call}")
    assert "np.empty" not in str(caught.value)


def test_a_message_that_does_not_fit_is_told_of_by_the_shapes_of_both_tensors(s):
    sent = "if worker_id == 0: world.send([t([1, 2], [3, 4])], 1)\n"
    line = sent + "if worker_id == 1: world.recv([t({})], 0).wait()"
    cell = s.run_nowait(line.format("[0, 0, 0], [0, 0, 0]"))
    with pytest.raises(CellError) as caught:
        cell.wait()
    assert (
        "recv: the tensor to receive into has 6 elements (2, 3), and 4 (2, 2) were sent - pass one of as many"
        f" elements\n  received: float32 (2, 2) from worker 0, sent at {cell.label}, line 1"
    ) in str(caught.value)
    with pytest.raises(CellError, match="into is float64, what comes is float32 - pass one of that dtype"):
        s.run(line.format("0, 0, 0, 0, dtype='f8'"))
    s.run(line.format("[0], [0], [0], [0]"))


def test_messages_are_told_of_by_the_shape_that_was_sent(s):
    with pytest.raises(CellError, match=r"finished without receiving float32 \(2, 1\) from worker 0, sent"):
        s.run("if worker_id == 0: world.send([t([1], [2])], 1)\nbarrier()")
    labels = {span.label for span in s.timeline().spans if span.kind == "collective"}
    assert "send(float32 (2, 1), to=1)" in labels


# As PyTorch's functions for objects begin, in its module.
OBJECTS = """
source = '''
def broadcast_object_list(group, objects, opts):
    group.broadcast([lengths(objects)], opts)
def scatter_object_list(group, out, objects, opts):
    group.scatter([out], [[lengths([each]) for each in objects]] if objects else [], opts)
def send_object_list(group, objects, to):
    group.send([lengths(objects)], to).wait()
def recv_object_list(group, objects, source):
    group.recv([lengths(objects)], source).wait()
def exchange(group, me):
    if me == 1: send_object_list(group, 'abc', 0)
    if me == 0: recv_object_list(group, 'ab', 1)
'''
names = {"__name__": "torch.distributed.distributed_c10d", "lengths": lambda x: t(*map(len, x), dtype="i8")}
exec(source, names)
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "names['broadcast_object_list'](world, ['a'] * (3 if me == 1 else 2), opts())",
            (
                r"the length of the list: worker 1 gave 3, workers \[0,2\] gave 2 - pass lists of one length "
                r"on all\n  \[0,2\] broadcast_object_list\(2 objects, root=0\) at "
            ),
        ),
        (
            "names['scatter_object_list'](world, t(0, dtype='i8'), ['a'] * 2 if me == 0 else None, opts())",
            r"UsageMistake: scatter_object_list: 2 objects were passed for 3 members",
        ),
        (
            "names['exchange'](world, int(me))",
            "recv_object_list: the list has 2 places, and 3 objects were sent - pass one of as many",
        ),
    ],
)
def test_lists_of_objects_are_told_of_by_their_lengths(s, line, said):
    s.run(OBJECTS)
    with pytest.raises(CellError, match=said):
        s.run(line)


def test_a_function_for_objects_is_in_the_timeline_under_its_name(s):
    s.run(OBJECTS)
    s.run("names['broadcast_object_list'](world, ['a', 'b'], opts())")
    labels = {span.label for span in s.timeline().of_cell().spans if span.kind == "collective"}
    assert labels == {"broadcast_object_list(2 objects, root=0)"}
