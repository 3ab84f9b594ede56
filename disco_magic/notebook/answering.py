"""A kernel that answers questions of the front end while a cell awaits something, such as the workers.

ipykernel takes one request after the other. So Tab, Shift-Tab, a console that asks whether a cell is
complete, and a page that was loaded anew and asks what kernel this is would all wait for the end of the cell,
and of all that are queued behind it. The event loop is free meanwhile::

    shell channel --> shell_main --+-- nothing at work, or another request --> ipykernel's queue
                                   `-- a question --> its handler --> reply; then "busy" for the cell again

These questions change nothing of ours. What a user's ``__dir__`` prints meanwhile goes to the cell that runs.
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
"""Requests that are answered at once; ipykernel does so for messages of widgets at most (7.4)."""


@contextmanager
def _ended_by_sigint() -> Iterator[None]:
    """Let Ctrl-C end the question, too: a user's code in it may go on for ever, and keep the event loop."""
    of_cell = signal.getsignal(signal.SIGINT)

    def hear() -> None:
        if callable(of_cell):
            of_cell(signal.SIGINT, None)
        raise KeyboardInterrupt

    with sigint_to(hear):
        yield


class AnsweringKernel(IPythonKernel):
    """ipykernel's kernel, which answers questions between two steps of a cell that awaits."""

    _running: dict[str, Any] | None = None  # the request of the cell that runs
    _taken = 0  # requests that ipykernel has: one is at work, the others queue behind it
    _stream: Any = None  # where it sends replies

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """As ipykernel's, from the message to the reply."""
        if parent["header"].get("subshell_id") is not None:  # in a thread of its own
            await super().execute_request(stream, ident, parent)
            return
        self._running, self._stream = parent, stream
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            self._running = None

    async def shell_main(self, subshell_id: str | None, msg: Any) -> None:
        """As ipykernel's, for every message on the shell channel; questions do not queue behind cells."""
        if subshell_id is not None:
            await super().shell_main(subshell_id, msg)
            return
        # Not by whether a cell runs: between two that are queued none does, and one question in that moment
        # would be answered after all of them.
        if self._taken and self._stream is not None and self._is_question(msg):
            await self._answer(msg)
            return
        self._taken += 1
        try:
            await super().shell_main(subshell_id, msg)
        finally:
            self._taken -= 1

    async def _answer(self, msg: Any) -> None:
        """Handle a question; not by `dispatch_shell`, which makes it the request that outputs belong to."""
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
                # Front ends take the last status they hear for the kernel's.
                self._publish_status("busy", "shell", parent=running)

    def _is_question(self, msg: Any) -> bool:
        try:
            _, request = self._read(msg, content=False)
        except ValueError:  # ipykernel's own "stop aborting", which is no message
            return False
        return request["msg_type"] in QUESTIONS

    def _read(self, msg: Any, *, content: bool) -> tuple[list[bytes], dict[str, Any]]:
        """Who sent it, and what; a message with its content is read once only."""
        session: Any = self.session
        ident, frames = session.feed_identities(msg, copy=False)
        return ident, session.deserialize(frames, content=content, copy=False)
