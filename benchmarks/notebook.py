"""Measures what users of our notebooks wait for: cells in IPython and in a real kernel, interrupts, failures.

``python -m benchmarks.notebook EFFORT``
"""

from __future__ import annotations

from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from benchmarks.clock import batches
from benchmarks.floor import array
from benchmarks.kernel import Kernel
from benchmarks.row import Bound, Row
from benchmarks.shell import run, samples
from benchmarks.side import Side, serve
from benchmarks.workload import CHATTER, LINE, chatter_bytes, control_while_busy, interrupts, noop

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.clock import Effort

LOAD = "%load_ext disco_magic"
# Worker 0 wakes up every 10 ms and can be interrupted then; all others wait for it in a barrier.
WAIT = (
    "print('go', flush=True)\n"
    "if worker_id == 0:\n"
    "    import time\n"
    "    while True:\n"
    "        time.sleep(0.01)\n"
    "barrier()"
)
FAIL = "if worker_id == 1:\n    raise ValueError('on purpose')\nallreduce(np.ones(3))"

T = TypeVar("T")

SIDES = (
    Side("ours", "disco_magic", "benchmarks.notebook"),
    Side(
        "ipp",
        "ipyparallel",
        "benchmarks.peer_ipyparallel",
        imports=("ipyparallel",),
        install="pip install ipyparallel",
    ),
)

ROWS = (
    Row(
        "start to first result",
        "Ours: `%load_ext`, `%disco start` and a first cell in a kernel that runs. ipyparallel: import, "
        "`Cluster(n=4)`, first answer of every engine.",
        "ms",
        "kernel.start",
        peer="ipp",
        bounds=(Bound(0.3),),
    ),
    Row(
        "`%%disco pass` in IPython",
        "`run_cell` of a shell in this process, output captured; ipyparallel: `%%px pass`. Floor: a plain "
        "`pass`.",
        "ms",
        "cell.pass",
        peer="ipp",
        floor="ours:cell.plain",
        bounds=(Bound(0.8e-3),),
    ),
    Row(
        "`%%disco` printing a line per worker",
        "The same with `print('line')` on every worker, until the text is in the shell's output.",
        "ms",
        "cell.print",
        peer="ipp",
        floor="ours:cell.plain",
        bounds=(Bound(2e-3),),
    ),
    Row(
        "no-op on all workers, through a kernel",
        "`pass` on every worker, from sending the cell until reply and idle status are back. Floor: a plain "
        "`pass` in the same kernel.",
        "ms",
        "kernel.noop",
        peer="ipp",
        floor="ours:kernel.plain",
        bounds=(Bound(5e-3),),
    ),
    Row(
        "interrupt `while True: pass` on all",
        "From `interrupt_kernel()` until the cell's reply, all workers spinning in Python.",
        "ms",
        "kernel.interrupt.seconds",
        peer="ipp",
        bounds=(Bound(1.0),),
    ),
    Row(
        "workers that skip the cell after it",
        "The cell after such an interrupt prints on every worker: how many do not, or not within 3 s.",
        "",
        "kernel.interrupt.skipped",
        peer="ipp",
        bounds=(Bound(0),),
    ),
    Row(
        "interrupt workers in a barrier",
        "The same with worker 0 in sleeps of 10 ms and the others waiting for it in `barrier()`.",
        "ms",
        "kernel.interrupt.barrier.seconds",
        bounds=(Bound(0.2),),
    ),
    Row(
        "a failure while others wait",
        "From sending a cell in which worker 1 raises and the others call `allreduce`, until the error's "
        "reply.",
        "ms",
        "kernel.fail",
        bounds=(Bound(1.0),),
    ),
    Row(
        "control message while all spin",
        "Answer to a `kernel_info_request` on the control channel while every worker spins in Python (ours: "
        "in the kernel's process; ipyparallel's engines are others).",
        "ms",
        "kernel.control",
        peer="ipp",
        bounds=(Bound(0.1),),
    ),
    Row(
        "bytes to the front end / text",
        f"Every worker prints {CHATTER} lines of {LINE} characters in about a second: JSON size of all "
        "display messages of the cell, divided by the size of the text. The number of a line's worker, in "
        "its colour, takes 28 bytes, 29 in some.",
        "x",
        f"kernel.bytes.{CHATTER}",
        peer="ipp",
        bounds=(Bound(1.2),),
    ),
    Row(
        "64 MiB to worker 0",
        "An array of the notebook into a new register of worker 0, until it is there; ipyparallel: `push` to "
        "engine 0.",
        "ms",
        "push",
        peer="ipp",
    ),
    Row(
        "64 MiB from worker 0",
        "A copy of that register's value; ipyparallel: `pull`.",
        "ms",
        "pull",
        peer="ipp",
    ),
)


