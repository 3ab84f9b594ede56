"""What a session has done so far, in numbers: plain data that reprs, widgets and tests read."""

from __future__ import annotations

from dataclasses import dataclass

from disco_magic.core.words import aligned, human_bytes, human_seconds


@dataclass(frozen=True, slots=True)
class Account:
    """What a launcher knows of one worker; fields as in `WorkerStats`."""

    registers: int
    nbytes: int
    running_s: float
    waiting_s: float
    idle_s: float


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """One worker since it was started.

    The times add up to the time since then; they are wall time, so that a worker which waits for the
    interpreter's lock or for a file counts as running.

    Attributes:
        worker: its id.
        sent, done, outstanding: commands; ``sent == done + outstanding``. Commands that drop registers and
            those that ask for an answer count like calls and cells. While a worker executes, `done` and
            `outstanding` may be off by one.
        registers: how many it holds, numbered and named together.
        nbytes: bytes of the arrays, strings and bytes in them; a value in two registers counts twice.
        running_s: seconds spent executing commands.
        waiting_s: seconds asleep in collectives and `recv`, for other workers.
        idle_s: seconds without a command.
    """

    worker: int
    sent: int
    done: int
    outstanding: int
    registers: int
    nbytes: int
    running_s: float
    waiting_s: float
    idle_s: float


HEADER = ("worker", "sent", "done", "outstanding", "registers", "bytes", "running", "waiting", "idle")


@dataclass(frozen=True, slots=True, repr=False)
class SessionStats:
    """All workers of a session; ``stats[2]`` is worker 2, and it can be iterated. Shows itself as a table."""

    session_id: int
    workers: tuple[WorkerStats, ...]

    def __getitem__(self, worker: int) -> WorkerStats:
        return self.workers[worker]

    def __len__(self) -> int:
        return len(self.workers)

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells as text, a row per worker."""
        return [
            (
                str(each.worker),
                f"{each.sent:,}",
                f"{each.done:,}",
                f"{each.outstanding:,}",
                f"{each.registers:,}",
                human_bytes(each.nbytes),
                human_seconds(each.running_s),
                human_seconds(each.waiting_s),
                human_seconds(each.idle_s),
            )
            for each in self.workers
        ]

    def __repr__(self) -> str:
        return "\n".join([f"Disco session {self.session_id}", *aligned([HEADER, *self.rows()])])
