"""What a program finds: its own arguments on each worker, its folder, its rank.

Arguments depend on the caller: workers reach a program that waits in their queues at different times, in
parallel with the notebook and other programs. The same holds for the variables by which torchrun gives each
process its rank, and for those that a program sets or removes. The import path and the imported modules are
the process's.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import SYS
from disco_magic.isolation import process_settings
from disco_magic.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disco_magic.callers.current import CallingWorker


RANKS: Final = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""torchrun's variables that say which process of a program this is, and where to find the first one."""
_PORT: Final = 29500  # torchrun's default
_PLAIN: Final = os._Environ  # noqa: SLF001 - it has no public name


class Program(NamedTuple):
    """A file that is executed as by ``python train.py --lr 0.1`` or ``python -m package.train``.

    Attributes:
        argv: its `sys.argv`.
        path: path of the file.
        folder: first entry of the import path while it is executed.
        sources: the folder in and beneath which its own modules lie.
        module: the name by which it was found; "": it was given as a file.
    """

    argv: tuple[str, ...]
    path: str
    folder: str
    sources: str
    module: str = ""

    @property
    def package(self) -> str:
        """The package that its relative imports start from; "": none."""
        return self.module.rpartition(".")[0]


class Exit(NamedTuple):
    """A call that a program makes when it ends; see `atexit.register`."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]


@dataclass(eq=False, slots=True)
class Execution:
    """One worker's execution of a program.

    Attributes:
        program: the program.
        argv: its arguments, which it may change.
        environment: what it was given, see `ranks_of`, and what it has set; None: it has removed that.
        exits: what it has registered with `atexit`.
    """

    program: Program
    argv: list[str]
    environment: dict[str, str | None]
    exits: list[Exit] = field(default_factory=list)


def ranks_of(worker: CallingWorker) -> dict[str, str | None]:
    """Return what torchrun on one host would put into the environment of a worker's process.

    ``LOCAL_RANK`` is the index of the worker's GPU: it differs from the rank where workers share GPUs, or
    have chosen some.
    """
    gpu = worker.place.device.index if worker.place.device.kind == "cuda" else worker.id
    given = worker.id, gpu, worker.num_workers, worker.num_workers, 0, "127.0.0.1", _PORT
    return dict(zip(RANKS, map(str, given), strict=True))


_executions: Final[dict[CallingWorker, Execution]] = {}
_added: Final[list[str]] = []  # folders added to `sys.path`
_lock: Final = new_lock()


class _Environment(_PLAIN):  # type: ignore[valid-type,misc]  # its objects' class, which has no other name
    """`os.environ` while workers execute programs: what the caller's program was given, and has set itself.

    What a program sets goes to the process, too, for libraries in C: they find what was set last.

    Its methods do not use ``super()``: another thread may be in one when the class is changed back.
    """

    def __getitem__(self, key: Any) -> Any:
        own = _own()
        if key not in own:
            return _PLAIN.__getitem__(self, key)
        value = own[key]
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        mine = _mine()
        if mine is None or key not in RANKS:
            _PLAIN.__setitem__(self, key, value)
        if mine is not None:
            self.encodevalue(value)  # raises the usual errors
            mine.environment[key] = value

    def __delitem__(self, key: Any) -> None:
        mine = _mine()
        if mine is None:
            _PLAIN.__delitem__(self, key)
        else:
            self[key]  # raises the usual errors
            mine.environment[key] = None

    def __iter__(self) -> Iterator[Any]:
        own = _own()
        mine = [key for key, value in own.items() if value is not None]
        return iter([*mine, *(key for key in _PLAIN.__iter__(self) if key not in own)])

    def __repr__(self) -> str:
        return f"environ({dict(self)!r})"

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _own() -> dict[str, str | None]:
    mine = _mine()
    return {} if mine is None else mine.environment


def _mine() -> Execution | None:
    me = calling_worker()
    return None if me is None else _executions.get(me)


def execution_of(worker: CallingWorker) -> Execution | None:
    """Return the execution of a program by a worker; None: it executes none."""
    return _executions.get(worker)


def is_executed() -> bool:
    """Whether the calling worker executes a program."""
    return _mine() is not None


def arguments() -> list[str]:
    """Return the caller's ``sys.argv``: that of the program that its worker executes, else the process's."""
    mine = _mine()
    argv: list[str] = SYS["argv"] if mine is None else mine.argv
    return argv


def assign_arguments(argv: list[str]) -> None:
    """Set the caller's ``sys.argv``."""
    mine = _mine()
    if mine is None:
        SYS["argv"] = argv
    else:
        mine.argv = argv


def begin(worker: CallingWorker, execution: Execution) -> None:
    """Note that `worker` begins a program; `end` has to follow. Neither must be interrupted."""
    with _lock:
        _executions[worker] = execution
    _fit()


def end(worker: CallingWorker, execution: Execution | None = None) -> bool:
    """Note that `worker` has ended `execution`; None: any, because the thread or the worker has ended."""
    with _lock:  # the thread's successor may begin another one meanwhile
        was = execution is None or _executions.get(worker) is execution
        if was:
            _executions.pop(worker, None)
    _fit()
    return was


def _fit() -> None:
    """Give ``sys.path``, ``os.environ`` and settings exactly what the programs executed now need.

    The list of paths is replaced, not changed: an import in another thread may be iterating over it.
    """
    with _lock:
        executed = [execution.program for execution in list(_executions.values())]
        wanted = {program.folder for program in executed}
        process_settings.fit(is_executed=bool(wanted))
        for folder in wanted.difference(_added):
            _added.append(folder)
            sys.path = [folder, *sys.path]
        for folder in set(_added) - wanted:
            _added.remove(folder)
            paths = list(sys.path)
            if folder in paths:
                paths.remove(folder)
            sys.path = paths
        if wanted and type(os.environ) is _PLAIN:
            os.environ.__class__ = _Environment
        elif not wanted and type(os.environ) is _Environment:
            os.environ.__class__ = _PLAIN  # type: ignore[assignment]  # as it was
