"""What a session has done so far, in numbers: plain data for reprs, widgets and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from disco_magic.core.gathered import gathered
from disco_magic.core.register_values import FEW_WORKERS
from disco_magic.core.words import aligned, from_to, human_bytes, human_seconds
from disco_magic.phrases import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Account:
    """What a launcher knows of one worker; fields as in `WorkerStats`.

    Attributes:
        memory: bytes of `device` in use by any process, and in all; None if the device does not say.
    """

    registers: int
    nbytes: int
    running_s: float
    waiting_s: float
    idle_s: float
    device: str = "cpu"
    device_nbytes: int = 0
    memory: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """One worker since it was started.

    The times add up to the time since then; they are wall time, so a worker that waits for the GIL or for a
    file counts as running.

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
        device: where its arrays are, ``"cpu"`` or ``"cuda:0"``.
        device_nbytes: memory of that device kept alive by its registers, each allocation once, also through
            views and through arrays in lists, tuples and dictionaries; 0 for the CPU.
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
    device: str = "cpu"
    device_nbytes: int = 0


@dataclass(frozen=True, slots=True)
class DeviceStats:
    """The memory of one GPU that workers compute on.

    Attributes:
        device: ``"cuda:0"``.
        workers: ids of those that compute there.
        used, total: bytes in use, by this process or others, and in all; None if the device does not say.
        nbytes: bytes that these workers' registers keep, each allocation once per worker.
    """

    device: str
    workers: tuple[int, ...]
    used: int | None
    total: int | None
    nbytes: int

    def __str__(self) -> str:
        held = f"{human_bytes(self.nbytes)} in registers of {ranges(self.workers)}"
        if self.used is None or self.total is None:
            return f"{self.device}: {held}; it does not say how much of its memory is in use"
        return f"{self.device}: {human_bytes(self.used)} of {human_bytes(self.total)} in use, {held}"


def device_stats(accounts: Sequence[Account]) -> tuple[DeviceStats, ...]:
    """The GPUs that workers with these accounts compute on, in the order of their first workers."""
    found = []
    for device in dict.fromkeys(account.device for account in accounts if account.device != "cpu"):
        workers = tuple(worker for worker, account in enumerate(accounts) if account.device == device)
        used, total = accounts[workers[0]].memory or (None, None)
        nbytes = sum(accounts[worker].device_nbytes for worker in workers)
        found.append(DeviceStats(device, workers, used, total, nbytes))
    return tuple(found)


# Of many workers, those whose times differ by no more than this share of all time, or as little, are one row.
_NOISE: Final = 0.05
_NOISE_S: Final = 5e-3
HEADER = ("worker", "sent", "done", "outstanding", "registers", "bytes", "running", "waiting", "idle")


@dataclass(frozen=True, slots=True, repr=False)
class SessionStats:
    """All workers of a session; iterable, and ``stats[2]`` is worker 2. Its repr is a table.

    Attributes:
        session_id: its number.
        workers: by id.
        devices: the GPUs they compute on; empty on the CPU.
    """

    session_id: int
    workers: tuple[WorkerStats, ...]
    devices: tuple[DeviceStats, ...] = ()

    def __getitem__(self, worker: int) -> WorkerStats:
        return self.workers[worker]

    def __len__(self) -> int:
        return len(self.workers)

    def groups(self) -> list[list[WorkerStats]]:
        """The rows of the table: a worker each; of many, those with equal counts and about equal times."""
        limit_s = max(_NOISE_S, _NOISE * max(map(sum, map(_times, self.workers))))

        def figures(each: WorkerStats) -> tuple[float, ...]:
            # To differ by one is more than any noise.
            return (*(count * 2 * limit_s for count in _counts(each)), *_times(each))

        return gathered(self.workers, figures, limit_s)

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells as text, a row for each of `groups`."""
        return [self._row(group) for group in self.groups()]

    def _row(self, group: Sequence[WorkerStats]) -> tuple[str, ...]:
        ids, first = [each.worker for each in group], group[0]
        return (
            ranges(ids) if len(self.workers) > FEW_WORKERS else str(first.worker),
            f"{first.sent:,}",
            f"{first.done:,}",
            f"{first.outstanding:,}",
            f"{first.registers:,}",
            human_bytes(first.nbytes),
            *(
                from_to(human_seconds(min(column)), human_seconds(max(column)))
                for column in zip(*map(_times, group), strict=True)
            ),
        )

    def __repr__(self) -> str:
        table = aligned([HEADER, *self.rows()])
        return "\n".join([f"Disco session {self.session_id}", *table, *map(str, self.devices)])


def _counts(each: WorkerStats) -> tuple[int, ...]:
    return each.sent, each.done, each.outstanding, each.registers, each.nbytes


def _times(each: WorkerStats) -> tuple[float, float, float]:
    return each.running_s, each.waiting_s, each.idle_s