def cell(effort: Effort, source: str, prints: int = 0) -> list[float]:
    """Time a cell in this process's shell, with a session that is already running."""
    open_session(effort.workers)
    return samples(source, effort.count(100), prints=prints)


@cache
def open_session(workers: int) -> None:
    """Load the extension into this process's shell and start a session."""
    run(LOAD)
    run(f"%disco start -n {workers}")


def push(effort: Effort) -> list[float]:
    """Time copying 64 MiB into a new register of worker 0, until it is there."""
    from disco_magic import ThreadedSession

    with ThreadedSession(effort.workers) as here:
        host = array()
        made = []
        return batches(
            lambda: made.append(here.copy_to_worker_0(host)),
            1,
            effort.repeat,
            inside=here.sync_worker_0,
            after=made.clear,
        )


def pull(effort: Effort) -> list[float]:
    """Time reading such a register's value."""
    from disco_magic import ThreadedSession

    with ThreadedSession(effort.workers) as here:
        remote = here.copy_to_worker_0(array())
        here.sync_worker_0()
        return batches(partial(remote.get, 0), 1, effort.repeat)


def failed(kernel: Kernel, effort: Effort, magic: str) -> list[float]:
    """Time a failure on one worker while the others wait for it."""
    taken = []
    for _ in range(effort.count(10)):
        cell = kernel.finish(kernel.send(f"{magic}\n{FAIL}"), 20)
        if cell.status != "error" or "on purpose" not in cell.error:
            raise RuntimeError(f"expected the worker's error, got {cell.status}: {cell.error}")
        taken.append(cell.seconds)
    return taken


def start(effort: Effort) -> list[float]:
    """Time extension, session and first cell in a running kernel; a new kernel each time."""
    taken = []
    for _ in range(effort.count(3)):
        with Kernel() as kernel:
            kernel.run("pass")
            begin = perf_counter()
            kernel.run(LOAD)
            kernel.run(f"%disco start -n {effort.workers}")
            kernel.run("%%disco\npass")
            taken.append(perf_counter() - begin)
    return taken


def in_kernel(effort: Effort, measure: Callable[[Kernel, Effort, str], T], magic: str = "%%disco") -> T:
    """Run `measure` in a kernel of its own with a running session."""
    with Kernel() as kernel:
        kernel.run(LOAD)
        kernel.run(f"%disco start -n {effort.workers}")
        return measure(kernel, effort, magic)


if __name__ == "__main__":
    serve(
        {
            "kernel.start": start,
            "cell.plain": lambda effort: samples("pass", effort.count(100)),
            "cell.pass": partial(cell, source="%%disco\npass"),
            "cell.print": lambda effort: cell(effort, "%%disco\nprint('line')", effort.workers),
            "push": push,
            "pull": pull,
            "kernel.plain": partial(in_kernel, measure=noop, magic=""),
            "kernel.noop": partial(in_kernel, measure=noop),
            "kernel.interrupt": partial(in_kernel, measure=interrupts),
            "kernel.interrupt.barrier": partial(in_kernel, measure=partial(interrupts, source=WAIT)),
            "kernel.fail": partial(in_kernel, measure=failed),
            "kernel.control": partial(in_kernel, measure=control_while_busy),
            f"kernel.bytes.{CHATTER}": partial(in_kernel, measure=chatter_bytes),
        }
    )
