"""Threads of ours: daemons that belong to no worker, also if one starts them."""

from __future__ import annotations

import threading
from contextvars import Context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def start_thread(name: str, target: Callable[..., object], *args: object) -> threading.Thread:
    """Start a daemon that calls ``target(*args)`` in an empty context; what it prints is no worker's."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    Context().run(thread.start)
    return thread
