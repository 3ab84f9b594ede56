"""Files of Python as programs of all workers."""

from __future__ import annotations

import sys

import pytest
from IPython.core.error import UsageError

from disco_magic.errors import CellError, Divergence, UsageMistake
from disco_magic.notebook.tracebacks import CellSyntaxError
from disco_magic.session.current import session as current_session

PROGRAM = '''\
"""A program."""
from __future__ import annotations

import argparse
from pathlib import Path

import beside

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.5)


class Model:
    by: Undefined


def main():
    options = parser.parse_args()
    return options.rate * beside.TWO + allreduce(worker_id)


if __name__ == "__main__":
    total = main()
    here = Path(__file__).name
    print("done", total)
total
'''


@pytest.fixture
def program(program):
    program.write_text(PROGRAM)
    return program


def test_a_program_sees_its_arguments_its_file_and_what_lies_beside_it(session, program):
    before, paths = sys.argv, list(sys.path)
    s = session(2)
    result = s.run_file(program, "--rate", "4")
    assert (result.stdout, result.values) == ({0: "done 9.0\n", 1: "done 9.0\n"}, [None, None])
    assert (
        s.run("total, here, Model.__annotations__").values == [(9.0, "program.py", {"by": "Undefined"})] * 2
    )
    assert (sys.argv, sys.path) == (before, paths)
    assert s.run("Model.__module__").values == ["__disco__"] * 2


def test_an_error_is_at_the_line_of_the_file(session, tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(
        "# coding: latin-1\nx = 1\n\ndef f():\n    return x / (worker_id - 1)\n\nf()\n", encoding="latin-1"
    )
    s = session(2)
    with pytest.raises(CellError) as caught:
        s.run_file(path)
    assert list(caught.value.failures) == [1]
    assert (
        f'File "{path}", line 5, in f\n    return x / (worker_id - 1)' in caught.value.origin.traceback_text
    )
    path.write_text("x = (\n")
    with pytest.raises(SyntaxError) as wrong:
        s.run_file(path)
    assert (wrong.value.filename, wrong.value.lineno) == (str(path), 1)
    path.write_text("y = 1\n1 / 0\n")
    with pytest.raises(CellError, match="line 2"):
        s.run_file(path)


def test_what_cannot_be_read_is_said_and_nothing_is_sent(session, tmp_path):
    s = session(1)
    (tmp_path / "train.py").touch()
    for name, said in (
        ("none.py", rf"there is no file 'none\.py' in '{tmp_path}'$"),
        ("trian.py", r"there is no file 'trian\.py' in '.*'; did you mean 'train\.py'\?"),
        ("data/none.py", rf"there is no folder '{tmp_path}/data'$"),
        ("", ".*directory"),
    ):
        with pytest.raises(UsageMistake, match=f"cannot be run: {said}"):
            s.run_file(tmp_path / name)
    assert s.names() == ()


def test_some_workers_run_it_and_a_program_without_end_is_stopped(session, tmp_path):
    path = tmp_path / "endless.py"
    path.write_text("import time\nx = 1\nwhile True: time.sleep(0.01)\n")
    s = session(2)
    with pytest.raises(TimeoutError):
        s.run_file(path, workers=[1], timeout=2)
    assert s.run("'x' in globals()").values == [False, True]


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)", "argparse.ArgumentParser().parse_args()"])
def test_a_program_may_end_by_leaving(session, tmp_path, end):
    path = tmp_path / "leaves.py"
    path.write_text(f"import argparse, sys\nx = 1\n{end}\nx = 2\n")
    s = session(2)
    s.run_file(path, "-h")
    assert s.run("x").values == [1, 1]
    path.write_text("import sys\nsys.exit('no data')\n")
    with pytest.raises(CellError, match="SystemExit: no data"):
        s.run_file(path)
    with pytest.raises(CellError, match="SystemExit: 0"):
        s.run("import sys\nsys.exit(0)")


