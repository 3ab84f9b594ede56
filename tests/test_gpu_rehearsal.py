"""``python -m benchmarks.gpu`` on a simulated GPU: what is to run on a real one has to run.

It runs as if only NumPy, cupy and pytest were installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import gpu
from benchmarks.gpus import bounded, checks, launch, report
from benchmarks.gpus.figures import MARK, Figure
from tests.doubles import nccl as doubles
from tests.gpu.apart import run_apart, run_pair

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DEADLINE_S = 300

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="kernels of a simulated GPU are compiled by g++"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are ended as Linux does it"),
]


# Python executes a module of this name first.
BARE = """
import sys
from importlib.machinery import PathFinder

INSTALLED = {"numpy", "cupy", "cupyx", "cupy_backends", "cuda", "fastrlock"}
INSTALLED |= {"pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"}

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        found = PathFinder.find_spec(name, path, target)
        is_other = "site-packages" in str(found) and name.partition(".")[0] not in INSTALLED
        return None if is_other else found

    find_distributions = PathFinder.find_distributions
    invalidate_caches = PathFinder.invalidate_caches

sys.meta_path[sys.meta_path.index(PathFinder):] = [Finder]
"""


@pytest.fixture(scope="module", autouse=True)
def bare(tmp_path_factory):
    """Let the processes of this file find no packages but those."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "sitecustomize.py").write_text(BARE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        yield


def benchmark(*arguments):
    return run("benchmarks.gpu", "--simulate", "--quick", *arguments)


def run(module, *arguments, **variables):
    with begun(module, *arguments, **variables) as process:
        written, complaints = process.communicate(timeout=DEADLINE_S)
    return subprocess.CompletedProcess(process.args, process.returncode, written, complaints)


