"""A real kernel in another process, and what its cells gave."""

from __future__ import annotations

import os
import re
import signal
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
PATIENCE_S = 30
WHOLE_PATIENCE_S = 90  # of a kernel that still tells of its progress; less than pytest's faulthandler_timeout
ABSENT = str(Path(__file__).parent / "absent")
"""On the PYTHONPATH of a process: there, jsonschema does not find a grammar of addresses, which takes
1.6 s of a processor to compile whenever nbformat is imported."""
QUIET = {
    "PYTHONPATH": os.pathsep.join((str(ROOT), ABSENT)),
    "NO_COLOR": "1",
    "PYTHONWARNINGS": "ignore",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "PYTHONFAULTHANDLER": "1",  # see `Kernel.give_up`
}
"""Further environment of processes with a kernel of this checkout."""

LOAD_SILENT = "%load_ext disco_magic\n%config DiscoMagics.progress_after = None"
"""On a busy machine any cell may take a second, and would have a display that says where its workers are."""
FAILS_LATER = "import threading\nthreading.Event().wait(0.5)\n1 / 0"
"""A cell that fails when what was sent right behind it has arrived, also from a busy machine: a kernel aborts
what it has by then, and nobody outside can see what that is."""


@dataclass
class Ran:
    """What one cell gave."""

    status: str
    error: dict
    messages: list[dict] = field(default_factory=list)
    late: list[dict] = field(default_factory=list)

    def text(self, name="stdout"):
        return "".join(m["content"]["text"] for m in self.messages if _is_stream(m, name))

    @property
    def lines(self):
        return self.text().splitlines()

    @property
    def value(self):
        found = [
            m["content"]["data"]["text/plain"] for m in self.messages if m["msg_type"] == "execute_result"
        ]
        return found[-1] if found else None

    @property
    def displays(self):
        return [m["content"] for m in self.messages if m["msg_type"] == "display_data"]

    @property
    def settled(self):
        """The messages as a front end has them at the end: updates are in the displays that they change."""
        settled = []
        for message in self.messages:
            if message["msg_type"] == "update_display_data":
                settled = [_updated(each, message["content"]) for each in settled]
            else:
                settled.append(message)
        return settled

    @property
    def saved(self):
        """The outputs that a saved notebook has: their text, of errors the name."""
        outputs = [each["content"] for each in self.settled if each["msg_type"] in _OUTPUTS]
        return [
            each.get("text", each.get("ename", each.get("data", {}).get("text/plain"))) for each in outputs
        ]

    @property
    def traceback(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(self.error.get("traceback", [])))


_OUTPUTS = ("stream", "display_data", "execute_result", "error")


def _updated(message, update):
    content = message["content"]
    if message["msg_type"] != "display_data" or content["transient"] != update["transient"]:
        return message
    return {**message, "content": update}


def _is_stream(message, name):
    return message["msg_type"] == "stream" and message["content"]["name"] == name


class Kernel:
    """A kernel and its client; every message is kept with the cell it says it belongs to."""

    def __init__(self, name="python3", arguments=()):
        """Start the kernel `name`, with further `arguments` on its command line."""
        from jupyter_client.manager import KernelManager

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jupyter_client warns about its own defaults
            # No ports: another process could take one between its choice and the kernel's start.
            self._sockets = TemporaryDirectory()
            place = f"{self._sockets.name}/kernel"  # beside other tests' kernels
            self.manager, self.client = KernelManager(kernel_name=name, transport="ipc", ip=place), None
            try:
                self.manager.start_kernel(env={**os.environ, **QUIET}, extra_arguments=list(arguments))
                self.client = self.manager.client()
                self.client.start_channels()
                self.client.wait_for_ready(timeout=PATIENCE_S)
            except BaseException:
                self.close()
                raise

    def send(self, code):
        return self.client.execute(code)

    def until(self, condition):
        """Messages up to the first that fulfils `condition`."""
        messages = []
        deadline = time.monotonic() + WHOLE_PATIENCE_S
        while True:
            left = max(0, min(PATIENCE_S, deadline - time.monotonic()))
            try:
                messages.append(self.client.get_iopub_msg(timeout=left))
            except Empty:
                self.give_up(messages)
            if condition(messages[-1]):
                return messages

    def give_up(self, messages):
        """Fail with the last of `messages`; the kernel writes its threads' stacks to stderr and ends."""
        self.manager.signal_kernel(signal.SIGABRT)
        self.manager.provisioner.process.wait(PATIENCE_S)
        last = "\n".join(str(message["content"]) for message in messages[-5:])
        raise TimeoutError(f"it did not come after {len(messages)} messages; the last:\n{last}")

    def until_text(self, cell, text, times=1):
        """Messages up to the moment when the cell's output contains `text` so many times."""
        seen = ""

        def enough(message):
            nonlocal seen
            if message["msg_type"] == "stream" and _parent(message) == cell:
                seen += message["content"]["text"]
            return seen.count(text) >= times

        return self.until(enough)

    def finish(self, cell, before=()):
        """Wait for a cell that was sent; `before`: the messages that were read meanwhile."""

        def is_last(message):
            is_idle = message["content"].get("execution_state") == "idle"
            return message["msg_type"] == "status" and is_idle and _parent(message) == cell

        messages = list(before)
        if not any(map(is_last, messages)):  # what a cell has started may go on writing
            messages += self.until(is_last)
        reply = self._reply(cell)
        mine = [m for m in messages if _parent(m) == cell]
        late = [m for m in messages if _parent(m) != cell and m["msg_type"] != "status"]
        error = reply["content"] if reply["content"]["status"] == "error" else {}
        return Ran(reply["content"]["status"], error, mine, late)

    def _reply(self, cell):
        while True:
            try:
                reply = self.client.get_shell_msg(timeout=PATIENCE_S)
            except Empty:
                self.give_up([])
            if _parent(reply) == cell:
                return reply

    def run(self, code):
        return self.finish(self.send(code))

    def ok(self, code):
        ran = self.run(code)
        assert ran.status == "ok", ran.traceback or ran.error
        return ran

    def left(self, module, name, besides=0):
        """How many objects of a class are left `besides` so many, once what can be collected was.

        Nobody can collect while a thread that does so waits for its turn, and what the kernel's event loop is
        still to do runs between cells: once may not be enough.
        """
        for _ in range(10):
            looked = self.ok(
                f"import gc, threading\nfrom {module} import {name}\n"
                "gc.collect()\n"
                f"left = sum(type(each) is {name} for each in gc.get_objects())\n"
                f"if left > {besides}: threading.Event().wait(0.1)\n"
                "left"
            )
            if int(looked.value) <= besides:
                break
        return int(looked.value) - besides

    def interrupt(self):
        self.manager.interrupt_kernel()

    def answer(self, reply):
        """Answer one input request."""
        self.client.get_stdin_msg(timeout=PATIENCE_S)
        self.client.input(reply)

    def close(self):
        if self.client is not None:
            self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
        self._sockets.cleanup()


def _parent(message):
    return message["parent_header"].get("msg_id")
