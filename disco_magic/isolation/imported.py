"""Libraries that are changed for a while, when they have been imported, by whichever thread imports them.

What has to be changed in a library must be there before anybody uses it, and not before it is imported: a
notebook that plots nothing must not wait for matplotlib.
"""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import suppress
from contextvars import Context
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from disco_magic.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Fit = Callable[[ModuleType], Callable[[], None] | None]
    Actions = Mapping[str, Callable[[ModuleType], object]]


# What we know is not there, or is another.
_UNKNOWN = (AttributeError, KeyError, TypeError, ValueError)
_SHARED: Final = (
    "{} is not as this version of disco_magic knows it: what it keeps once per process all workers share"
)
_untold: Final[list[str]] = []  # until the lock is given back
_asking: Final = threading.local()  # `now`: finders of this thread, and for which modules


class AfterImport(MetaPathFinder):
    """A finder that finds what the others find, and calls a function once the module is there.

    Args:
        actions: module -> what is called with it, still under the module's import lock.
        own: the same for modules of a worker's own, see `own_modules`.

    To be put into `sys.meta_path` first and taken out again.
    """

    def __init__(self, actions: Actions, own: Actions | None = None) -> None:
        self._actions, self._own = actions, own or {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if name not in self._actions:
            return None
        spec = find_beside(self, name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._actions[name], self._own.get(name, _nothing_to_do))
        return spec


def find_beside(
    finder: MetaPathFinder, name: str, path: Sequence[str] | None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """What all finders but that one find, and but those which are asking for that module already.

    Of two that each ask all others, neither would ever come to an end.
    """
    before = getattr(_asking, "now", ())
    try:
        _asking.now = now = (*before, (finder, name))
        for each in list(sys.meta_path):
            # One that has no `find_spec` is not asked, as the import system does it.
            find = None if (each, name) in now else getattr(each, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                return spec
    finally:
        _asking.now = before
    return None


class _Loader(Loader):
    """Executes the module as its own loader does, which it puts back before it calls the function.

    Who only looks for the module finds what its own loader can do, too: `runpy` asks for its code.
    """

    def __init__(
        self, loader: Any, action: Callable[[ModuleType], object], own: Callable[[ModuleType], object]
    ) -> None:
        self._loader = loader
        self._action, self._own = action, own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See `importlib.abc.Loader`."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """See there."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        # One of a worker's own, see `own_modules`: what is changed is everybody's.
        if "__builtins__" in vars(module):
            self._loader.exec_module(module)
            self._own(module)
            return
        # A module is the process's, not the worker's that happens to import it first; so is what it sets up.
        Context().run(self._loader.exec_module, module)
        self._action(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_loader"), name)  # while it is copied it has none yet


def is_imported(name: str) -> bool:
    """Whether that module is there, and not just being imported by another thread."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


class Libraries:
    """The libraries of this process; several users may want them changed.

    Args:
        fits: module -> what changes it, and returns what undoes that; None, or an error of names or types, if
            it is not what we know: that is left as it is, and warned of. Of modules that are there already,
            the first one is changed first.
        also_own: those that are changed also where they are a worker's own. Nothing undoes that.
    """

    def __init__(self, fits: Mapping[str, Fit], also_own: Sequence[str] = ()) -> None:
        self._fits = fits
        self._users: WeakSet[object] = WeakSet()
        self._undo: dict[str, Callable[[], None]] = {}
        # A `fit` may import what is to be changed, too, and so may a finalizer.
        self._lock = new_rlock()
        own = {name: partial(self._fit_own, name) for name in also_own}
        self._finder = AfterImport({name: partial(self._fit, name) for name in fits}, own)

    def enter(self, user: object) -> None:
        """Change them, until `user` and all others have left or are gone; costs 3 us if nothing is new."""
        with self._lock:
            if user not in self._users:
                self._users.add(user)
                if self._finder not in sys.meta_path:
                    sys.meta_path.insert(0, self._finder)
            for name in self._fits:
                if name not in self._undo and is_imported(name):
                    self._fit_locked(name, sys.modules[name])
        _tell()

    def leave(self, user: object) -> None:
        """Undo it after the last one."""
        with self._lock:
            self._users.discard(user)
            if self._users:
                return
            if self._finder in sys.meta_path:
                sys.meta_path.remove(self._finder)
            failed: list[Exception] = []
            while self._undo:
                _, undo = self._undo.popitem()  # the last one first
                try:
                    undo()
                except Exception as error:  # noqa: BLE001 - raised below: the others are to be undone, too
                    failed.append(error)
            if failed:
                raise failed[0]

    def _fit(self, name: str, module: ModuleType) -> None:
        with self._lock:
            self._fit_locked(name, module)
        _tell()

    def _fit_locked(self, name: str, module: ModuleType) -> None:
        if self._users and name not in self._undo:
            self._undo[name] = each_of(self._fits[name])(module)

    def _fit_own(self, name: str, module: ModuleType) -> None:
        each_of(self._fits[name])(module)
        _tell()


def _nothing_to_do(_module: ModuleType) -> None:
    """Of a module that is left as it is."""


def each_of(*fits: Fit) -> Callable[[ModuleType], Callable[[], None]]:
    """Several for one module, of which one may not know it and the others do."""

    def fit_each(module: ModuleType) -> Callable[[], None]:
        undoing: list[Callable[[], None] | None] = []
        for fit in fits:
            try:
                undoing.append(fit(module))
            except _UNKNOWN as reason:  # importing must not fail for that
                name = getattr(module, "__name__", "what is in the place of a module")  # it may be any object
                _untold.append(f"{_SHARED.format(name)}: {reason!r}")

        def undo() -> None:
            for each in reversed(undoing):
                if each is not None:
                    each()

        return undo

    return fit_each


def told_if_unknown(fit: Fit, told: str) -> Fit:
    """`fit`, of which it is warned in these words if the module is not as it knows it."""

    def fit_or_tell(module: ModuleType) -> Callable[[], None] | None:
        try:
            return fit(module)
        except _UNKNOWN as reason:
            _untold.append(f"{told}: {reason!r}")
            return None

    return fit_or_tell


def _tell() -> None:
    """Warn of what was unknown, without a lock: what shows warnings may be the user's."""
    while _untold:
        with suppress(UserWarning, IndexError):  # errors, but a session has to start; another thread tells it
            warnings.warn(_untold.pop(0), stacklevel=3)
