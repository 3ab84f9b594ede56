"""Messages in a process group of PyTorch, some of which were not waited for yet.

A send is done at once, by a copy; in a cell with ``--rendezvous``, when the message is asked for. A receive
takes its message when it is waited for: PyTorch's programs first ask for what they get, and send afterwards.
Each message goes to the first receive that can have it, in the order in which they were asked for. What a
cell has asked for ends with the cell.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from disco_magic.callers.current import calling_worker
from disco_magic.core.seat import Theirs
from disco_magic.errors import UsageMistake
from disco_magic.functions.calling import command_of
from disco_magic.functions.process_groups.arguments import as_called
from disco_magic.functions.process_groups.memory import flat, written
from disco_magic.functions.process_groups.work import done, work_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.functions.context import WorkerContext

_SHORTEST_S: Final = 1e-3  # 0 would mean without limit


class _Asked(NamedTuple):
    """A receive: its work, and the id of the member that it names; None: any other member."""

    work: Any
    source: int | None


class _Pending:
    """What a worker has asked for in one command.

    Attributes:
        command: its number.
        asked: tag -> the receives that have no message yet, in the order in which they were asked for.
        batch: what is asked for together; None: there is no batch.
    """

    def __init__(self, command: int) -> None:
        self.command = command
        self.asked: defaultdict[int | str, list[_Asked]] = defaultdict(list)
        self.batch: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """The worker that calls a group; equal in all workers' objects that represent the same group.

    Attributes:
        session_id: the session of these workers.
        channel: unique among their groups; "" for the first group of all workers.
    """

    session_id: int
    channel: str

    def __call__(self) -> WorkerContext:
        """Return it; raise UsageMistake if no worker of the session calls."""
        me = calling_worker()
        if me is None or me.session_id != self.session_id:
            raise UsageMistake(
                f"a process group of session {self.session_id} can be used by its workers only: "
                "use it in a cell of that session"
            )
        return cast("WorkerContext", me)


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
        """The id of the member of that rank."""
        if not 0 <= rank < len(self._members):
            raise UsageMistake(
                f"{verb}: {rank} is not a rank of this process group of {len(self._members)} members"
            )
        return self._members[rank]

    def send(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        """Send copies to one member."""
        member, bears, me = self._member("send", rank), self._tag(tag), self._worker()
        sent = [me._post(flat(each, bits=True), member, bears, tuple(each.shape)) for each in tensors]  # noqa: SLF001
        if not me.rendezvous:
            return done(tensors)

        def finish(_: float | None) -> None:
            for each in sent:
                me._deliver(each, bears)  # noqa: SLF001

        return work_of(tensors, finish, lambda: all(each.taken for each in sent) or me._has_left(member))  # noqa: SLF001

    def recv(self, tensors: Any, rank: int, tag: int = 0) -> Any:
        """Receive as many elements from one member, when the work is waited for."""
        return self._ask(tensors, self._member("recv", rank), tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Receive as many elements from any other member, when the work is waited for."""
        if len(self._members) == 1:
            raise UsageMistake("recv: no other worker is in this process group, so no message can come")
        return self._ask(tensors, None, tag)

    def _ask(self, tensors: Any, source: int | None, tag: int) -> Any:
        me, pending, bears = self._worker(), self._asked(), self._tag(tag)
        asked = _Asked(
            work_of(
                tensors,
                lambda until: self._finish(pending, bears, asked, until),
                lambda: self._poll(pending, bears, asked),
            ),
            source,
        )
        me._expect(asked.work, source, bears, pending.command)  # noqa: SLF001
        if me.rendezvous:
            for _ in tensors:
                me._announce(source, bears)  # noqa: SLF001
        pending.asked[bears].append(asked)
        if pending.batch is not None:
            pending.batch.append(asked.work)
        return asked.work

    def _finish(self, pending: _Pending, tag: int | str, wanted: _Asked, until: float | None) -> None:
        """Take messages until the one that was asked for is there.

        Raises:
            UsageMistake: it was asked for in another cell.
            SyncTimeout: it has not come `until` then; it can be waited for again.
        """
        if pending is not self._asked():
            what = (
                "a message of any rank" if wanted.source is None else f"the message of worker {wanted.source}"
            )
            raise UsageMistake(
                f"recv: {what} was asked for in another cell - "
                "wait for it in the cell that asks, which is the one that it is sent in"
            )
        self._worker()._waits_for(wanted.work)  # noqa: SLF001
        while wanted in pending.asked[tag]:
            sources = self._awaited(pending.asked[tag], wanted)
            source = sources[0]
            if len(sources) > 1 or until is not None:
                left_s = None if until is None else max(0.0, round(until - monotonic(), 3))  # to be read
                source = self._worker()._probe((*sources,), tag, Theirs("recv"), left_s)  # noqa: SLF001
            self._take(pending.asked[tag], source, tag)

    def _poll(self, pending: _Pending, tag: int | str, wanted: _Asked) -> bool:
        """Take messages that are there until the one that was asked for is; whether waiting would end."""
        me = self._worker()
        while pending is self._asked() and wanted in pending.asked[tag]:
            sources = self._awaited(pending.asked[tag], wanted)
            there = [each for each in sources if me._arrived(each, tag)]  # noqa: SLF001
            if not there:
                return all(map(me._has_left, sources))  # noqa: SLF001 - waiting raises
            source = me.probe(there, tag=tag)
            if me._arrived(source, tag) < len(_first_for(pending.asked[tag], source).work.result()):  # noqa: SLF001
                return False
            self._take(pending.asked[tag], source, tag)
        return True

    def _awaited(self, asked: list[_Asked], wanted: _Asked) -> list[int]:
        """The members whose messages may come to `wanted`, or to what was asked for before it."""
        if all(each.source is not None for each in asked[: asked.index(wanted) + 1]):
            return [cast("int", wanted.source)]
        return [member for member in self._members if member != self._worker().id]

    def _take(self, asked: list[_Asked], source: int, tag: int | str) -> None:
        """Receive a message, into what was asked for first and can have it."""
        first = _first_for(asked, source)
        for tensor in first.work.result():
            with written(tensor, bits=True) as target:
                own = as_called("recv", tensor, Theirs("recv", out=tuple(tensor.shape)))
                self._worker()._receive(target, source, tag, own)  # noqa: SLF001
        first.work.finished(self._members.index(source))
        self._worker()._waits_for(first.work)  # noqa: SLF001
        asked.remove(first)

    def _start_coalescing(self, _device: Any) -> None:
        self._asked().batch = []

    def _end_coalescing(self, _device: Any) -> Any:
        pending = self._asked()
        batch, pending.batch = pending.batch or [], None

        def finish(until: float | None) -> None:
            for work in batch:
                work.wait(None if until is None else max(_SHORTEST_S, until - monotonic()))

        tensors = [tensor for work in batch for tensor in work.result()]
        return work_of(tensors, finish, lambda: sum(not work.is_completed() for work in batch) == 0)


def _first_for(asked: list[_Asked], source: int) -> _Asked:
    return next(each for each in asked if each.source in (None, source))
