"""`linecache`, which keeps the source lines that tracebacks show, made safe for several threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.callers.replaced import replace_all, replacing

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# One try per file that another thread has dropped because it had changed: there are never that many.
_TIMES: Final = 1000


def fit_linecache(module: ModuleType) -> Callable[[], None]:
    """Let several workers drop the lines of changed files at once; `module` is ``linecache``.

    `doctest`, `pdb` and every traceback do so. Python's function iterates over what was there when it began,
    and fails if another thread drops an entry meanwhile.
    """

    @replacing(module, "checkcache")
    def checkcache(filename: str | None = None) -> None:
        for _ in range(_TIMES):
            try:
                checkcache.below(filename)
            except KeyError:
                continue
            return

    return replace_all([checkcache])
