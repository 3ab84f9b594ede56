"""A kernel that answers questions of the front end while a cell awaits the workers.

ipykernel takes one request after the other. So Tab, Shift-Tab, a console that asks whether a cell is
complete, and a page that was loaded anew and asks what kernel this is would all wait for the end of the cell.
The event loop is free meanwhile, and these questions change nothing::

    shell channel --> shell_main --+-- no cell runs, or another request --> ipykernel's queue
                                   `-- a question --> its handler --> reply; then "busy" for the cell again
"""

from __future__ import annotations

import inspect
from typing import Any, Final, NamedTuple

from ipykernel.ipkernel import IPythonKernel

QUESTIONS: Final = {
    "comm_info_request",
    "complete_request",
    "history_request",
    "inspect_request",
    "is_complete_request",
    "kernel_info_request",
}
"""Requests that are answered at once; ipykernel (7.4) does so for messages of widgets only."""


class Running(NamedTuple):
    """A cell of the front end that runs.

    Attributes:
        stream: where its reply goes, and answers meanwhile.
        parent: its request.
    """

    stream: Any
    parent: dict[str, Any]


class AnsweringKernel(IPythonKernel):
    """ipykernel's kernel, which answers questions between two steps of a cell that awaits."""

    _running: Running | None = None

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """As ipykernel's, from the message to the reply."""
        if parent["header"].get("subshell_id") is not None:  # in a thread of its own
            await super().execute_request(stream, ident, parent)
            return
        self._running = Running(stream, parent)
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            self._running = None

    async def shell_main(self, subshell_id: str | None, msg: Any) -> None:
        """As ipykernel's, for every message on the shell channel; questions do not queue behind a cell."""
        running = self._running
        if running is None or subshell_id is not None or not self._is_question(msg):
            await super().shell_main(subshell_id, msg)
            return
        ident, request = self._read(msg, content=True)
        # Not by `dispatch_shell`, which makes it the request that what the cell shows belongs to.
        self._publish_status("busy", "shell", parent=request)
        try:
            answered = self.shell_handlers[request["msg_type"]](running.stream, ident, request)
            if inspect.isawaitable(answered):
                await answered
        except Exception:
            self.log.exception("a question could not be answered while a cell runs")
        finally:
            self._publish_status("idle", "shell", parent=request)
            if self._running is running:
                # Front ends take the last status they hear for the kernel's.
                self._publish_status("busy", "shell", parent=running.parent)

    def _is_question(self, msg: Any) -> bool:
        try:
            _, request = self._read(msg, content=False)
        except (ValueError, TypeError):  # none of the protocol's, or not signed: ipykernel says so
            return False
        return request["msg_type"] in QUESTIONS

    def _read(self, msg: Any, *, content: bool) -> tuple[list[bytes], dict[str, Any]]:
        """Who sent it, and what; a message with its content is read once only."""
        session: Any = self.session
        ident, frames = session.feed_identities(msg, copy=False)
        return ident, session.deserialize(frames, content=content, copy=False)
