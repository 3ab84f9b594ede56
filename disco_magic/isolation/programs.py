"""What a program finds: its own arguments on each worker, its folder, its rank.

Arguments depend on the caller: workers reach a program that waits in their queues at different times, in
parallel with the notebook and other programs. So does its environment (`own_environment`). Its import path
begins with its folder, and what it adds there ends with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import SYS
from disco_magic.isolation import own_environment, settings
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.callers.current import CallingWorker


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
    """One worker's execution of a program."""

    program: Program
    argv: list[str]
    environment: dict[str, str]
    exits: list[Exit] = field(default_factory=list)
    path: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path = [self.program.folder, *SYS["path"]]


_executions: Final[dict[CallingWorker, Execution]] = {}
_lock: Final = new_lock()


def _mine() -> Execution | None:
    me = calling_worker()
    return None if me is None else _executions.get(me)


def execution_of(worker: CallingWorker) -> Execution | None:
    """Return the execution of a program by a worker; None: it executes none."""
    return _executions.get(worker)


def is_executed() -> bool:
    """Whether the calling worker executes a program."""
    return _mine() is not None


def read(name: str, _: object = None) -> Any:
    """Return the caller's ``sys.argv`` or path: of the program that its worker executes, else the process."""
    mine = _mine()
    return SYS[name] if mine is None else getattr(mine, name)


def assign(name: str, value: Any) -> None:
    """Set the caller's ``sys.argv`` or path."""
    mine = _mine()
    if mine is None:
        SYS[name] = value
    else:
        setattr(mine, name, value)


def begin(worker: CallingWorker, execution: Execution) -> None:
    """Note that `worker` begins a program; `end` has to follow. Neither must be interrupted."""
    with _lock:
        _executions[worker] = execution
        own_environment.give(worker, execution.environment)
    _fit()


def end(worker: CallingWorker, execution: Execution | None = None) -> bool:
    """Note that `worker` has ended `execution`; None: any, because the thread or the worker has ended."""
    with _lock:  # the thread's successor may begin another one meanwhile
        was = execution is None or _executions.get(worker) is execution
        if was:
            _executions.pop(worker, None)
            own_environment.take(worker)
    _fit()
    return was


def _fit() -> None:
    """Give ``os.environ`` and settings exactly what the programs executed now need."""
    with _lock:
        wanted = bool(_executions)
        settings.fit(is_executed=wanted)
        own_environment.fit(is_executed=wanted)
