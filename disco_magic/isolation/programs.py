"""What a program finds: its own arguments on each worker, its folder, its rank.

Arguments depend on the caller: workers reach a program that waits in their queues at different times, in
parallel with the notebook and other programs. The same holds for the variables by which torchrun gives each
process its rank, and for all others from then on: a program has an environment of its own. Its import path
begins with its folder, and what it adds there ends with it.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from disco_magic.callers.current import calling_worker
from disco_magic.callers.module_classes import SYS
from disco_magic.isolation import settings
from disco_magic.threads.locks import new_lock

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
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
)
"""torchrun's variables that say which process of a program this is, and where to find the first one.

`is_torchelastic_launched` of PyTorch looks for one of them. Of torchrun's, TORCHELASTIC_USE_AGENT_STORE
is left out: a process that a program starts would look for the store of an agent, and there is none.
"""
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
    """One worker's execution of a program."""

    program: Program
    argv: list[str]
    environment: dict[str, str]
    exits: list[Exit] = field(default_factory=list)
    path: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path = [self.program.folder, *SYS["path"]]


def ranks_of(worker: CallingWorker) -> dict[str, str]:
    """Return what torchrun on one host would put into the environment of a worker's process.

    ``LOCAL_RANK`` is the index of the worker's GPU: it differs from the rank where workers share GPUs, or
    have chosen some.
    """
    gpu = worker.place.device.index if worker.place.device.kind == "cuda" else worker.id
    me, count = worker.id, worker.num_workers
    given = me, gpu, count, count, 0, "127.0.0.1", _PORT, 1, me, count, "default", "none", 0, 0
    return dict(zip(RANKS, map(str, given), strict=True))


_executions: Final[dict[CallingWorker, Execution]] = {}
_lock: Final = new_lock()


class _Environment(_PLAIN):  # type: ignore[valid-type,misc]  # its objects' class, which has no other name
    """`os.environ` while workers execute programs: for code of a program, the program's own.

    What a program sets goes to the process, too, for libraries in C, until all programs have ended: there,
    what was set last is found.

    Its methods do not use ``super()``: another thread may be in one when the class is changed back.
    """

    def __getitem__(self, key: Any) -> Any:
        own = _own()
        return _PLAIN.__getitem__(self, key) if own is None else own[self.decodekey(self.encodekey(key))]

    def __setitem__(self, key: Any, value: Any) -> None:
        own = _own()
        if own is None:
            _PLAIN.__setitem__(self, key, value)
            return
        name, text = self.decodekey(self.encodekey(key)), self.decodevalue(self.encodevalue(value))
        own[name] = text
        if name not in RANKS:
            _lend(self, name, text)

    def __delitem__(self, key: Any) -> None:
        own = _own()
        if own is None:
            _PLAIN.__delitem__(self, key)
            return
        name = self.decodekey(self.encodekey(key))
        _take_back(self, name, {own.pop(name)})

    clear = MutableMapping.clear  # that of Python 3.15 clears the process's

    def __iter__(self) -> Iterator[Any]:
        own = _own()
        return _PLAIN.__iter__(self) if own is None else iter(list(own))

    def __repr__(self) -> str:
        return f"environ({dict(self)!r})"

    def __len__(self) -> int:
        own = _own()
        return _PLAIN.__len__(self) if own is None else len(own)


# What programs have put into the process's environment: name -> what it had before, None for nothing, and all
# that was put there since.
_lent: Final[dict[str, tuple[str | None, set[str]]]] = {}
_lending: Final = new_lock()


def _lend(environ: Any, name: str, text: str) -> None:
    with _lending:
        if name not in _lent:
            _lent[name] = _of_process(environ, name), set()
        _lent[name][1].add(text)
        _PLAIN.__setitem__(environ, name, text)


def _take_back(environ: Any, name: str, texts: set[str]) -> None:
    """Restore what the process had, if it has one of these, which programs have put there."""
    with _lending:
        before, put = _lent.get(name, (None, set[str]()))
        if _of_process(environ, name) not in texts & put:
            return
        if before is None:
            _PLAIN.__delitem__(environ, name)
        else:
            _PLAIN.__setitem__(environ, name, before)


def _before_programs(environ: Any, name: str) -> str | None:
    """What the process has, or had before programs put something else there."""
    with _lending:
        text = _of_process(environ, name)
        before, put = _lent.get(name, (None, set[str]()))
        return before if text in put else text


def _of_process(environ: Any, name: str) -> str | None:
    try:
        return cast("str", _PLAIN.__getitem__(environ, name))
    except KeyError:
        return None


def environment_of(worker: CallingWorker) -> dict[str, str]:
    """The environment with which a program begins on a worker: the process's, and its ranks.

    Without what other programs have put there, of workers that began earlier.
    """
    environ = os.environ
    found = {name: _before_programs(environ, name) for name in list(_PLAIN.__iter__(environ))}
    return {**{name: text for name, text in found.items() if text is not None}, **ranks_of(worker)}


def removed_by(execution: Execution) -> list[str]:
    """The variables of the process that a program has removed for itself."""
    return [name for name in _PLAIN.__iter__(os.environ) if name not in execution.environment]


def _own() -> dict[str, str] | None:
    mine = _mine()
    return None if mine is None else mine.environment


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
    """Give ``os.environ`` and settings exactly what the programs executed now need."""
    with _lock:
        wanted = bool(_executions)
        settings.fit(is_executed=wanted)
        if wanted and type(os.environ) is _PLAIN:
            os.environ.__class__ = _Environment
        elif not wanted and type(os.environ) is _Environment:
            os.environ.__class__ = _PLAIN  # type: ignore[assignment]  # as it was
            for name, (_, put) in list(_lent.items()):
                _take_back(os.environ, name, put)
            _lent.clear()