def test_a_program_that_leaves_with_an_error_is_told_without_a_traceback(four, tmp_path):
    path = tmp_path / "leaves.py"
    path.write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\n"
    )
    four.fail(f"%disco run {path} --rate abc", CellError)
    said = four.out + four.err
    assert "[0-3] SystemExit: 2" in said.splitlines()
    assert "argparse.py" not in said
    assert "Traceback" not in said


def test_what_a_program_imports_from_the_future_is_its_own(session, program):
    s = session(1)
    s.run_file(program)
    assert s.run("class A:\n    x: int\nA.__annotations__['x'] is int").values == [True]


def test_the_magic_runs_it_with_its_output_in_the_notebook(four, program):
    four.run(f"%disco run {program} --rate 1")
    assert sorted(four.lines) == [f"[{worker}] done 8.0" for worker in range(4)]
    four.run(f'%disco run -w 0:2 --timeout 5 "{program.parent}/beside.py"')
    assert current_session().run("'TWO' in globals()").values == [True, True, False, False]
    (program.parent / "told.py").write_text("import sys\nprint(sys.argv[1:])")
    four.run(f"%disco run -w 0 {program.parent}/told.py 'a b' --name=\"two words\" c")
    assert four.lines == ["[0] ['a b', '--name=two words', 'c']"]
    assert "there is no file 'none.py'" in str(four.fail("%disco run none.py", UsageMistake))
    program.write_text("1 / worker_id\n")
    error = four.fail(f"%disco run {program}", CellError)
    assert list(error.failures) == [0]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{} -- x -w 1", ["--", "x", "-w", "1"]),
        ("-w 0 {} --lr 1 -- y --", ["--lr", "1", "--", "y", "--"]),
        ("-w 0 -- {} -w 1", ["-w", "1"]),
        ("-- '{}'", []),
    ],
)
def test_what_stands_behind_the_file_is_the_program_s(four, tmp_path, line, told):
    (tmp_path / "told.py").write_text("import sys\nif worker_id == 0: print(sys.argv[1:])")
    four.run(f"%disco run {line.format(tmp_path / 'told.py')}")
    assert four.lines == [f"[0] {told}"]


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--nproc-per-node 4", "there is no --nproc-per-node here: the session's workers run the program"),
        ("--nproc_per_node=4", "there is no --nproc_per_node here: .* %disco start -n 4 starts four"),
        ("-n 4", "there is no -n here: the session's workers run the program"),
        ("-np 4", "there is no -np here: the session's workers run the program"),
        ("--standalone --nproc-per-node 4", "there is no --standalone here: there is one host"),
        ("--master-port 29500", "there is no --master-port here: there is one host"),
    ],
)
def test_an_option_of_torchrun_or_mpiexec_is_told_what_is_here(four, program, option, told):
    with pytest.raises(UsageError, match=told):
        four.ip.run_line_magic("disco", f"run {option} {program} --rate 1")


def test_a_file_has_to_be_named(four):
    for line in ("", "-w 0", "--"):
        assert "the following arguments are required: FILE" in str(
            four.fail(f"%disco run {line}", UsageError)
        )


@pytest.mark.parametrize(
    "line",
    [
        "if __name__ == '__main__' and len(sys.argv) == 1: ran = True",
        "MAIN = '__main__' == __name__; ran = MAIN",
        "def f(): return __name__ == '__main__'\nran = f()",
    ],
)
def test_it_is_the_main_program_however_it_asks(session, tmp_path, line):
    path = tmp_path / "asks.py"
    path.write_text(f"import sys\n{line}\n")
    s = session(1)
    s.run_file(path)
    assert s.run("ran").values == [True]


def test_a_syntax_error_is_shown_at_its_line_without_frames(four, tmp_path):
    (tmp_path / "wrong.py").write_text("x = 1\ny = (\n")
    error = four.fail(f"%disco run {tmp_path}/wrong.py", CellSyntaxError)
    shown = "\n".join(error._render_traceback_())
    assert "wrong.py" in shown
    assert "y = (" in shown
    assert "scripts.py" not in shown


