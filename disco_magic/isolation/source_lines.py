"""`linecache`, which has the lines of source that tracebacks show, for several threads at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.callers.replaced import Replaced, replace_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# Each time another thread has dropped a file that had changed, of which there are not that many.
_TIMES: Final = 1000


def fit_linecache(module: ModuleType) -> Callable[[], None]:
    """Let workers drop lines of files that have changed, all at once; `module` is ``linecache``.

    `doctest`, `pdb` and every traceback do. Python's function goes through what it had when it began, and
    fails where another thread has dropped that meanwhile.
    """

    def checkcache(filename: str | None = None) -> None:
        for _ in range(_TIMES):
            try:
                checked.below(filename)
            except KeyError:
                continue
            return

    checked = Replaced(module, "checkcache", checkcache)
    return replace_all([checked])
