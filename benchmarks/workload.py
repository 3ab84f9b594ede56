"""Cells that run in a kernel under a cell magic, the same ones for our magic and a peer's."""

from __future__ import annotations

from queue import Empty
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.clock import Effort
    from benchmarks.kernel import Kernel

CHATTER = 1000
LINE = 80
SPIN = "print('go', flush=True)\nwhile True:\n    pass"


def noop(kernel: Kernel, effort: Effort, magic: str) -> list[float]:
    """Time `pass` under `magic`, repeatedly."""
    cells = [kernel.run(f"{magic}\npass".lstrip()) for _ in range(effort.count(50) + 3)]
    return [cell.seconds for cell in cells[3:]]


def interrupts(kernel: Kernel, effort: Effort, magic: str, source: str = SPIN) -> dict[str, list[float]]:
    """Interrupt `source`, then print on every worker: seconds to the reply, workers that did not print.

    Then run cells until every worker prints again: ipyparallel's engines need several. If three do not
    bring all workers back, do not interrupt again.
    """
    taken: dict[str, list[float]] = {"seconds": [], "skipped": []}
    for _ in range(effort.count(5)):
        taken["seconds"].append(kernel.interrupt(f"{magic}\n{source}", effort.workers))
        taken["skipped"].append(effort.workers - alive(kernel, magic))
        if not any(alive(kernel, magic) == effort.workers for _ in range(3)):
            break
    return taken


def alive(kernel: Kernel, magic: str, timeout_s: float = 3) -> int:
    """Count the workers that print within `timeout_s`."""
    cell = kernel.send(f"{magic}\nprint('alive')")
    try:
        kernel.finish(cell, timeout_s)
    except Empty:
        kernel.manager.interrupt_kernel()
        kernel.finish(cell, timeout_s)
    return cell.text.count("alive")


def control_while_busy(kernel: Kernel, effort: Effort, magic: str) -> list[float]:
    """Time requests on the control channel while all workers spin."""
    kernel.client.control_channel.start()
    cell = kernel.send(f"{magic}\n{SPIN}")
    kernel.wait_for(cell, "go", effort.workers)
    taken = [kernel.control() for _ in range(effort.count(20))]
    kernel.manager.interrupt_kernel()
    kernel.finish(cell)
    return taken


def chatter_bytes(kernel: Kernel, effort: Effort, magic: str) -> list[float]:
    """Return the bytes sent to the front end per byte of text."""
    text = "x" * (LINE - 1)
    source = f"import time\nfor _ in range({CHATTER}):\n    print({text!r})\n    time.sleep(0.001)"
    cell = kernel.run(f"{magic}\n{source}")
    return [cell.nbytes / (CHATTER * LINE * effort.workers)]
