"""What is under way in a process group of PyTorch's: nothing but messages that nobody has waited for yet.

What sends is done at once, by a copy; in a cell with ``--rendezvous`` when the message is asked for. What
receives is something to wait for, and takes its message then: PyTorch's programs ask first for what they get,
and send afterwards. Those of one source and tag are taken in the order in which they were asked for. What a
cell has asked for ends with the cell.
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
"""The module of PyTorch's that programs call, and that keeps its groups."""


class _Work:
    """Something to wait for.

    Args:
        tensors: what is filled by then.
        source: rank of who sends it.
        finish: does it, once, when somebody waits; None: it is over.
        ready: whether that can be done without waiting.
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
        """It is over."""
        self._finish = None

    def wait(self, timeout: Any = None) -> bool:  # noqa: ARG002 - PyTorch's; the cell's holds
        """Until it is over; the limit is the cell's."""
        if self._finish is not None:
            self._finish()
            self.finished()
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Whether it is over; what can be done without waiting is done, for who asks again and again."""
        if self._finish is not None and self._ready is not None and self._ready():
            self.wait()
        return self._finish is None

    is_success = is_completed

    def source_rank(self) -> int:
        """Rank of who sends, of what is received; else -1."""
        return self._source

    def result(self) -> Sequence[Any]:
        """The tensors."""
        return self._tensors

    def get_future(self) -> Any:
        """Of the tensors, in PyTorch's form; waits."""
        self.wait()
        future = importlib.import_module("torch").futures.Future()
        future.set_result(self._tensors)
        return future


@cache
def _work_class(theirs: type) -> Any:
    """`_Work`, and the class of PyTorch's that C++ takes it for."""
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
    """What is over when it begins; for who calls what calls this.

    All others than PyTorch's functions get PyTorch's own, which does not take a limit: they may be C++, of
    which some versions do not keep what is written in Python, and wait for what is left of it for ever.
    """
    if sys._getframe(2).f_globals.get("__name__") == HOME:  # noqa: SLF001 - nothing else tells
        return _work(tensors)
    future = importlib.import_module("torch").futures.Future()
    future.set_result(tensors)
    make = importlib.import_module("torch._C._distributed_c10d")._create_work_from_future  # noqa: SLF001
    return make(future)


class _Pending:
    """What a worker has asked for in one command.

    Attributes:
        command: its number.
        wanted: source and tag -> what was asked for, the first first.
        batch: what is asked for together; None: nothing is.
    """

    def __init__(self, command: int) -> None:
        self.command = command
        self.wanted: dict[tuple[int, int | str], deque[Any]] = {}
        self.batch: list[Any] | None = None


class Caller(Protocol):
    """The worker that calls a group."""

    channel: str

    def __call__(self) -> WorkerContext:
        """It; raises UsageMistake if none of the session's calls."""


class Messages:
    """What a group does between two of its members."""

    _channel: str
    _members: tuple[int, ...]
    _worker: Callable[[], WorkerContext]

    def _begin_messages(self) -> None:
        self._pending: dict[int, _Pending] = {}  # by receiver

    def _asked(self) -> _Pending:
        """What the calling worker has asked for in this command; what was left by others is forgotten."""
        me = self._worker()
        command, pending = command_of(me), self._pending.get(me.id)
        if pending is None or pending.command != command:
            pending = self._pending[me.id] = _Pending(command)
        return pending

    def _tag(self, tag: int) -> int | str:
        """`tag`, or one that no other group's messages bear; those of the first group are as cells' are."""
        return f"{tag} in group {self._channel}" if self._channel else tag

    def _member(self, verb: str, rank: int) -> int:
        """The id of a member.

        Raises:
            UsageMistake: there is none of that rank.
        """
        if not 0 <= rank < len(self._members):
            raise UsageMistake(
                f"{verb}: {rank} is no rank of this process group of {len(self._members)} members"
            )
        return self._members[rank]

    def send(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        """To one member; a copy."""
        member, bears, me = self._member("send", rank), self._tag(tag), self._worker()
        sent = [me._post(flat(tensor, bits=True), member, bears) for tensor in tensors]  # noqa: SLF001
        if not me.rendezvous:
            return done(tensors)

        def finish() -> None:
            for each in sent:
                me._deliver(each, bears)  # noqa: SLF001

        return _work(tensors, finish, lambda: all(each.taken for each in sent) or me._has_left(member))  # noqa: SLF001

    def recv(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        """Of one member, when it is waited for; of that many elements."""
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
        """Take what was asked for of that source up to the `last`.

        Raises:
            UsageMistake: that was in another cell.
        """
        if pending is not self._asked():
            raise UsageMistake(
                f"recv: the message of worker {key[0]} was asked for in another cell - "
                "wait for it in the cell that asks, which is the one that it is sent in"
            )
        source, tag = key
        wanted = pending.wanted[key]
        while last in wanted:
            work = wanted[0]
            for tensor in work.result():
                with written(tensor, bits=True) as target:
                    self._worker().recv(source, target, tag=tag)
            work.finished()
            wanted.popleft()

    def _has_come(self, pending: _Pending, key: tuple[int, int | str], last: Any) -> bool:
        """Whether all is there that was asked for of that source up to the `last`."""
        wanted = [*pending.wanted[key]]
        needed = sum(len(each.result()) for each in wanted[: wanted.index(last) + 1])
        me = self._worker()
        if pending is not self._asked() or me._has_left(key[0]):  # noqa: SLF001 - waiting raises
            return True
        return me._arrived(*key) >= needed  # noqa: SLF001

    def recv_anysource(self, *_given: Any) -> Any:
        """Not here.

        Raises:
            UsageMistake: always.
        """
        raise UsageMistake("recv: workers receive from a worker that they name: recv(tensor, src=...)")

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
