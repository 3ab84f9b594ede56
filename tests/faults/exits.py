"""Cases at the exit of a process: asks `exiting`, the program that makes such processes, and judges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, cast

from tests.faults.exiting import Exit
from tests.faults.scene import DisagreementError, agree
from tests.faults.ways import error_of
from tests.unfinished import apart

if TYPE_CHECKING:
    from tests.faults.matrix import Case

ROOT = Path(__file__).parents[2]
CAN_FORK = hasattr(os, "fork")


class Exits:
    """Tries cases at the exit of processes; all ways of one stage and place in one process, a session each.

    A process costs 0.1 s, most of it Python's own end. If anything is wrong with one, every case of it gets a
    process of its own, so that the right one is blamed.
    """

    def __init__(self, cases: list[Case]) -> None:
        self._batches: dict[tuple[str, str], list[Case]] = {}
        for case in cases:
            self._batches.setdefault((case.stage, case.place), []).append(case)
        self._seconds: dict[Case, float] = {}
        # A BLAS library's threads would not come along to the forked processes.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._program = subprocess.Popen(
            [sys.executable, "-c", "from tests.faults.exiting import serve; serve()"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.communicate()

    def try_case(self, case: Case) -> float:
        """Let it fail; seconds from the first failure to the end of the process.

        Raises:
            DisagreementError: the process did not end well or in time, or something did not fail.
        """
        batch = self._batches.pop((case.stage, case.place), [])
        with suppress(DisagreementError):
            self._seconds.update(self._try(batch))
        return self._seconds[case] if case in self._seconds else self._try([case])[case]

    def _try(self, cases: list[Case]) -> dict[Case, float]:
        if not cases:
            return {}
        ask, answer = cast("IO[str]", self._program.stdin), cast("IO[str]", self._program.stdout)
        print(json.dumps([asdict(case) for case in cases]), file=ask, flush=True)
        exited = Exit(**json.loads(answer.readline()))
        _, besides = apart(exited.written)
        agree("exit code and stderr", (exited.code, besides), (0, ""))
        seconds, ignored = {}, []
        for number, case in enumerate(cases):
            times, failing = exited.failed.get(str(number), []), len(case.where.failing)
            agree(f"how often it failed ({case})", len(times), failing)
            ignored += [type(error_of(case.way)).__name__] * failing if case.what.lasts else []
            seconds[case] = exited.ended - min(times)
        agree("errors that Python ignored", exited.ignored, sorted(ignored))
        return seconds
