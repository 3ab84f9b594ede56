"""Handles of files that are run as programs."""

from __future__ import annotations

import sys


def test_a_program_that_nobody_waits_for_keeps_its_arguments_until_it_ends(gated, gate, tmp_path):
    before, paths, program = list(sys.argv), list(sys.path), tmp_path / "program.py"
    (tmp_path / "beside.py").write_text("TWO = 2\n")
    program.write_text("import sys\ngate()\nprint(sys.argv[1:])\nfrom beside import TWO\n")
    handle = gated.run(f"%disco run --nowait -o h {program} --rate 1")
    gate.arrived(4)
    assert not handle.done()
    assert handle is gated.ip.user_ns["h"]
    assert sys.argv[1:] == ["--rate", "1"]
    gate.open()
    assert handle.wait(60).stdout == dict.fromkeys(range(4), "['--rate', '1']\n")
    assert (sys.argv, sys.path) == (before, paths)


def test_a_program_that_nobody_waits_for_and_that_never_begins_leaves_no_arguments(gated, gate, tmp_path):
    before, paths, program = list(sys.argv), list(sys.path), tmp_path / "program.py"
    program.write_text("x = 1")
    gated.run("%%disco --nowait\ngate()")
    gate.arrived(4)
    handle = gated.run(f"%disco run --nowait {program} --rate 1")
    handle.cancel()
    gate.open()
    gated.run("%disco sync")
    gated.run("%%disco\n1")
    assert (sys.argv, sys.path) == (before, paths)
