"""Failures while the interpreter exits: a program that forks processes whose main threads end at once.

::

    Exits --cases--> this program --fork--> a busy session per case, and the main thread ends
          <--Exit--               <--pipe-- when it failed on which worker

What still runs is interrupted at exit (`disco_magic.session.current`). Here it catches that and fails in its
own way: so it fails after the program has ended for certain, and before its worker has.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import IO, TYPE_CHECKING

from disco_magic.testing.doubles import Gate
from tests.faults.agreed import Reading
from tests.faults.kinds import KINDS
from tests.faults.matrix import Case
from tests.faults.scene import outcome_of, until
from tests.faults.stages import ASKED, DEADLINE_S, AwaitingCell, here
from tests.faults.ways import error_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.session.session import Session
    from tests.faults.stages import Stage

# What has to outlive the main thread's last line.
_kept: list[object] = []


@dataclass(frozen=True)
class Exit:
    """How a process ended.

    Attributes:
        code: its exit code, negative for the signal that ended it.
        written: what it wrote to stderr.
        failed: case's number -> when it failed, on the monotonic clock: once per worker.
        ignored: errors that Python ignored, by class, in order of their names.
        ended: when the process had ended, on the monotonic clock.
    """

    code: int
    written: str
    failed: dict[str, list[float]]
    ignored: list[str]
    ended: float


def serve() -> None:
    """Answer lists of cases until there are no more; returns in every forked process too, to let it end."""
    gc.freeze()  # a forked process that looked at every object at its end would copy all of them first
    for line in iter(sys.stdin.readline, ""):
        with tempfile.TemporaryFile() as written:
            read, tell = os.pipe()
            child = os.fork()
            if child == 0:
                os.dup2(written.fileno(), 2)
                for number, case in enumerate(json.loads(line)):
                    begin(Case(**case), partial(_tell, tell, number))
                return
            os.close(tell)
            print(json.dumps(asdict(_watch(child, read, written))), flush=True)
            os.close(read)


def _tell(pipe: int, number: int, *words: object) -> None:
    os.write(pipe, f"{number} {' '.join(map(str, words))}\n".encode())


def _watch(child: int, read: int, written: IO[bytes]) -> Exit:
    """Follow a process to its end, which closes its end of the pipe; kill it if that takes too long."""
    told, deadline = b"", time.monotonic() + DEADLINE_S
    while True:
        if not select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
            os.kill(child, signal.SIGKILL)
        piece = os.read(read, 4096)
        if not piece:
            break
        told += piece
    _, status = os.waitpid(child, 0)
    ended = time.monotonic()
    written.seek(0)
    failed: dict[str, list[float]] = {}
    ignored = []
    for number, word, what in (line.split() for line in told.decode().splitlines()):
        if word == "failed":
            failed.setdefault(number, []).append(float(what))
        else:
            ignored.append(what)
    code, text = os.waitstatus_to_exitcode(status), written.read().decode()
    return Exit(code, text, failed, sorted(ignored), ended)


def begin(case: Case, tell: Callable[..., None]) -> None:
    """Let everything that will fail run; the caller then ends the main thread."""
    session = KINDS[case.kind].start(case.where.num_workers)
    gate = _Closed(session) if case.what is Reading else _Struck()
    stage = case.what(error_of(case.way), case.where.failing, gate)
    stage.fired = _Teller(tell)  # type: ignore[assignment]
    sys.unraisablehook = lambda told: tell("ignored", told.exc_type.__name__)
    _kept.extend((stage, session))
    stage.prepare(session)
    if stage.lasts:
        session.sync_all(DEADLINE_S)
        stage.gate = _pass  # what ends it is the end of its session
        return
    if isinstance(stage, AwaitingCell):
        stage.rest = partial(_cancelled, stage, gate)  # type: ignore[method-assign]
        stage.gate = _pass
    own = stage.send(session)
    _kept.append(own)
    if own is not None and stage.begins == ASKED:
        threading.Thread(target=outcome_of, args=(own,), daemon=True).start()
    gate.arrived(len(case.where.failing))


def _pass(_: object) -> None:
    """The gate of what is not stopped."""


async def _cancelled(stage: Stage, gate: _Struck) -> None:
    if here() in stage.failing:
        gate.come(here())
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(2 * DEADLINE_S)


class _Teller:
    """Takes the place of a stage's queue."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell

    def put(self, at: float) -> None:
        """It fails now."""
        self._tell("failed", repr(at))


class _Struck(Gate):
    """A gate that opens for whom an interrupt strikes at it."""

    def come(self, point: object) -> None:
        """Say that `point` was reached."""
        self._arrivals.put(point)

    def __call__(self, point: object = None) -> None:
        """Return when an interrupt has struck."""
        with suppress(KeyboardInterrupt):
            self.come(point)
            until(self.is_passed, "the interpreter's end interrupts")

    def is_passed(self) -> bool:
        """Whether it opens by itself."""
        return False


class _Closed(_Struck):
    """Opens when the session's end has interrupted the worker, which strikes nobody in the data plane.

    Not already when the session is closed: what fails between the two was not stopped, and is told.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def is_passed(self) -> bool:
        """Whether the calling worker was interrupted."""
        return self._session.closed and self._session._launcher.workers[here()].lane.interrupted is not None
