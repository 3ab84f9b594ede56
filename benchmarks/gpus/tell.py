"""A plugin for pytest, ``-p benchmarks.gpus.tell``: writes each test's outcome as soon as it is known.

This keeps what was found when the process hangs. The file is named by DISCO_TELL. When it is asked to
(`bounded.ASK`), the process writes the stacks of all threads.
"""

from __future__ import annotations

import faulthandler
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.gpus.bounded import ASK

MOST_TEXT = 4000
# Imported before pytest puts a file in the place of the process's own output.
OUTPUT = os.fdopen(os.dup(2), "w")
faulthandler.register(ASK, OUTPUT)


def write(**note: Any) -> None:
    """Append a line of JSON."""
    with Path(os.environ["DISCO_TELL"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note that a test begins."""
    write(test=nodeid, outcome="began")


def pytest_runtest_logreport(report: Any) -> None:
    """Note the end of a test's call, or of a setup or teardown that did not pass."""
    if report.when == "call" or not report.passed:
        write(
            test=report.nodeid,
            outcome=report.outcome if report.when == "call" or report.skipped else "error",
            seconds=round(report.duration, 3),
            text="" if report.passed else str(report.longrepr)[-MOST_TEXT:],
            found=dict(report.user_properties),
        )
