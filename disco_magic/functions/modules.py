"""Modules: what a worker loads from a path, to call the functions in it by name.

::

    path --> locate     which loader takes it, or why none does; the controller asks before anything is sent
         --> load       the module, once per process, and again after its files have changed
         --> Module.on  what one worker keeps of it

There are loaders for Python (`python_modules`) and for what TVM compiled (`tvm_modules`); `register_loader`
adds others.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from disco_magic.callers.current import calling_worker
from disco_magic.errors import MissingDependency, UnknownName, UsageMistake
from disco_magic.functions.claims import Claim
from disco_magic.functions.installed import has_package
from disco_magic.functions.paths import path_text
from disco_magic.functions.places import HOST_PLACE, check_there
from disco_magic.functions.registry import register_func
from disco_magic.phrases import near_paths, nearest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from disco_magic.core.device import Device

    Stamp = tuple[tuple[str, int, int], ...]


class Module(ABC):
    """Something loaded, with functions by name. A handle, not a value: copying it returns the same object.

    A loader returns an object of a subclass that implements `find` and `function_names`.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)

    @abstractmethod
    def find(self, name: str, *, imports: bool = True) -> Callable[..., Any] | None:
        """The function `name`, None if there is none; with `imports` also from modules that it imports."""

    @abstractmethod
    def function_names(self) -> list[str]:
        """Names of its functions, sorted; `find` may know more."""

    def on(self, device: str) -> Module:
        """What a worker on `device` uses: the module itself, unless every worker needs its own."""
        del device
        return self

    def get_function(self, name: str, *, imports: bool = True) -> Callable[..., Any]:
        """Return the function `name`; raise UnknownName, with near misses, if there is none."""
        function = self.find(name, imports=imports)
        if function is None:
            raise UnknownName(self.lack(name))
        return function

    def lack(self, name: str) -> str:
        """Say why there is no function `name`."""
        return f"there is no function '{name}' in '{self.path}'; {nearest(name, self.function_names())}"

    def __repr__(self) -> str:
        return f"<module '{self.path}'>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        return self


# --- loaders ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loader:
    """One kind of module: see `register_loader`."""

    what: str
    recognises: Callable[[Path], bool]
    load: Callable[[Path], Module]
    needs: str | None
    install: str | None


_loaders: list[Loader] = []


def register_loader(
    what: str,
    recognises: Callable[[Path], bool],
    load: Callable[[Path], Module],
    *,
    needs: str | None = None,
    install: str | None = None,
) -> None:
    """Teach the workers of this process another kind of module; the loader registered last is asked first.

    Args:
        what: the kind in words, for errors: ``"a Python file (.py)"``.
        recognises: whether it takes a file or directory of that path, which exists and is absolute.
        load: makes a `Module` of it; called once per process for each version of it, by one of the workers.
        needs: a package that has to be installed for it.
        install: what to pass to pip for that; None: `needs` itself.
    """
    _loaders.append(Loader(what, recognises, load, needs, install))


def locate(path: str | os.PathLike[str]) -> tuple[Path, Loader]:
    """Return the resolved path, and its loader. Looks at the path only, loads nothing, takes 0.1 ms.

    Raises:
        UsageMistake: there is nothing at `path`, or nothing that any loader takes.
        MissingDependency: the package that loads it is not installed.
    """
    text = path_text("a module is loaded", path)
    try:
        full = Path(text).expanduser().resolve()
        is_there = full.exists()
    except (ValueError, RuntimeError, OSError):
        raise UsageMistake(f"a module is loaded by its path, got {path!r}") from None
    if not is_there:
        hint = near_paths(str(full)) or "check the path"
        raise UsageMistake(f"there is no module '{path}' (expected it at {full}); {hint}")
    if full.name == "__init__.py":
        full = full.parent
    loader = next((each for each in reversed(_loaders) if each.recognises(full)), None)
    if loader is None:
        kind = "a directory without __init__.py" if full.is_dir() else f"a file ending in '{full.suffix}'"
        known = ", or ".join(each.what for each in _loaders)
        raise UsageMistake(f"'{path}' is {kind}, which is not a module; expected {known}")
    if loader.needs is not None:
        _check_installed(path, loader.needs, loader.install)
    return full, loader


def _check_installed(path: object, package: str, install: str | None) -> None:
    if not has_package(package):
        raise MissingDependency(
            f"loading '{path}' needs the package {package}, which is not installed; "
            f'pip install "{install or package}"'
        )


# --- the modules of this process ---------------------------------------------------------------------


