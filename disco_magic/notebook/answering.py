"""A kernel that answers questions of the front end while a cell awaits something, such as the workers.

ipykernel takes one request after the other. So Tab, Shift-Tab, a console that asks whether a cell is
complete, and a reloaded page that asks which kernel this is would all wait for the end of the cell and of
all cells queued after it. The event loop is free meanwhile::

    shell channel --> shell_main --+-- nothing at work, or another request --> ipykernel's queue
                                   `-- a question --> its handler --> reply; then "busy" for the cell again

These questions change none of our state. Output of a user's ``__dir__`` goes to the cell that runs.
"""

from __future__ import annotations

import inspect
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ipykernel.ipkernel import IPythonKernel

from disco_magic.session.sigint import sigint_to

if TYPE_CHECKING:
    from collections.abc import Iterator

QUESTIONS: Final = {
    "comm_info_request",
    "complete_request",
    "history_request",
    "inspect_request",
    "is_complete_request",
    "kernel_info_request",
}
"""Requests that are answered at once; ipykernel 7.4 does so only for widget messages, if at all."""


@contextmanager
def _ended_by_sigint() -> Iterator[None]:
    """Let Ctrl-C end the question too: user code in it may run for ever and block the event loop."""
    of_cell = signal.getsignal(signal.SIGINT)

    def hear() -> None:
        if callable(of_cell):
            of_cell(signal.SIGINT, None)
        raise KeyboardInterrupt

    with sigint_to(hear):
        yield


class AnsweringKernel(IPythonKernel):
    """ipykernel's kernel that also answers questions between two steps of an awaiting cell."""

    _running: dict[str, Any] | None = None  # the request of the cell that runs
    _taken = 0  # requests that ipykernel has: one in progress, the others queued
    _stream: Any = None  # the socket for replies

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Like ipykernel's; also notes which request is running."""
        if parent["header"].get("subshell_id") is not None:  # in a separate thread
            await super().execute_request(stream, ident, parent)
            return
        self._running, self._stream = parent, stream
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            self._running = None

    async def shell_main(self, subshell_id: str | None, msg: Any) -> None:
        """Like ipykernel's, for every shell message, except that questions do not queue behind cells."""
        if subshell_id is not None:
            await super().shell_main(subshell_id, msg)
            return
        # Do not ask whether a cell runs: between two queued cells none does, and a question that arrives
        # then would be answered after all of them.
        if self._taken and self._stream is not None and self._is_question(msg):
            await self._answer(msg)
            return
        self._taken += 1
        try:
            await super().shell_main(subshell_id, msg)
        finally:
            self._taken -= 1

    async def _answer(self, msg: Any) -> None:
        """Handle a question without `dispatch_shell`, which would send the cell's output to its request."""
        ident, request = self._read(msg, content=True)
        running = self._running
        self._publish_status("busy", "shell", parent=request)
        try:
            with _ended_by_sigint():
                answered = self.shell_handlers[request["msg_type"]](self._stream, ident, request)
                if inspect.isawaitable(answered):
                    await answered
        except (Exception, KeyboardInterrupt):
            self.log.exception("a question could not be answered while a cell runs")
        finally:
            self._publish_status("idle", "shell", parent=request)
            if running is not None and self._running is running:
                # Front ends show the last status that they receive.
                self._publish_status("busy", "shell", parent=running)

    def _is_question(self, msg: Any) -> bool:
        try:
            _, request = self._read(msg, content=False)
        except ValueError:  # ipykernel's own "stop aborting", which is no message
            return False
        return request["msg_type"] in QUESTIONS

    def _read(self, msg: Any, *, content: bool) -> tuple[list[bytes], dict[str, Any]]:
        """The sender's identities and the message; one with content can be read only once."""
        session: Any = self.session
        ident, frames = session.feed_identities(msg, copy=False)
        return ident, session.deserialize(frames, content=content, copy=False)
