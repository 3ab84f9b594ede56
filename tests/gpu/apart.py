"""Things that may hang or poison a process, each in a process of its own, with a deadline.

    run_apart("fault")                 one process: `tests.gpu.scenes`
    run_pair("peer_dies")              two, that hand each other notes: `tests.gpu.ranks`

A process says what it finds in lines of JSON. One that is not done at its deadline writes where each of its
threads is, and ends.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
MARK = "@scene "
GRACE_S = 15  # to import, to write the stacks, to end


@dataclass
class Outcome:
    """What became of one process.

    Attributes:
        notes: what it said, in order.
        text: everything else that it wrote.
        status: its exit status; None if it had to be killed.
    """

    notes: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""
    status: int | None = None

    def note(self, name: str) -> Any:
        """What it said under `name`; AssertionError with all it wrote if it did not."""
        for each in self.notes:
            if name in each:
                return each[name]
        raise AssertionError(f"nothing was said of {name!r}; exit status {self.status}\n{self}")

    def __str__(self) -> str:
        return f"{self.notes}\n{self.text[-6000:]}"


def say(**note: Any) -> None:
    """One note, to whoever started this process."""
    sys.stdout.write(f"\n{MARK}{json.dumps(note)}\n")
    sys.stdout.flush()


def until_deadline(seconds: float) -> None:
    """End this process then, with every thread's stack; a later call sets another time."""
    faulthandler.dump_traceback_later(seconds, exit=True)


class _Process:
    """A scene that runs."""

    def __init__(self, module: str, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.outcome = Outcome()
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-u", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, **environment},
        )
        self.peer: _Process | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Listen to it."""
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            if not line.startswith(MARK):
                self.outcome.text += line
                continue
            self.outcome.notes.append(json.loads(line.removeprefix(MARK)))
            if self.peer is not None:
                self.peer.tell(line)
        if self.peer is not None:  # whoever waits for a word of it shall not do so until the deadline
            self.peer.tell(None)

    def tell(self, line: str | None) -> None:
        """Hand it a note of the other one, None: that was the last; one that has ended does not hear it."""
        pipe = self.process.stdin
        try:
            if pipe is not None and line is None:
                pipe.close()
            elif pipe is not None and line is not None:
                pipe.write(line)
                pipe.flush()
        except OSError:
            self.outcome.text += f"(did not hear {line})\n"

    def end(self, deadline_s: float) -> Outcome:
        """What became of it, `deadline_s` seconds from now at the latest."""
        faulthandler.cancel_dump_traceback_later()  # pytest's: it would end the run; the process has its own
        try:
            self.outcome.status = self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(GRACE_S)
        self.tell(None)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.outcome


def run_apart(
    scene: str,
    *arguments: str,
    module: str = "tests.gpu.scenes",
    deadline_s: float = 60,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a scene of `module` in a process of its own."""
    process = _Process(module, (scene, str(deadline_s), *arguments), environment or {})
    process.start()
    return process.end(deadline_s + GRACE_S)


def run_pair(
    scene: str, *, deadline_s: float = 60, environment: Mapping[str, str] | None = None
) -> list[Outcome]:
    """Run a scene of `tests.gpu.ranks` as two ranks, each in a process of its own.

    As far as NCCL knows, they are on two hosts: until 2.29 it refuses two ranks on one GPU of one host.
    """
    pair = [
        _Process(
            "tests.gpu.ranks",
            (scene, str(deadline_s), str(rank)),
            {**(environment or {}), "NCCL_HOSTID": f"rank-{rank}"},
        )
        for rank in range(2)
    ]
    pair[0].peer, pair[1].peer = pair[1], pair[0]
    for process in pair:
        process.start()
    return [process.end(deadline_s + GRACE_S) for process in pair]
