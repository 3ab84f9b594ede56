"""matplotlib's settings, `rcParams`: each worker has its own changes on top of the notebook's settings.

``with plt.style.context(...)``, `rc_context` and seaborn's styles save the settings and restore them at the
end. In four threads at once, one would save what another has set, and the notebook would keep that for ever.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.notebook.libraries.homes import OfWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

_own: Final[OfWorkers[dict[str, Any]]] = OfWorkers(dict)

# Settings that exist once per process.
_COMMON: Final = frozenset({"backend", "backend_fallback"})


def fit_settings(module: ModuleType) -> Callable[[], None] | None:
    """Give every worker its own settings; `module` is ``matplotlib``."""
    settings, kind, common_context = module.rcParams, module.RcParams, module.rc_context
    if type(settings) is not kind or not (hasattr(kind, "_get") and hasattr(kind, "_set")):
        return None  # an unknown version: all workers share the settings
    settings.__class__ = _kind_of_workers(kind, settings)
    context = _context_of_workers(module, common_context)
    take = replace_all([Replaced(module, "rc_context", context)])

    def undo() -> None:
        settings.__class__ = kind
        take()
        _own.forget()

    return undo


def _kind_of_workers(kind: Any, settings: Any) -> Any:
    """The class of `settings` meanwhile. A copy has this class too, but holds its own values."""

    class RcParams(kind):  # type: ignore[misc]  # the name is shown
        def __reduce_ex__(self, _: Any) -> Any:
            return kind, (), None, None, iter(self.items())  # pickled as the original class

        def _get(self, key: str) -> Any:
            own = _own.mine() if self is settings else None
            return own[key] if own and key in own else kind._get(self, key)  # noqa: SLF001 - overridden here

        def _set(self, key: str, value: Any) -> None:
            own = _own.mine() if self is settings and key not in _COMMON else None
            if own is None:
                kind._set(self, key, value)  # noqa: SLF001
            elif _same(kind._get(self, key), value):  # noqa: SLF001
                own.pop(key, None)
            else:
                own[key] = value

    RcParams.__module__, RcParams.__qualname__ = kind.__module__, kind.__qualname__
    return RcParams


def _same(one: Any, other: Any) -> bool:
    """Whether a value equals the notebook's; then it follows the notebook's."""
    return type(one) is type(other) and bool(one == other)


def _context_of_workers(module: ModuleType, common: Any) -> Any:
    @contextmanager
    @functools.wraps(common)  # pyplot checks its name
    def rc_context(rc: Any = None, fname: Any = None) -> Iterator[None]:
        own = _own.mine()
        if own is None:
            with common(rc, fname):
                yield
            return
        before = dict(own)
        try:
            if fname:
                module.rc_file(fname)
            if rc:
                module.rcParams.update(rc)
            yield
        finally:
            own.clear()
            own.update(before)

    return rc_context
