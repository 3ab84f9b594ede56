"""Cells that are on their way for as long as a test wants."""

from __future__ import annotations

SPIN = "while True:\n    i = 1\n    i += 1"
GATE = "import builtins, threading\nbuiltins.gate = threading.Event()"
WAITING = "%%disco --nowait -o h\nimport builtins\nbuiltins.gate.wait(20)\n"


def begun(shell, source, count=4):
    """The handle `h` of a cell in which `count` workers have come to the gate."""
    handle = shell.run(f"%%disco --nowait -o h\n{source}")
    shell.ip.user_ns["gate"].arrived(count)
    return handle


async def outcome(handle):
    """What awaiting it gives; `asyncio.run` takes no other awaitable than a coroutine."""
    return await handle
