"""Programs that fail or are stopped where an earlier run has left what they would have bound."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError

SOURCE = """
import sys
how = sys.argv[1]
if how == "exit": sys.exit(3)
if how == "fail" and worker_id == 1: 1 / 0
if how == "stop":
    for step in worker.steps(range(10**9)):
        barrier()
        if step == 3 and worker_id == 0: interrupt_main()
if how == "hard":
    if worker_id == 0: interrupt_main()
    while True: pass
loss, model = how, [how]
"""
OLDER = "Left from an earlier run; this one stopped before assigning them: loss, model"


@pytest.fixture
def run(busy, tmp_path):
    """Runs the program on two workers."""
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    s = busy(2)
    return lambda how: s.run_file(path, how)


def test_what_is_of_an_earlier_run_is_told_by_who_has_failed(run):
    with pytest.raises(CellError) as caught:
        run("fail")
    assert OLDER not in str(caught.value)  # there was none
    run("first")
    with pytest.raises(CellError) as caught:
        run("fail")
    assert list(caught.value.failures) == [1]
    assert caught.value.failures[1].traceback_text.rstrip().endswith(OLDER)


@pytest.mark.parametrize("how", ["stop", "hard"])
def test_it_is_told_below_a_stop(run, how):
    with pytest.raises(KeyboardInterrupt) as caught:
        run(how)
    assert "From before" not in str(caught.value)
    run("first")
    with pytest.raises(KeyboardInterrupt) as caught:
        run(how)
    assert str(caught.value).count(OLDER) == 1


def test_nothing_is_told_by_who_ends_itself(run):
    run("first")
    with pytest.raises(CellError) as caught:
        run("exit")
    assert "From before" not in str(caught.value)


def test_of_many_names_the_first_are_told(session, tmp_path):
    path = tmp_path / "many.py"
    path.write_text("if fails: 1 / 0\n" + "\n".join(f"x{number} = 1" for number in range(9)))
    s = session(1)
    s.run("fails = False")
    s.run_file(path)
    s.run("fails = True")
    with pytest.raises(CellError, match="before assigning them: x0, x1, x2, x3, x4, x5 and 3 more"):
        s.run_file(path)