def test_the_magic_takes_the_options_of_cells(four, program):
    program.write_text("import sys\nx = worker_id\nprint(sys.argv[1:])\nsum = allreduce(x)\n")
    four.run(f"%disco run --show 1 --time --check --out r --pull sum {program} --check values --time")
    assert "[1] ['--check', 'values', '--time']" in four.lines
    assert not any(line.startswith(("[0]", "[2]", "[3]")) and "--check" in line for line in four.lines)
    assert any(line.startswith("check ") for line in four.lines)
    assert any(line.startswith(("time ", "load imbalance")) for line in four.lines)
    assert (four.ip.user_ns["sum"], four.ip.user_ns["r"].workers) == (6, (0, 1, 2, 3))
    program.write_text("x = worker_id if worker_id else 'text'\n")
    for check in ("--check", "--check types", "--check=types"):
        four.fail(f"%disco run {check} {program}", Divergence)
    assert current_session().run("x").values == ["text", 1, 2, 3]
    assert "did you mean '--workers'" in str(four.fail(f"%disco run --wokers 2 {program}", UsageError))
    assert "unrecognized arguments: --local" in str(four.fail(f"%disco run --local {program}", UsageError))
    assert "required: FILE" in str(four.fail("%disco run --check values", UsageError))
    assert "no closing quotation" in str(four.fail(f"%disco run {program} it's", UsageError))
    program.write_text("import sys\nprint(sys.argv[1:])\n")
    four.run(f"%disco run -bw 0 {program} -w 1")
    assert four.lines == ["[0] ['-w', '1']"]
    four.run(f"%disco run -bw0 {program} a")
    assert four.lines == ["[0] ['a']"]


def test_a_module_that_has_changed_since_an_earlier_run_is_told_of_and_imported_anew(four, program):
    module = program.parent / "beside.py"
    program.write_text("import beside\nprint(beside.TWO)\n")
    four.run(f"%disco run -w 0 {program}")
    four.run(f"%disco run -w 0 {program}")
    assert four.lines == ["[0] 2"]
    module.write_text("TWO = 'two'\n")
    four.run(f"%disco run -w 0 {program}")
    way = "%disco run --reload imports it anew"
    assert four.lines == [
        f"beside.py has changed since it was imported; the imported version is still used; {way}",
        "[0] 2",
    ]
    four.run(f"%disco run -w 0 --reload {program}")
    assert four.lines == ["[0] two"]
    four.run(f"%disco run -w 0 {program}")
    assert four.lines == ["[0] two"]


def test_a_session_warns_of_a_module_that_has_changed(session, program):
    s = session(1)
    program.write_text("import beside\nvalue = beside.TWO\n")
    s.run_file(program)
    (program.parent / "beside.py").write_text("TWO = 'two'\n")
    with pytest.warns(UserWarning, match=r"^beside.py has changed .* reload=True imports it anew"):
        s.run_file(program)
    assert s.run("value").values == [2]
    s.run_file(program, reload=True)
    assert s.run("value").values == ["two"]


def test_variables_of_the_notebook_can_stand_on_its_line(four, program):
    # A sweep swept nothing: the program got the text "{lr}".
    program.write_text("import sys\nprint(sys.argv[1:])\n")
    four.run(f"for lr in (0.1, 0.2): get_ipython().run_line_magic('disco', 'run -w 0 {program} --lr {{lr}}')")
    assert four.lines == ["[0] ['--lr', '0.1']", "[0] ['--lr', '0.2']"]
    four.run(
        f"name, where = 'two words', {str(program)!r}\n"
        "def sweep(decay):\n"
        "    %disco run -w 0 {where} '$name' {decay * 2} {{kept}} {none} --cfg '{\"a\": 1}'\n"
        "sweep(2)"
    )
    assert four.lines == ["[0] ['two words', '4', '{kept}', '{none}', '--cfg', '{\"a\": 1}']"]


def test_of_a_folder_its_main_module_is_run(four, program):
    (program.parent / "__main__.py").write_text("import beside\nprint('main', beside.TWO, __file__[-11:])\n")
    four.run(f"%disco run -w 0 {program.parent}")
    assert four.lines == ["[0] main 2 __main__.py"]
    (program.parent / "empty").mkdir()
    assert "directory" in str(four.fail(f"%disco run {program.parent}/empty", UsageMistake))
