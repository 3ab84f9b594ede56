"""What continuous integration does with a test that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import second_try

pytestmark = pytest.mark.unmeasured

ROOT = str(Path(__file__).parents[1])

FAILS_ONCE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("case", range({cases}))
def test_race(case):
    mark = Path(__file__).with_name(str(case))
    assert mark.exists() or mark.touch()

def test_sound():
    pass
"""
FAILS = "def test_wrong():\n    assert False\n"
CRASHES = "import os\ndef test_crash():\n    os._exit(3)\ndef test_never_run():\n    pass\n"
CANNOT_BE_READ = "import nothing_of_this_name\n"


@pytest.fixture
def run(tmp_path):
    """Runs pytest on a file's text; gives what it returned, and what is on record."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "record").write_text("of an earlier run")

    def start(*texts, options=()):
        for number, text in enumerate(texts):
            (tmp_path / f"test_it_{number}.py").write_text(text)
        done = subprocess.run(  # noqa: S603 - ours
            [sys.executable, "-m", "pytest", "-p", "tests.second_try", "--second-tries", "record", *options],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": ROOT, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        record = tmp_path / "record"
        return done.returncode, record.read_text() if record.exists() else "", done.stdout

    return start


def test_what_passes_the_second_time_is_named_and_the_run_passes(run):
    code, record, said = run(FAILS_ONCE.format(cases=1))
    assert code == 0
    assert record == "test_it_0.py::test_race[0] failed, and passed when it was tried again, alone\n"
    assert "assert (False or None)" in said  # how it failed is not hidden


def test_so_it_is_with_several_processes(run):
    code, record, said = run(FAILS_ONCE.format(cases=2), options=("-pxdist", "--numprocesses=2"))
    assert code == 0
    assert record.count("\n") == 2
    assert "2 passed" in said.partition("Trying again")[2]  # and not the sound one


def test_what_fails_twice_fails(run):
    assert run(FAILS_ONCE.format(cases=1), FAILS)[:2] == (1, "")


def test_more_than_two_are_not_tried_again(run):
    code, record, said = run(FAILS_ONCE.format(cases=second_try.AT_MOST + 1))
    assert (code, record) == (1, "")
    assert "Trying again" not in said


@pytest.mark.parametrize(
    ("text", "options"),
    [(CRASHES, ("-pxdist", "--numprocesses=1", "--max-worker-restart=0")), (CANNOT_BE_READ, ())],
    ids=["a process crashed", "a file cannot be read"],
)
def test_what_has_not_run_whole_fails(run, text, options):
    code, record, said = run(text, options=options)
    assert code != 0
    assert record == ""
    assert "Trying again" not in said


def test_a_run_without_failures_leaves_no_record(run):
    assert run("def test_it(): pass\n")[:2] == (0, "")
