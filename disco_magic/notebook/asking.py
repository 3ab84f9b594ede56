"""`input` in a worker's cell: one worker asks at a time, and says which one it is."""

from __future__ import annotations

import builtins
import threading
from typing import TYPE_CHECKING

from disco_magic.notebook.footer import FOOTER

if TYPE_CHECKING:
    from collections.abc import Callable

# A notebook has one line to its front end for answers: of two requests at once one would lose its own.
_turn = threading.Lock()
_LOOK_UP_S = 0.1


def input_for(worker: int) -> Callable[[object], str]:
    """The `input` of one worker."""

    def worker_input(prompt: object = "", /) -> str:
        """As `input`, after the workers that asked before; the prompt begins with the worker's number."""
        # In slices, so that an interrupt strikes between them.
        while not _turn.acquire(timeout=_LOOK_UP_S):
            pass
        try:
            with FOOTER.aside():
                return builtins.input(f"[{worker}] {prompt}")  # the kernel replaces it for the time of a cell
        finally:
            _turn.release()

    return worker_input
