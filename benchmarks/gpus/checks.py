"""Runs the tests in ``tests/gpu``: several processes at a time, then those that need the GPU alone.

Those that may hang or break the GPU are the last phases, for which `benchmarks.gpu` measures first.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.gpus import bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True)
class Part:
    """Tests that run in one process.

    Attributes:
        name: for the table.
        file: in ``tests/gpu``.
        deadline_s: seconds after which the process is killed.
        only: pytest's ``-k``.
        phase: parts of the same phase run in parallel, one phase after the other.
    """

    name: str
    file: str
    deadline_s: float
    only: str = ""
    phase: int = 1


PARTS = (
    Part("versions", "test_01_versions.py", 90, phase=0),
    Part("NCCL, one rank", "test_02_nccl_alone.py", 120),
    Part("kernels", "test_03_kernels.py", 180),
    *(Part(f"device plane, {n}", "test_04_device_plane.py", 180, f"workers-{n}") for n in (4, 3, 2, 1)),
    Part("device plane, more", "test_04_device_plane.py", 90, "not workers-"),
    Part("sessions", "test_05_sessions.py", 150),
    Part("copies", "test_06_copies.py", 120),
    Part("interrupts", "test_07_interrupts.py", 120),
    Part("other libraries", "test_08_other_libraries.py", 180),
    Part("cupy", "test_14_cupy.py", 150),
    Part("memory", "test_09_memory.py", 120, phase=2),
    Part("NCCL, two processes", "test_11_two_processes.py", 200, phase=3),
    Part("NCCL, two ranks", "test_12_two_ranks.py", 300, phase=4),
    Part("NCCL, several GPUs", "test_13_several_gpus.py", 600, phase=5),
    Part("faults", "test_10_faults.py", 100, phase=6),
)


@dataclass
class Findings:
    """The result of a part.

    Attributes:
        tests: for each test, by name: its outcome, seconds, text, found.
        status: pytest's exit status; None if it did not end.
        output: everything that it wrote.
        given_s: seconds that it had; None: no time was left for it.
    """

    part: Part
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: int | None = None
    output: str = ""
    given_s: float | None = None

    @property
    def tail(self) -> str:
        """The end of its output."""
        return self.output[-TAIL:]

    def count(self, outcome: str) -> int:
        """Count the tests with this outcome."""
        return sum(test["outcome"] == outcome for test in self.tests.values())

    @property
    def good(self) -> bool:
        """Whether it finished and nothing failed; a part without tests is a mistake in `PARTS`."""
        return self.status == 0

    def line(self) -> str:
        """Return its row of the table."""
        unfinished = self.count("began")
        wrong = self.count("failed") + self.count("error")
        seconds = sum(test.get("seconds", 0) for test in self.tests.values())
        left = [name for name, test in self.tests.items() if test["outcome"] == "began"]
        notes = [f"no end within {self.given_s or 0:.0f} s: {name}" for name in left]
        if not self.count("passed"):
            skipped = [test["text"] for test in self.tests.values() if test["outcome"] == "skipped"]
            notes += [text.rpartition("Skipped: ")[2].rstrip("')") for text in skipped[:1]]
        if not self.tests:
            notes.append(gist(self.tail))
        return (
            f"| {self.part.name} | {self.count('passed')} | {wrong or ''} | {self.count('skipped') or ''} "
            f"| {unfinished or ''} | {seconds:.0f} s | {'; '.join(notes)} |"
        )

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, for JSON; of its output only the end."""
        return asdict(replace(self, output=self.tail))


TAIL = 8000  # the stacks of some workers, if it had to be killed
NOT_BEGUN = "not begun: no time was left"
LATE = 3  # phases from here on come after the measurements

HEAD = "| checks | passed | failed | skipped | unfinished | time | |\n|---|---|---|---|---|---|---|"


def run(parts: Sequence[Part], left: Callable[[], float], *, jobs: int, quick: bool) -> Iterator[Findings]:
    """Run `parts`, and yield what each has found when it ends; if no test of the first phase passes, no more.

    Args:
        parts: the parts to run.
        left: returns the seconds left for everything.
        jobs: processes at a time.
        quick: see `tests.gpu.machine`.
    """
    for phase in sorted({part.phase for part in parts}):
        passed = 0
        with ThreadPoolExecutor(jobs) as pool:
            now = [part for part in parts if part.phase == phase]
            started = [pool.submit(lambda p=part: _run(p, left(), quick=quick)) for part in now]
            for each in as_completed(started):
                passed += each.result().count("passed")
                yield each.result()
        if phase == 0 and not passed:
            break


def _run(part: Part, left: float, *, quick: bool) -> Findings:
    deadline = min(part.deadline_s, left)
    if deadline < 1:
        return Findings(part, output=NOT_BEGUN)
    with TemporaryDirectory(prefix="disco-gpu-checks-", ignore_cleanup_errors=True) as folder:
        return _run_in(Path(folder), part, deadline, quick=quick)


def _run_in(folder: Path, part: Part, deadline: float, *, quick: bool) -> Findings:
    findings = Findings(part, given_s=deadline)
    told = folder / "told.jsonl"
    variables = {"DISCO_TELL": str(told), "DISCO_GPU_QUICK": str(int(quick))}
    findings.status, findings.output = bounded.run(_command(part), deadline, variables)
    for line in told.read_text(encoding="utf-8").splitlines() if told.exists() else ():
        with suppress(ValueError):  # cut off, if it was being written when the process was killed
            note = json.loads(line)
            findings.tests[note.pop("test").removeprefix("tests/gpu/")] = note
    return findings


def _command(part: Part) -> list[str]:
    words = [sys.executable, "-m", "pytest", "-m", "gpu", f"tests/gpu/{part.file}", "-v", "-rfE"]
    words += ["-k", part.only] if part.only else []
    # An older pytest must accept these tests, too: it does not know all settings in pyproject.toml.
    words += ["-o", "addopts=--import-mode=importlib", "-W", "ignore::pytest.PytestConfigWarning"]
    return [*words, "-p", "no:cacheprovider", "-p", "benchmarks.gpus.tell"]


def gist(text: str) -> str:
    """Return the most telling line of a test's text: pytest's first line about the error, or its last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("E ")), lines[-1] if lines else "")[:300]
