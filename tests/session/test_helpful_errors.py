"""What plain Python programs often get wrong, and what is said then."""

from __future__ import annotations

import re
import sys

import pytest

from disco_magic.errors import CellError, UsageMistake, WorkerError


def reduced():
    return allreduce(1)  # noqa: F821 - that is the mistake


def numbered():
    return worker_id  # noqa: F821 - likewise


async def awaited():
    return 1


@pytest.mark.parametrize(
    ("function", "instead"),
    [(reduced, "disco_magic.worker().allreduce"), (numbered, "disco_magic.worker().id")],
)
def test_a_called_function_that_uses_a_name_of_cells_is_told_what_it_can_use(session, function, instead):
    with pytest.raises(WorkerError, match=f"a function that is called uses {re.escape(instead)}"):
        session(2).call_packed(function).get(0)


def test_other_missing_names_and_those_in_cells_are_not_explained(session):
    s = session(2)
    for wrong in (lambda: s.call_packed(lambda: nothing).get(0), lambda: s.run("del allreduce")):  # noqa: F821 - as above
        with pytest.raises(WorkerError) as caught:
            wrong()
        assert "a function that is called" not in str(caught.value)


def test_a_coroutine_is_awaited_in_a_cell(session):
    s, made = session(2), awaited()
    with pytest.raises(UsageMistake, match="`await` the call in a cell"):
        s.put("value", made)
    made.close()
    s.put("awaited", awaited)
    assert s.run("await awaited()").values == [1, 1]


def test_a_register_s_name_is_no_source(session):
    s = session(2)
    s.run("w = np.ones(2)")
    for verb in s.allreduce, s.allgather, s.broadcast_from_worker0:
        with pytest.raises(UsageMistake, match=r"got 'w'; session\['w'\] is one of the register"):
            verb("w")
    assert s.allreduce(s["w"]).get(0).tolist() == [2, 2]


def test_text_that_is_indented_as_a_whole_is_a_cell(session):
    s = session(2)
    assert s.run("""
        x = 2
        if x:
            x += worker_id
        x
    """).values == [2, 3]
    with pytest.raises(CellError, match="line 3, in <module>"):
        s.run("""
            x = 1
            x / 0
        """)
    assert s.run("if True:\n    y = 1\ny").values == [1, 1]
    for wrong in "  x = 1\ny = 2", "x = 1\n  y = 2":
        with pytest.raises(IndentationError):
            s.run(wrong)


@pytest.mark.parametrize("argument", [3, ["--n", "3"], None])
def test_arguments_of_programs_are_texts(session, tmp_path, argument):
    (tmp_path / "train.py").write_text("import sys\nprint(sys.argv[1:])")
    s = session(1)
    with pytest.raises(UsageMistake, match="is not text; pass each word by itself"):
        s.run_file(tmp_path / "train.py", "--n", argument)
    assert s.run_file(tmp_path / "train.py", "--n", "3").stdout == {0: "['--n', '3']\n"}


@pytest.mark.parametrize("name", ["exit", "quit"])
def test_exit_ends_the_cell_and_leaves_the_process_its_input(session, name, monkeypatch):
    closed = []
    monkeypatch.setattr(sys, "stdin", type("Input", (), {"close": lambda _: closed.append(1)})())
    s = session(2)
    with pytest.raises(CellError, match="SystemExit: 3") as caught:
        s.run(f"{name}(3)")
    assert "worker_namespace" not in caught.value.origin.traceback_text
    assert s.run(f"repr({name})").values[0].startswith(f"Use {name}() or Ctrl-")
    assert closed == []


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("push", r"session\.put\('a', value\)"),
        ("pull", r"session\['a'\]\.get_all\(\)"),
        ("apply_sync", r"session\.call_packed\(f, 1\)\.get_all\(\)"),
        ("map_sync", "there are no tasks"),
        ("ids", r"range\(session\.num_workers\)"),
        ("submit", r"session\.call_packed\(f, 1, workers=\[0\]\)"),
        ("spawn", "makes an object on every worker"),
        ("_sync_all", r"sync_all\(\)"),
        ("_sync_worker", r"sync_worker\(2\)"),
        ("debug_get_from_remote", "a reference"),
    ],
)
def test_who_asks_a_session_for_what_another_library_s_object_has_is_told_what_is_here(session, name, here):
    s = session(2)
    with pytest.raises(AttributeError, match=f"'ThreadedSession' object has no attribute '{name}': .*{here}"):
        getattr(s, name)


def test_other_attributes_that_a_session_lacks_are_left_to_python(session):
    s = session(1)
    with pytest.raises(AttributeError, match=r"'ThreadedSession' object has no attribute 'pushed'$"):
        s.pushed  # noqa: B018 - that it fails
    assert not hasattr(s, "_repr_html_")


@pytest.mark.parametrize("index", [0, slice(None)])
def test_a_session_is_not_indexed_by_worker(session, index):
    s = session(2)
    with pytest.raises(
        UsageMistake, match=r"a register has a name, .* on worker 2 is session\['a'\]\.get\(2\)"
    ):
        s[index]


SHARDED = """
class DTensor:
    __module__ = "torch.distributed.tensor"
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not supported for tensor subclasses")
    def full_tensor(self): ...
    def to_local(self): ...
"""


def test_a_tensor_in_parts_is_passed_in_parts(session):
    s = session(2)
    s.run(SHARDED)
    with pytest.raises(
        CellError, match=r"this worker's part of it, x\.to_local\(\), or all of it, x\.full_t"
    ):
        s.run("allreduce(DTensor())")


@pytest.mark.parametrize(("args", "keywords"), [((1,), {}), ((), {"scale": 2})])
def test_an_argument_that_the_function_does_not_take_is_told_without_a_line_of_ours(session, args, keywords):
    with pytest.raises(WorkerError, match=r"TypeError: numbered\(\)") as caught:
        session(2).call_packed(numbered, *args, **keywords).get(0)
    assert "disco_magic" not in str(caught.value)
