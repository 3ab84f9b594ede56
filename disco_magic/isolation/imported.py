"""Libraries that are changed for a while, once they have been imported, by whichever thread does so.

Changes to a library must be there before anybody uses it, but must not import it: a notebook that plots
nothing must not wait for matplotlib.
"""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import suppress
from contextvars import Context
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Fit = Callable[[ModuleType], Callable[[], None] | None]


# Raised where a library lacks what we know, or has something else.
_UNKNOWN = (AttributeError, KeyError, TypeError, ValueError)
_SHARED: Final = "{} is not a version that this disco_magic knows: all workers share its process-wide state"
_untold: Final[list[str]] = []  # warnings to be shown once the lock is released
_asking: Final = threading.local()  # `now`: the finders that this thread is asking, and for which modules


class AfterImport(MetaPathFinder):
    """A finder that finds what the others find, and calls a function once the module has been imported.

    Args:
        names: of the modules.
        then: what is called with name and module, still under the module's import lock, and whether the
            module is a worker's own, see `own_modules`.

    To be put first into `sys.meta_path`, and removed again.
    """

    def __init__(self, names: Container[str], then: Callable[[str, ModuleType, bool], object]) -> None:
        self._names, self._then = names, then

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if name not in self._names:
            return None
        spec = find_beside(self, name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, partial(self._then, name))
        return spec


def find_beside(
    finder: MetaPathFinder, name: str, path: Sequence[str] | None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """Return what the other finders find, except those that are asking for that module already.

    Two finders that each ask all others would never come to an end.
    """
    before = getattr(_asking, "now", ())
    try:
        _asking.now = now = (*before, (finder, name))
        return _found(now, name, path, target)
    finally:
        _asking.now = before


def _found(
    now: Sequence[tuple[object, str]], name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for each in list(sys.meta_path):
        # One that has no `find_spec` is not asked, as the import system does it.
        find = None if (each, name) in now else getattr(each, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(name, path, target)
        if spec is not None:
            return spec
    return None


def is_asked_for(name: str) -> bool:
    """Whether this thread is in a `find_beside` for that module."""
    return any(each == name for _, each in getattr(_asking, "now", ()))


class _Loader(Loader):
    """Executes the module with its own loader, which it puts back before it calls the function.

    Code that only looks for the module finds what its own loader can do, too: `runpy` asks for its code.
    """

    def __init__(self, loader: Any, then: Callable[[ModuleType, bool], object]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See `importlib.abc.Loader`."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """See `importlib.abc.Loader`."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        # A worker's own module, see `own_modules`: the usual changes are made to shared modules.
        is_own = "__builtins__" in vars(module)
        if is_own:
            self._loader.exec_module(module)
        else:
            # Module and what it sets up are the process's, not of the worker that happens to import it first.
            Context().run(self._loader.exec_module, module)
        self._then(module, is_own)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_loader"), name)  # being copied, it has none yet


def is_imported(name: str) -> bool:
    """Whether that module is imported, and not still being imported by another thread."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


class Libraries:
    """The libraries of this process that are to be changed, for one or more users.

    Args:
        fits: module -> function that changes it, and returns what undoes that, or None. If it raises an error
            of names, types or values, the module is not as expected: it is left as it is, with a warning.
            Modules that are imported already are changed in this order.
        also_own: modules that are changed also where they are a worker's own. Nothing undoes that.
    """

    def __init__(self, fits: Mapping[str, Fit], also_own: Sequence[str] = ()) -> None:
        self._fits = fits
        self._users: WeakSet[object] = WeakSet()
        self._undo: dict[str, Callable[[], None]] = {}
        # Reentrant: a `fit`, or a finalizer, may import another of the modules.
        self._lock = new_rlock()
        self._also_own = also_own
        self._finder = AfterImport(fits, self._imported)

    def enter(self, user: object) -> None:
        """Change them until `user` and all others have left or are gone. Costs 3 us if nothing is new."""
        with self._lock:
            if user not in self._users:
                self._users.add(user)
                if self._finder not in sys.meta_path:
                    sys.meta_path.insert(0, self._finder)
            left = filterfalse(self._undo.__contains__, self._fits)
            for name in [*filter(sys.modules.__contains__, left)]:
                if not is_imported(name):
                    continue
                self._fit_locked(name, sys.modules[name])
        if _untold:
            _tell()

    def leave(self, user: object) -> None:
        """Undo the changes when the last user leaves."""
        with self._lock:
            self._users.discard(user)
            if self._users:
                return
            if self._finder in sys.meta_path:
                sys.meta_path.remove(self._finder)
            failed = self._undo_locked()
            if failed:
                raise failed[0]

    def _undo_locked(self) -> list[Exception]:
        failed: list[Exception] = []
        while self._undo:
            _, undo = self._undo.popitem()  # the last one first
            try:
                undo()
            except Exception as error:  # noqa: BLE001 - raised by `leave`: the others have to be undone, too
                failed.append(error)
        return failed

    def _imported(self, name: str, module: ModuleType, is_own: bool) -> None:  # noqa: FBT001 - see `AfterImport`
        if not is_own:
            with self._lock:
                self._fit_locked(name, module)
        elif name in self._also_own:
            each_of(self._fits[name])(module)
        _tell()

    def _fit_locked(self, name: str, module: ModuleType) -> None:
        if self._users and name not in self._undo:
            self._undo[name] = each_of(self._fits[name])(module)


def each_of(*fits: Fit) -> Callable[[ModuleType], Callable[[], None]]:
    """Combine several fits of one module; those that know the module work even if one does not."""

    def fit_each(module: ModuleType) -> Callable[[], None]:
        undoing: list[Callable[[], None] | None] = []

        def undo() -> None:
            for each in reversed(undoing):
                if each is not None:
                    each()

        try:
            for fit in fits:
                undoing.append(_tried(fit, "", module))  # noqa: PERF401 - the first ones count if one is struck
        except BaseException:  # an interrupt: nobody else knows what has been changed
            undo()
            raise
        return undo

    return fit_each


def deferred(home: str, name: str, *arguments: Any, **options: Any) -> Fit:
    """Return the fit of that name in module `home`, which is imported only with the library to be changed.

    Most sessions import none of these libraries.

    Args:
        home: the module, in full.
        name: of the fit; or of what makes it, if there is anything to make it with.
        arguments: what makes it gets these.
        options: and these.
    """

    def fit(module: ModuleType) -> Callable[[], None] | None:
        found = getattr(import_module(home), name)
        made: Fit = found(*arguments, **options) if arguments or options else found
        return made(module)

    return fit


def told_if_unknown(fit: Fit, told: str) -> Fit:
    """Return `fit`, with this text as the warning if the module is not as expected."""
    return partial(_tried, fit, told)


def _tried(fit: Fit, told: str, module: ModuleType) -> Callable[[], None] | None:
    """Call `fit`; if the module is not as expected, its import must not fail because of that."""
    try:
        return fit(module)
    except _UNKNOWN as reason:
        name = getattr(module, "__name__", "what is in the place of a module")  # it may be any object
        _untold.append(f"{told or _SHARED.format(name)}: {reason!r}")
        return None


def _tell() -> None:
    """Show the pending warnings, without a lock: what shows warnings may be the user's."""
    while _untold:
        with suppress(UserWarning, IndexError):  # warnings may be errors; another thread may be faster
            warnings.warn(_untold.pop(0), stacklevel=3)