def begun(module, *arguments, **variables):
    return subprocess.Popen(  # noqa: S603 - a module by its name
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rehearsed(folder, part):
    """What a part of it wrote: the figures' file, and the page."""
    before = sorted(RESULTS.rglob("*"))
    about = ("--out", str(folder), "--date", "2026-01-02", "--commit", "abc")
    done = benchmark("--only", part, *about)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Simulated: these are no figures" in done.stdout
    assert sorted(RESULTS.rglob("*")) == before
    written, text = json.loads((folder / "gpu.json").read_text()), (folder / "gpu.md").read_text()
    about = written["about"]
    assert (about["simulated"], about["date"], about["commit"]) == (True, "2026-01-02", "abc")
    assert written["problems"] == {}
    assert "**Simulated: these are no figures of a GPU.**" in text
    assert sorted(each.name for each in folder.rglob("*")) == ["gpu.json", "gpu.log", "gpu.md"]
    return written


# Two tests, for a test that takes two minutes is taken for one that hangs.


def test_everything_that_is_measured_runs_and_is_written(tmp_path):
    written = rehearsed(tmp_path, "measure")
    figures = written["figures"]
    sections = {figure["key"].partition(":")[0] for figure in figures} | set(written["skipped"])
    assert sections == {"copies", "tuning", "collectives", "latency", "nccl", "pair", "waiting"}
    assert all(seconds >= 0 for figure in figures for seconds in figure["seconds"])


def test_everything_that_is_checked_runs_and_is_written(tmp_path):
    found = {each["part"]["name"]: each for each in rehearsed(tmp_path, "checks")["checks"]}
    assert set(found) == {"versions", "kernels", "faults"}
    for each in found.values():
        assert {test["outcome"] for test in each["tests"].values()} <= {"passed", "skipped"}
    assert all(f"==== {name} ====" in (tmp_path / "gpu.log").read_text() for name in found)


def test_what_our_side_of_nccl_costs_is_measured_without_a_gpu():
    done = run("benchmarks.hollow", "--workers", "1", "--rounds", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_was_found_is_written_when_the_rest_is_not_waited_for(tmp_path):
    with begun("benchmarks.gpu", "--simulate", "--quick", "--out", str(tmp_path)) as process:
        assert "| versions |" in next(process.stderr)
        process.kill()
    (first,) = json.loads((tmp_path / "gpu.json").read_text())["checks"]
    assert first["status"] == 0
    assert "| versions |" in (tmp_path / "gpu.md").read_text()


def one_each(monkeypatch, outcomes):
    """What is found where a part of each phase has one test, with these outcomes."""

    def played(part, *_, **__):
        return checks.Findings(part, {"test": {"outcome": outcomes[part.phase], "text": ""}})

    monkeypatch.setattr(checks, "_run", played)
    parts = [checks.Part(str(phase), "", 1, phase=phase) for phase in range(len(outcomes))]
    return [each.part.phase for each in checks.run(parts, lambda: 1.0, jobs=1, quick=True)]


def test_a_failure_does_not_end_the_checks_unless_nothing_works(monkeypatch):
    assert one_each(monkeypatch, ["passed", "failed", "passed"]) == [0, 1, 2]
    assert one_each(monkeypatch, ["failed", "passed"]) == [0]


def test_a_part_of_which_no_test_passed_says_why(monkeypatch):
    part = checks.PARTS[0]
    skipped = {"outcome": "skipped", "text": "('conftest.py', 60, 'Skipped: needs NVRTC')"}
    assert checks.Findings(part, {"a": skipped}).line().endswith("| needs NVRTC |")
    (late,) = checks.run([part], lambda: 0.0, jobs=1, quick=True)
    assert "not begun: no time was left" in late.line()
    assert report.failures([late]) == []  # the table says it
    monkeypatch.setattr(checks, "_command", lambda _: [sys.executable, "-c", "import nowhere"])
    (broken,) = checks.run([part], lambda: 60.0, jobs=1, quick=True)
    assert "No module named 'nowhere'" in broken.line()


def test_a_part_that_did_not_end_says_at_which_test_and_how_long_it_had():
    found = checks.Findings(checks.PARTS[0], {"b": {"outcome": "began"}}, given_s=54.2)
    assert "| 1 | 0 s | no end within 54 s: b |" in found.line()


def test_a_part_that_did_not_end_says_where_its_threads_were(monkeypatch, tmp_path):
    # Beside the name of the test, that is all that there is to find out why, from afar.
    (tmp_path / "test_it.py").write_text("def test_it():\n    where_it_hangs()\n\n" + HANGS)
    plugins = ("-p", "no:cacheprovider", "-p", "benchmarks.gpus.tell")
    command = [sys.executable, "-m", "pytest", str(tmp_path), *plugins]
    monkeypatch.setattr(checks, "_command", lambda _: command)
    (found,) = checks.run([checks.PARTS[0]], lambda: 10.0, jobs=1, quick=True)
    assert [test["outcome"] for test in found.tests.values()] == ["began"]
    assert "in where_it_hangs" in report.failures([found])[0]


def test_what_was_being_written_when_a_part_was_killed_costs_no_more_than_itself(monkeypatch):
    lines = '{"test": "a", "outcome": "passed"}\n{"test": "b", "outc'
    code = f"import os, pathlib; pathlib.Path(os.environ['DISCO_TELL']).write_text({lines!r})"
    monkeypatch.setattr(checks, "_command", lambda _: [sys.executable, "-c", code])
    (found,) = checks.run([checks.PARTS[0]], lambda: 60.0, jobs=1, quick=True)
    assert found.tests == {"a": {"outcome": "passed"}}

    whole = f"{MARK}{json.dumps(asdict(Figure('copies:a', 'a', [1.0])))}"
    monkeypatch.setattr(launch, "_run", lambda *_, **__: (f"{whole}\n{whole[:-9]}", "no end within 1 s"))
    told = launch.Told()
    launch.measure("copies", told, 1.0, quick=True)
    assert [list(told.figures), told.problems] == [["copies:a"], {"copies": "no end within 1 s"}]


HANGS = """
def where_it_hangs():
    import threading
    threading.Event().wait()
"""
BEARS = """
import signal, subprocess, sys
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; print('born', flush=True); time.sleep(1000)"])
child.wait()
"""


LEAVES = """
import os, subprocess, sys
held = os.open({}, os.O_WRONLY)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], pass_fds=[held])
"""


def test_what_a_process_has_left_behind_is_neither_waited_for_nor_left(tmp_path):
    # Sections wrote to a pipe, which is read to its end: a child that had it, too, was waited for.
    # Sections wrote to a pipe, which is read to its end: a child that had it, too, was waited for.
    held = str(tmp_path / "held")
    os.mkfifo(held)
    seen = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    assert bounded.run([sys.executable, "-c", LEAVES.format(repr(held))], 60.0, {}) == (0, "")
    os.set_blocking(seen, True)
    assert os.read(seen, 1) == b""  # its end: nobody holds it any more
    os.close(seen)


def test_what_a_process_and_its_children_have_written_is_kept_when_it_is_killed():
    assert bounded.run([sys.executable, "-c", BEARS], 3.0, {}) == (None, "born\n")


@pytest.mark.filterwarnings("ignore:subprocess .* still running:ResourceWarning")
def test_a_process_that_cannot_be_killed_is_not_waited_for(monkeypatch):
    # One that is in the GPU's driver ends when that lets it go.
    spared = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda *killed: spared.append(killed))
        assert bounded.run([sys.executable, "-c", BEARS], 3.0, {}, grace_s=0.01)[0] is None
    ((group, number),) = spared
    os.killpg(group, number)


def test_whatever_a_gpu_s_tests_ask_for_is_there():
    # A rehearsal leaves most of them out, because their kernels take minutes to compile.
    done = run("pytest", "-q", "-m", "gpu", "tests/gpu", "--setup-plan", DISCO_SIMULATED_GPU="1")
    assert done.returncode == 0, done.stdout
    assert "test_05_sessions.py" in done.stdout
    assert "error" not in done.stdout.splitlines()[-1]


def test_what_several_gpus_are_asked_for_runs():
    # The contract itself runs in `tests/planes/over_nccl`.
    chosen = ("tests/gpu/test_13_several_gpus.py", "-k", "not contract")
    done = run("pytest", "-q", "-m", "gpu", *chosen, DISCO_SIMULATED_GPU="2", DISCO_GPU_QUICK="1")
    assert done.returncode == 0, done.stdout
    if doubles.available() is None:
        assert "6 passed" in done.stdout


def test_the_checks_that_come_last_can_run_alone(tmp_path, monkeypatch, capsys):
    """They hang more often than others, and what came before them need not run again."""
    begun = []
    monkeypatch.setattr(checks, "run", lambda parts, *_, **__: begun.extend(parts) or iter(()))
    monkeypatch.setattr(launch, "about", lambda: {"gpu": "one"})
    monkeypatch.setattr(report, "short", lambda *_: "")
    monkeypatch.setattr(sys, "argv", ["gpu", "--only", "late", "--out", str(tmp_path), "--commit", "abc"])
    assert gpu.main() == 0
    assert begun == [part for part in checks.PARTS if part.phase >= checks.LATE]
    assert "Written to" in capsys.readouterr().out


def test_a_rehearsal_is_no_result(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu", "--simulate", "--quick", "--out", str(RESULTS / "rehearsal")])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code == 2
    assert "--simulate makes no results" in capsys.readouterr().err
    assert not (RESULTS / "rehearsal").exists()


def test_a_process_that_hangs_is_ended_and_says_where_it_was():
    outcome = run_apart("hang", "1", environment={"DISCO_SIMULATED_GPU": "1"})
    assert outcome.note("begun") is True
    assert outcome.status == 1
    assert "in hang" in outcome.text


def test_two_processes_hand_each_other_notes_until_one_is_gone():
    first, second = run_pair("notes", deadline_s=30)
    assert (first.note("heard"), second.note("heard")) == (1, 0)
    assert "the peer has ended without a word of 'more'" in first.note("end")
    assert (first.status, second.status) == (0, 0)
