"""`os.environ` of a worker's program: its own from the beginning, with its rank as torchrun would set it.

Workers reach a program that waits in their queues at different times, in parallel with the notebook and other
programs: the variables by which torchrun gives each process its rank depend on the caller, and so do all
others from then on.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final, cast

from disco_magic.callers.current import calling_worker
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def ranks_of(worker: CallingWorker) -> dict[str, str]:
    """Return what torchrun on one host would put into the environment of a worker's process.

    ``LOCAL_RANK`` is the index of the worker's GPU: it differs from the rank where workers share GPUs, or
    have chosen some.
    """
    gpu = worker.place.device.index if worker.place.device.kind == "cuda" else worker.id
    me, count = worker.id, worker.num_workers
    given = me, gpu, count, count, 0, "127.0.0.1", _PORT, 1, me, count, "default", "none", 0, 0
    return dict(zip(RANKS, map(str, given), strict=True))


_OWN: Final = object()  # in `belongings` of workers that execute programs


def give(worker: CallingWorker, environment: dict[str, str]) -> None:
    """Let `worker` have this environment, until `take` is called."""
    worker.belongings[_OWN] = environment


def take(worker: CallingWorker) -> None:
    """Let it have the process's again."""
    worker.belongings.pop(_OWN, None)


def _own() -> dict[str, str] | None:
    me = calling_worker()
    return None if me is None else me.belongings.get(_OWN)


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


def removed_from(environment: dict[str, str]) -> list[str]:
    """The variables of the process that a program with this environment has removed for itself."""
    return [name for name in _PLAIN.__iter__(os.environ) if name not in environment]


def fit(*, is_executed: bool) -> None:
    """Give ``os.environ`` what the programs executed now need: its class, or all that they have put there.

    One thread at a time calls this.
    """
    if is_executed and type(os.environ) is _PLAIN:
        os.environ.__class__ = _Environment
    elif not is_executed and type(os.environ) is _Environment:
        os.environ.__class__ = _PLAIN  # type: ignore[assignment]  # as it was
        for name, (_, put) in list(_lent.items()):
            _take_back(os.environ, name, put)
        _lent.clear()
