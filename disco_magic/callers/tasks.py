"""What led to a call of a collective: the asyncio task that makes it, and the lines before it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from disco_magic.callers.sites import callers_of

if TYPE_CHECKING:
    from types import CodeType

    from disco_magic.core.recorded import Led


def led_by(code: CodeType) -> Led:
    """The name of the calling thread's task, "" if there is none, and `callers_of` the code."""
    asyncio: Any = sys.modules.get("asyncio")  # who has tasks has imported it
    try:
        task = asyncio.current_task()
    except (AttributeError, RuntimeError):  # not imported; no event loop runs
        task = None
    return "" if task is None else task.get_name(), callers_of(code)
