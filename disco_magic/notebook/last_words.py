"""What is logged as the kernel ends, such as that cells were still running.

No front end shows what a kernel prints by then; the terminal of a tool that has executed a notebook does.
"""

from __future__ import annotations

import logging
import sys
from functools import cache


def log_to_terminal() -> None:
    """Let our warnings go to the process's own stderr, if a kernel has replaced that. Idempotent."""
    if sys.__stderr__ is not None and sys.stderr is not sys.__stderr__:
        logging.getLogger("disco_magic").addHandler(_handler())


@cache
def _handler() -> logging.Handler:
    return logging.StreamHandler(sys.__stderr__)
