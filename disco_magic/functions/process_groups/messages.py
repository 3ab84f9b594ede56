"""Work under way in a process group of PyTorch: only messages that were not waited for yet.

A send is done at once, by a copy; in a cell with ``--rendezvous``, when the message is asked for. A receive
takes its message when it is waited for: PyTorch's programs first ask for what they get, and send afterwards.
Messages of one source and tag are taken in the order in which they were asked for. What a cell has asked for
ends with the cell.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from disco_magic.errors import UsageMistake
from disco_magic.functions.calling import command_of
from disco_magic.functions.process_groups.memory import flat, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.functions.context import WorkerContext


HOME: Final = "torch.distributed.distributed_c10d"
"""PyTorch's module that programs call, and that keeps its groups."""


class _Work:
    """Something to wait for.

    Args:
        tensors: filled by then.
        source: rank of the sender.
        finish: does it, once, when it is waited for; None: it is done.
        ready: whether it can be done without waiting.
    """

    def __init__(
        self,
        tensors: Sequence[Any],
        finish: Callable[[], None] | None = None,
        ready: Callable[[], bool] | None = None,
        source: int = -1,
    ) -> None:
        super().__init__()
        self._finish, self._ready = finish, ready
        self._tensors = tensors
        self._source = source

    def finished(self) -> None:
        """Mark the work as done."""
        self._finish = None

    def wait(self, timeout: Any = None) -> bool:  # noqa: ARG002 - PyTorch's; the cell's holds
        """Wait until the work is done; the limit is the cell's."""
        if self._finish is not None:
            self._finish()
            self.finished()
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Whether it is done; does what needs no waiting, for callers that poll."""
        if self._finish is not None and self._ready is not None and self._ready():
            self.wait()
        return self._finish is None

    is_success = is_completed

    def is_from(self, source: int) -> None:
        """Note the rank of the sender."""
        self._source = source

    def source_rank(self) -> int:
        """Rank of the sender, for a receive; else -1, also for one from any rank before it is done."""
        return self._source

    _source_rank = source_rank  # PyTorch's `recv` asks for it by this name

    def result(self) -> Sequence[Any]:
        """The tensors."""
        return self._tensors

    def get_future(self) -> Any:
        """A future of PyTorch's with the tensors; waits."""
        self.wait()
        future = importlib.import_module("torch").futures.Future()
        future.set_result(self._tensors)
        return future


@cache
def _work_class(theirs: type) -> Any:
    """`_Work` derived from PyTorch's class, as which C++ sees it."""
    return type("WorkerWork", (_Work, theirs), {"__module__": __name__})


def _work(
    tensors: Sequence[Any],
    finish: Callable[[], None] | None = None,
    ready: Callable[[], bool] | None = None,
    source: int = -1,
) -> Any:
    made = _work_class(importlib.import_module("torch._C._distributed_c10d").Work)
    return made(tensors, finish, ready, source)


def done(tensors: Sequence[Any]) -> Any:
    """Work that is done when it begins; to be called by the method that returns it.

    Callers other than PyTorch's functions get PyTorch's own class, which does not take a limit: they may be
    C++, and some versions of that do not keep the Python part of an object, and wait forever for the rest.
    """
    if sys._getframe(2).f_globals.get("__name__") == HOME:  # noqa: SLF001 - there is no other way to know
        return _work(tensors)
    future = importlib.import_module("torch").futures.Future()
    future.set_result(tensors)
    make = importlib.import_module("torch._C._distributed_c10d")._create_work_from_future  # noqa: SLF001
    return make(future)


class _Pending:
    """What a worker has asked for in one command.

    Attributes:
        command: its number.
        wanted: source and tag -> what was asked for, in this order.
        batch: what is asked for together; None: there is no batch.
    """

    def __init__(self, command: int) -> None:
        self.command = command
        self.wanted: dict[tuple[int, int | str], deque[Any]] = {}
        self.batch: list[Any] | None = None


class Caller(Protocol):
    """Finds the worker that calls a group."""

    channel: str

    def __call__(self) -> WorkerContext:
        """Return it; raise UsageMistake if no worker of the session calls."""


