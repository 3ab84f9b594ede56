"""`linecache`, which keeps the source lines that tracebacks show, made safe for several threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.callers.replaced import in_place_of

if TYPE_CHECKING:
    from collections.abc import Callable

# One try per file that another thread has dropped because it had changed: there are never that many.
_TIMES: Final = 1000


@in_place_of("checkcache")
def fit_linecache(below: Callable[..., None], filename: str | None = None) -> None:
    """Let several workers drop the lines of changed files at once; in ``linecache``.

    `doctest`, `pdb` and every traceback do so. Python's function iterates over what was there when it began,
    and fails if another thread drops an entry meanwhile.
    """
    for _ in range(_TIMES):
        try:
            below(filename)
        except KeyError:
            continue
        return
