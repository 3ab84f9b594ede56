"""Failures on some workers in a cell that ran out of time: they may be why the others did not finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.callers.tracebacks import site_of_error
from disco_magic.errors import CellError
from disco_magic.phrases import people, who_has

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.errors import Failure, SyncTimeout


def sentence(failed: Sequence[Failure]) -> str:
    """``worker 0 failed meanwhile: ValueError: no at Cell In[7], line 2``; a line per kind of failure."""
    sites = ((each, site_of_error(each.exception)) for each in failed)
    texts = who_has(
        (each.worker, f"{each.summary} at {site}" if site.filename else each.summary) for each, site in sites
    )
    return "\n".join(f"{people(workers)} failed meanwhile: {text}" for text, workers in texts.items())


def tell(late: SyncTimeout, failed: Sequence[Failure]) -> SyncTimeout:
    """Attach the failures to `late`, and return it."""
    if failed:
        late.failures = {each.worker: each for each in failed}
        late.__cause__ = CellError(late.failures)
    return late
