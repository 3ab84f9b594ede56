"""A side of a comparison: a separate process that prints one line of JSON per measurement.

Separate because a peer may abort its process (TVM does when a function raises), because imports and heaps
of one side must not slow another, and because some costs differ from launch to launch: each round starts
every side afresh. One line per measurement, so that an abort loses only later measurements.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks.clock import Effort

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REPORT = "@benchmark "
Samples = list[float]


@dataclass(frozen=True)
class Side:
    """Where a side's figures come from.

    Attributes:
        tag: first part of its figures' keys, e.g. ``tvm`` in ``tvm:call``.
        title: its name in tables.
        module: module that is run with ``python -m``.
        imports: modules that must be importable, otherwise the side is skipped.
        install: command that installs them.
        launcher: words put before the Python executable; ``{workers}`` is filled in.
        part: passed to the module, if it serves several groups.
    """

    tag: str
    title: str
    module: str
    imports: tuple[str, ...] = ()
    install: str = ""
    launcher: tuple[str, ...] = ()
    part: str = ""

    def missing(self) -> str:
        """Return why this side cannot run here, as a sentence; empty if it can."""
        absent = [name for name in self.imports if importlib.util.find_spec(name) is None]
        absent += [word for word in self.launcher[:1] if not shutil.which(program(word))]
        if not absent:
            return ""
        return f"{self.title} skipped: {', '.join(absent)} not installed; {self.install}"


@dataclass
class Figures:
    """Samples by key (``side:measurement``), and problems by key or side tag."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def add(self, key: str, samples: list[float]) -> None:
        """Pool `samples` with those of earlier rounds."""
        self.samples.setdefault(key, []).extend(samples)


def serve(measures: Mapping[str, Callable[[Effort], Samples | dict[str, Samples]]]) -> None:
    """Run the measurements in order and report each; a failing one is reported and does not stop the rest.

    A measurement that returns a dict has several figures, reported as ``key.name``. One without samples is
    not reported: MPI ranks above 0 take part in the work but have no figures.
    """
    effort = Effort(**json.loads(sys.argv[1]))
    for key, measure in measures.items():
        try:
            samples = measure(effort)
            for name, figures in samples.items() if isinstance(samples, dict) else [("", samples)]:
                if figures:
                    report(f"{key}.{name}".rstrip("."), samples=figures)
        except Exception as error:  # noqa: BLE001 - every failure becomes a row of the table, with its reason
            traceback.print_exc()
            report(key, problem=": ".join([type(error).__name__, *str(error).splitlines()[:2]]))


def report(key: str, **content: object) -> None:
    """Send one line to the parent; the marker distinguishes it from other output of the side.

    It goes to the original standard output, because some measurements capture `sys.stdout`.
    """
    print("\n" + REPORT + json.dumps({"key": key, **content}), file=sys.__stdout__, flush=True)


def launch(side: Side, effort: Effort, figures: Figures, *, timeout_s: float, verbose: bool = False) -> None:
    """Run `side` once and add its figures; a crash or timeout is recorded as a problem of the side."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            command(side, effort),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.PIPE,
            text=True,
            env=environment(folder),
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=timeout_s)
            reason = f"exit status {process.returncode}: {last_line(err)}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            out = give_up(process, folder)
            reason = f"no end within {timeout_s:.0f} s"
        finally:
            sweep(folder)
    collect(side, out, figures)
    if reason:
        figures.problems[side.tag] = f"{side.title}: {reason}"


def environment(folder: str) -> dict[str, str]:
    """Make a side's environment: this checkout first; a new IPYTHONDIR, without any start-up files."""
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"IPYTHONDIR": folder, "PYTHONPATH": path, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def give_up(process: subprocess.Popen[str], folder: str) -> str:
    """Stop a side that takes too long, with an interrupt first, so it can clean up; return its output."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        sweep(folder)
        return process.communicate()[0]


def sweep(folder: str) -> None:
    """Kill every process that a side has left; their environment has its IPYTHONDIR.

    An engine that spins through an interrupt outlives its cluster, has a process group of its own, and would
    take a core away from every later measurement.
    """
    for process in psutil.process_iter():
        try:
            if process.environ().get("IPYTHONDIR") == folder:
                process.kill()
        except psutil.Error:
            continue  # it has ended, or belongs to another user


def command(side: Side, effort: Effort) -> list[str]:
    """Return the command line that starts `side`."""
    launcher = [word.format(workers=effort.workers) for word in side.launcher]
    launcher[:1] = map(program, launcher[:1])
    part = [side.part] if side.part else []
    return [*launcher, sys.executable, "-m", side.module, json.dumps(asdict(effort)), *part]


def program(name: str) -> str:
    """Find a program next to the running Python (a wheel's ``mpiexec``), otherwise leave it to the PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else name


def collect(side: Side, out: str, figures: Figures) -> None:
    """Read the reports in a side's output."""
    for line in out.splitlines():
        if line.startswith(REPORT):
            said = json.loads(line.removeprefix(REPORT))
            key = f"{side.tag}:{said['key']}"
            if "samples" in said:
                figures.add(key, said["samples"])
            else:
                figures.problems[key] = said["problem"]


def last_line(text: str | None) -> str:
    """Return the last line that is not blank."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1] if lines else "nothing on stderr"
