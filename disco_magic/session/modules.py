"""Modules on the workers: loaded by path, with functions called by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from disco_magic.errors import UnknownName, UsageMistake, is_told
from disco_magic.functions import modules
from disco_magic.session.calls import Calls
from disco_magic.session.dref import DPackedFunc, DRef

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from disco_magic.session.session import Session

__tracebackhide__ = is_told


class DModule(DRef):
    """A register that holds a module: ``module["name"]`` is its function, on every worker.

    Attributes:
        path: as it was given.
    """

    __slots__ = ("_functions", "_names", "path")

    def __init__(self, session: Session, register: int, path: str) -> None:
        super().__init__(session, register)
        self.path = path
        self._names: tuple[str, ...] | None = None
        self._functions: dict[str, DPackedFunc] = {}

    def __getitem__(self, name: str) -> DPackedFunc:  # type: ignore[override]  # others have no items
        """The function `name`. Kept: asked again, it is the same reference and nothing is sent.

        The first lookup waits until all workers have loaded the module; a name that `function_names` does not
        list waits for worker 0, which knows for sure; others do not wait.

        Raises:
            UnknownName: it has no function of that name; near misses are in the message.
            WorkerError: the module could not be loaded.
        """
        if not isinstance(name, str):
            raise UsageMistake(f"a module's functions have names, got {type(name).__name__}")
        self.session.own(self)
        function = self._functions.get(name)
        if function is None:
            lack = self._lack(name)
            if lack is not None:
                raise UnknownName(lack)
            dref = self.session.call_packed(modules.module_get_function, self, name)
            function = self._functions.setdefault(name, dref.as_function(name))
        return function

    def function_names(self, timeout: float | None = None) -> list[str]:
        """Return its functions' names, sorted; the first call waits until all workers have loaded the module.

        Args:
            timeout: seconds to wait at most; None: the session's `timeout`.

        Raises:
            WorkerError: the module could not be loaded.
            SyncTimeout: says where each worker is.
        """
        self.session.own(self)
        if self._names is None:
            # All workers are asked, so that a failure to load is raised now, for all of them, and not later.
            limit = self.session.patience(timeout)
            self.session.keep_pace(limit, "function_names")
            names = self.session.call_packed(modules.names_of, self)
            self._names = tuple(self.session.fetch(names, range(self.session.num_workers), limit)[0])
        return list(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.function_names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._lack(name) is None

    def __repr__(self) -> str:
        known = f": {', '.join(self._names)}" if self._names else ""
        return f"{super().__repr__()[:-1]}, '{self.path}'{known}>"

    def _lack(self, name: str) -> str | None:
        """Why there is no function `name`; None if there is one."""
        if name in self.function_names():
            return None
        lack: str | None = self.session.call_packed(modules.lack_of, self, name, workers=(0,)).get(0)
        return lack


class Modules(Calls):
    """The mixin of `Session` that loads modules."""

    def load_vm_module(self, path: str | os.PathLike[str], device: object = None) -> DModule:
        """Load a module on every worker, without waiting for it.

        A process loads a path once for all its workers, and again after its files have changed. Of a
        virtual machine's executable, every worker gets a machine of its own.

        Args:
            path: a Python file, the directory of a package, or what TVM exported (``.so``, ``.dylib``,
                ``.tar``). Code at the top level of Python modules runs on one of the workers only: it must
                not call collectives.
            device: what a virtual machine computes on: ``"cpu"`` or the workers' GPU; None: their GPU if they
                have one.

        Returns:
            The module's register; ``module["name"]`` is a function of it. If loading raises on a worker, it
            is poisoned there, like the result of any other call.

        Raises:
            UsageMistake: there is no such file, no module in it, or no such device. Nothing was sent.
            MissingDependency: ``disco-magic[tvm]`` is not installed. Nothing was sent.
        """
        full, _ = modules.locate(path)
        place = modules.check_device(device, self._places())
        dref = self.call_packed(modules.load_vm_module, str(full), place, modules.stamp_of(full))
        return self.succeed(dref, partial(DModule, path=str(path)))  # `dref` gives the register up

    def import_python_module(self, name: str, timeout: float | None = None) -> None:
        """Run ``import name`` on every worker and wait, so that functions it registers can be found.

        Args:
            name: as in an import statement, ``"package.module"``.
            timeout: seconds to wait at most; None: `self.timeout`.

        Raises:
            UsageMistake: that is not a module's name. Nothing was sent.
            WorkerError: the import raised, or something else failed since errors were last raised.
            SyncTimeout: it continues on the workers.

        Example:
            >>> session.import_python_module("json")
        """
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise UsageMistake(f"import_python_module takes a name such as 'package.module', got {name!r}")
        limit = self.patience(timeout)  # checked before anything is sent
        self.keep_pace(limit, "import_python_module")
        done = self.call_packed(modules.import_python_module, name)
        # Not a sync: this call's failure may be raised in another thread.
        self.fetch(done, self._everybody, limit)
