"""Handles of files that are run as programs."""

from __future__ import annotations

import os
import sys

import pytest

from tests.conftest import until

TOLD = "import sys\ngate()\nprint(sys.argv[1:])\nfrom beside import TWO\n"


@pytest.fixture
def program(program):
    program.write_text(TOLD)
    return program


def test_a_program_that_nobody_waits_for_keeps_its_arguments_and_the_notebook_its_own(gated, gate, program):
    before, paths = sys.argv, list(sys.path)
    handle = gated.run(f"%disco run --nowait -o h {program} --rate 1")
    gate.arrived(4)
    assert handle is gated.ip.user_ns["h"]
    assert list(sys.argv) == before
    gated.run("import sys\nargv = sys.argv[:]")
    assert gated.ip.user_ns["argv"] == before
    gate.open()
    assert handle.wait(60).stdout == dict.fromkeys(range(4), "['--rate', '1']\n")
    assert sys.argv is before
    assert sys.path == paths


def test_programs_that_wait_in_the_queue_have_their_own_arguments(gated, gate, program, tmp_path):
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "program.py"
    other.write_text(f"import sys\nprint(sys.argv[1:], {str(other.parent)!r} == sys.path[0])\n")
    handles = [gated.run(f"%disco run --nowait {program} {rate}") for rate in (1, 2)]
    handles.append(gated.run(f"%disco run --nowait {other} 3"))
    gate.arrived(4)
    gate.open()
    told = [set(handle.wait(60).stdout.values()) for handle in handles]
    assert told == [{"['1']\n"}, {"['2']\n"}, {"['3'] True\n"}]


@pytest.mark.parametrize("end", ["cancel", "interrupt", "restart"])
def test_nothing_is_left_of_one_that_is_stopped(gated, gate, program, end):
    before, paths = sys.argv, list(sys.path)
    program.write_text("reached = gate\nwhile True:\n    n = 1\n")
    handle = gated.run(f"%disco run --nowait {program} 1")
    until(lambda: type(os.environ) is not os._Environ)
    gated.run({"cancel": "", "interrupt": "%disco interrupt", "restart": "%disco restart"}[end])
    handle.cancel()
    assert sys.argv is before
    assert sys.path == paths


@pytest.mark.leaves_threads("the thread is given up in its call")
def test_nothing_is_left_of_one_whose_thread_is_given_up(gated, gate, program):
    before, paths = sys.argv, list(sys.path)
    program.write_text("if worker_id == 2: gate()\n")
    handle = gated.run(f"%disco run --nowait {program} 1")
    gate.arrived()
    handle.cancel()
    assert sys.argv is before
    assert sys.path == paths
    program.write_text("import sys\nprint(sys.argv[1:])\n")
    gated.run(f"%disco run -w 2 {program} again")
    assert gated.lines == ["[2] ['again']"]
    gate.open()


def test_one_that_is_cancelled_before_it_begins_changes_nothing(gated, gate, program):
    before = sys.argv
    gated.run("%%disco --nowait\ngate()")
    gate.arrived(4)
    handle = gated.run(f"%disco run --nowait {program} --rate 1")
    assert sys.argv is before
    handle.cancel()
    gate.open()
    gated.run("%disco sync")
    assert sys.argv is before


def test_what_the_notebook_sets_meanwhile_stays(gated, gate, program, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    handle = gated.run(f"%disco run --nowait {program} 1")
    gate.arrived(4)
    mine = ["mine"]
    gated.ip.user_ns["mine"] = mine
    gated.run("import sys\nsys.argv = mine")
    gate.open()
    handle.wait(60)
    assert sys.argv is mine