class Messages:
    """Messages between two members of a group."""

    _channel: str
    _members: tuple[int, ...]
    _worker: Callable[[], WorkerContext]

    def _begin_messages(self) -> None:
        self._pending: dict[int, _Pending] = {}  # by receiver

    def _asked(self) -> _Pending:
        """What the calling worker has asked for in this command; earlier commands' is forgotten."""
        me = self._worker()
        command, pending = command_of(me), self._pending.get(me.id)
        if pending is None or pending.command != command:
            pending = self._pending[me.id] = _Pending(command)
        return pending

    def _tag(self, tag: int) -> int | str:
        """`tag`, made unique to this group; the first group has the same tags as cells."""
        return f"{tag} in group {self._channel}" if self._channel else tag

    def _member(self, verb: str, rank: int) -> int:
        """The id of the member of that rank.

        Raises:
            UsageMistake: there is no such rank.
        """
        if not 0 <= rank < len(self._members):
            raise UsageMistake(
                f"{verb}: {rank} is no rank of this process group of {len(self._members)} members"
            )
        return self._members[rank]

    def send(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        """Send copies to one member."""
        member, bears, me = self._member("send", rank), self._tag(tag), self._worker()
        sent = [me._post(flat(tensor, bits=True), member, bears) for tensor in tensors]  # noqa: SLF001
        if not me.rendezvous:
            return done(tensors)

        def finish() -> None:
            for each in sent:
                me._deliver(each, bears)  # noqa: SLF001

        return _work(tensors, finish, lambda: all(each.taken for each in sent) or me._has_left(member))  # noqa: SLF001

    def recv(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        """Receive as many elements from one member, when the work is waited for."""
        pending, key = self._asked(), (self._member("recv", rank), self._tag(tag))
        work = _work(
            tensors,
            lambda: self._receive(pending, key, work),
            lambda: self._has_come(pending, key, work),
            rank,
        )
        me = self._worker()
        if me.rendezvous:
            for _ in tensors:
                me._announce(*key)  # noqa: SLF001
        pending.wanted.setdefault(key, deque()).append(work)
        if pending.batch is not None:
            pending.batch.append(work)
        return work

    def _receive(self, pending: _Pending, key: tuple[int, int | str], last: Any) -> None:
        """Take what was asked for from that source, up to `last`.

        Raises:
            UsageMistake: it was asked for in another cell.
        """
        source, tag = key
        self._refuse_late(pending, f"the message of worker {source}")
        wanted = pending.wanted[key]
        while last in wanted:
            work = wanted[0]
            for tensor in work.result():
                with written(tensor, bits=True) as target:
                    self._worker().recv(source, target, tag=tag)
            work.finished()
            wanted.popleft()

    def _refuse_late(self, pending: _Pending, what: str) -> None:
        if pending is not self._asked():
            raise UsageMistake(
                f"recv: {what} was asked for in another cell - "
                "wait for it in the cell that asks, which is the one that it is sent in"
            )

    def _has_come(self, pending: _Pending, key: tuple[int, int | str], last: Any) -> bool:
        """Whether what was asked for from that source, up to `last`, can be taken without waiting."""
        wanted = [*pending.wanted[key]]
        needed = sum(len(each.result()) for each in wanted[: wanted.index(last) + 1])
        me = self._worker()
        if pending is not self._asked() or me._has_left(key[0]):  # noqa: SLF001 - waiting raises
            return True
        return me._arrived(*key) >= needed  # noqa: SLF001

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Receive as many elements from any other member, when the work is waited for.

        Raises:
            UsageMistake: there is no other member.
        """
        me, bears, pending = self._worker(), self._tag(tag), self._asked()
        others = [member for member in self._members if member != me.id]
        if not others:
            raise UsageMistake("recv: no other worker is in this process group, so no message can come")
        keys: list[tuple[int, int | str]] = []

        def finish() -> None:
            self._refuse_late(pending, "a message of any rank")
            if not keys:
                keys.append((me.probe(others, tag=bears), bears))
                work.is_from(self._members.index(keys[0][0]))
                pending.wanted.setdefault(keys[0], deque()).append(work)
            self._receive(pending, keys[0], work)

        def has_come() -> bool:
            if keys:
                return self._has_come(pending, keys[0], work)
            return any(me._arrived(each, bears) for each in others) or all(map(me._has_left, others))  # noqa: SLF001

        work = _work(tensors, finish, has_come)
        if pending.batch is not None:
            pending.batch.append(work)
        return work

    def _start_coalescing(self, _device: Any) -> None:
        self._asked().batch = []

    def _end_coalescing(self, _device: Any) -> Any:
        pending = self._asked()
        batch, pending.batch = pending.batch or [], None

        def finish() -> None:
            for work in batch:
                work.wait()

        tensors = [tensor for work in batch for tensor in work.result()]
        return _work(tensors, finish, lambda: sum(not work.is_completed() for work in batch) == 0)