_loaded: dict[str, tuple[Stamp, Module]] = {}
# Also former versions, while somebody holds them: a worker that is late gets what the others got.
_versions: WeakValueDictionary[tuple[str, Stamp], Module] = WeakValueDictionary()


def load(path: str | os.PathLike[str], asked: Stamp | None = None) -> Module:
    """Return the module at `path`: the first thread that asks loads it, later ones get the same object.

    It is loaded again if its file, or a ``.py`` file of its package, has another modification time or size
    than when it was loaded; holders of the former version keep that. A failed load is not kept: threads that
    waited for it, or come later, try again.

    Args:
        path: of the module.
        asked: what `stamp_of` returned when this was asked for; those who ask with the same get the same
            object, whatever becomes of the file meanwhile. None: now.

    Raises:
        Whatever `locate` and the loader raise; errors of the module's own code as they are.
    """
    full, loader = locate(path)
    key, mine = str(full), Claim(str(full))
    try:  # not a context manager: an interrupt may strike right after the claim was made
        mine.take()
        stamp = asked or stamp_of(full)
        known = _loaded.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        module = _versions.get((key, stamp)) or loader.load(full)
        _loaded[key], _versions[key, stamp] = (stamp, module), module
        return module
    finally:
        mine.give_back()


def stamp_of(path: Path) -> Stamp:
    """The names, times and sizes of a module's files, which change when it is edited. Takes 20 us a file."""
    if not path.is_dir():
        now = path.stat()
        return ((str(path), now.st_mtime_ns, now.st_size),)
    # What is no file, such as an editor's lock (a link to nowhere), is not the package's.
    files = [file for file in sorted(path.rglob("*.py")) if file.is_file()]
    return tuple((str(file), (now := file.stat()).st_mtime_ns, now.st_size) for file in files)


# --- the loaders that come with us, imported when they are used --------------------------------------


def _is_python(path: Path) -> bool:
    return (path / "__init__.py").is_file() if path.is_dir() else path.suffix == ".py"


def _load_python(path: Path) -> Module:
    from disco_magic.functions import python_modules

    return python_modules.load(path)


def _load_tvm(path: Path) -> Module:
    from disco_magic.functions import tvm_modules

    return tvm_modules.load(path)


register_loader("a Python file (.py) or a package (a directory with __init__.py)", _is_python, _load_python)
register_loader(
    "a library that TVM compiled (.so, .dylib, .tar)",
    lambda path: path.is_file() and path.suffix in (".so", ".dylib", ".tar"),
    _load_tvm,
    needs="tvm",
    install="disco-magic[tvm]",
)


# --- what workers are asked to do ------------------------------------------------------------------


def check_device(device: object, there: Sequence[Device] = (HOST_PLACE.device,)) -> str | None:
    """The device's name, or None; `device` is None, or anything whose text names one that workers have."""
    return None if device is None else str(check_there("load_vm_module", str(device), there))


@register_func("runtime.disco.load_vm_module")
def load_vm_module(path: str, device: object = None, asked: Stamp | None = None) -> Module:
    """Return the module at `path` for the calling worker; see `load`."""
    me = calling_worker()
    own = HOST_PLACE.device if me is None else me.place.device
    return load(path, asked).on(check_device(device, (own,)) or str(own))


@register_func("runtime.ModuleGetFunction")
def module_get_function(module: Module, name: str, query_imports: bool = True) -> Callable[..., Any]:  # noqa: FBT001, FBT002 - TVM's order
    """Return the function `name` of a module in a register; with `query_imports`, also of what it imports."""
    return _checked(module).get_function(name, imports=bool(query_imports))


def lack_of(module: Module, name: str) -> str | None:
    """Say why a module has no function `name`; None if it has one."""
    return None if _checked(module).find(name) is not None else module.lack(name)


def names_of(module: Module) -> list[str]:
    """Names of a module's functions."""
    return _checked(module).function_names()


def _checked(module: Module) -> Module:
    if not isinstance(module, Module):
        raise UsageMistake(
            f"the register holds {type(module).__name__}, expected a module; load_vm_module makes one"
        )
    return module


@register_func("runtime.disco._import_python_module")
def import_python_module(name: str) -> None:
    """``import name``; raises what that raises."""
    # The function beneath the statement: it removes the import system's own frames from a traceback.
    __import__(name)
    # If another thread's import of the module fails, CPython gives a thread that waited for it the unfinished
    # module, without an error. This asks again, under the module's lock.
    importlib.import_module(name)
