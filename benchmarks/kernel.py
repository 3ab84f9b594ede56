"""A real Jupyter kernel, used the way a front end uses it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType


@dataclass
class Cell:
    """One execution: when it was sent, and what came back.

    Attributes:
        seconds: from sending until both the reply and the idle status had arrived.
        status: ``ok`` or ``error``.
        text: everything printed.
        nbytes: total size, as JSON, of the contents of the cell's messages on the display channel.
    """

    msg_id: str
    sent: float
    seconds: float = 0.0
    status: str = ""
    text: str = ""
    nbytes: int = 0
    error: str = ""
    idle: bool = field(default=False, repr=False)

    def take(self, message: dict[str, Any]) -> None:
        """Process a message of the display channel."""
        content = message["content"]
        self.nbytes += len(json.dumps(content).encode())
        match message["msg_type"]:
            case "stream":
                self.text += content["text"]
            case "display_data" | "execute_result" | "update_display_data":
                self.text += str(content["data"].get("text/plain", ""))
            case "error":
                self.error = f"{content['ename']}: {content['evalue']}"
            case "status":
                self.idle = content["execution_state"] == "idle"


class Kernel:
    """A Python kernel of the current environment; leaves nothing behind when the block ends."""

    def __enter__(self) -> Self:
        from jupyter_client.manager import KernelManager

        self.manager = KernelManager(kernel_name="python3")
        root = str(Path(__file__).resolve().parents[1])
        self.manager.start_kernel(cwd=root, env=os.environ | {"PYTHONPATH": root})
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()

    def send(self, source: str) -> Cell:
        """Submit a cell and return at once."""
        sent = perf_counter()
        return Cell(self.client.execute(source, store_history=False), sent)

    def pump(self, cell: Cell, timeout_s: float) -> None:
        """Read one message of the display channel into `cell`, if it belongs to it."""
        message = self.client.get_iopub_msg(timeout=timeout_s)
        if message["parent_header"].get("msg_id") == cell.msg_id:
            cell.take(message)

    def reply(self, cell: Cell, timeout_s: float) -> None:
        """Wait for the reply to `cell`."""
        while True:
            message = self.client.get_shell_msg(timeout=timeout_s)
            if message["parent_header"].get("msg_id") == cell.msg_id:
                cell.status = message["content"]["status"]
                return

    def finish(self, cell: Cell, timeout_s: float = 60) -> Cell:
        """Wait for the reply and the idle status."""
        while not cell.idle:
            self.pump(cell, timeout_s)
        self.reply(cell, timeout_s)
        cell.seconds = perf_counter() - cell.sent
        return cell

    def run(self, source: str, timeout_s: float = 60) -> Cell:
        """Execute a cell that must succeed."""
        cell = self.finish(self.send(source), timeout_s)
        if cell.status != "ok":
            raise RuntimeError(f"{source!r} failed: {cell.error}")
        return cell

    def wait_for(self, cell: Cell, token: str, times: int, timeout_s: float = 20) -> None:
        """Return when `cell` has printed `token` that many times."""
        while cell.text.count(token) < times:
            try:
                self.pump(cell, timeout_s)
            except Empty:
                raise TimeoutError(f"{times} times {token!r} did not come: {cell.text[-300:]!r}") from None

    def interrupt(self, source: str, ready: int, *, timeout_s: float = 20) -> float:
        """Run `source` and interrupt it once ``go`` was printed `ready` times: seconds until the reply.

        The reply's status is ignored: ipyparallel says ``ok``.
        """
        cell = self.send(source)
        self.wait_for(cell, "go", ready)
        start = perf_counter()
        self.manager.interrupt_kernel()
        self.reply(cell, timeout_s)
        seconds = perf_counter() - start
        while not cell.idle:
            self.pump(cell, timeout_s)
        return seconds

    def control(self, timeout_s: float = 20) -> float:
        """Return the seconds until a request on the control channel is answered."""
        start = perf_counter()
        message = self.client.session.msg("kernel_info_request")
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=timeout_s)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return perf_counter() - start
