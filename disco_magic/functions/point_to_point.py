"""Messages to and from single workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.numbers import seconds, whole_number
from disco_magic.core.seat import PICKLE, Seat, Theirs
from disco_magic.errors import UsageMistake
from disco_magic.functions.calling import Calling, command_of
from disco_magic.functions.facts import facts_of
from disco_magic.functions.pickles import packed

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.functions.asked_for import AskedFor

ANY: Final = "any"
"""In place of a source: whichever worker sends first."""


class PointToPoint(Calling):
    """Messages between a worker and one other; mixed into `WorkerContext`.

    Attributes:
        rendezvous: whether a `send` of the running cell waits until its message is asked for; see
            ``%%disco --rendezvous``.
    """

    rendezvous = False
    _asked_for: AskedFor

    def at(self, /, **coordinates: int) -> int:
        """The id of the worker at the caller's coordinates in the mesh, except for those that are given.

        Raises:
            UsageMistake: there is no worker at that place, or no such axis.

        Example:
            >>> stages = disco.ThreadedSession(mesh={"pp": 2, "tp": 2})
            >>> first = "worker.coordinates['pp'] == 0"
            >>> stages.run(f"send(worker_id, worker.at(pp=1)) if {first} else recv(worker.at(pp=0))")
            [0-1] None
            [2]   0
            [3]   1
            >>> stages.shutdown()
        """
        return self.mesh.worker(**(self.coordinates | coordinates))

    def send(self, x: Any, to: int, *, tag: int | str = 0) -> None:
        """Send a copy of `x`, any shape and dtype, to worker `to`; do not wait for it.

        `to` is an id of the session, like `worker_id`, also with groups (a collective's `root`, however, is a
        rank in the group): `send` reaches every worker and takes no `in_group`.

        The sender calls it. The other worker takes it with `recv` and the same `tag`, number or text, in the
        same cell or command; those of one sender with one tag arrive in order. A message that is not received
        by then is reported as the receiver's error. Raises UsageMistake if there is no such worker,
        or `tag` is something else; PlaneAborted if the receiver has ended the command. Cost: one copy.

        In a cell that is run with ``--rendezvous`` it waits until the other worker has called `recv` for it,
        like MPI's synchronous send, and raises PlaneMismatch if workers then wait for each other.

        Example:
            >>> cell = "send(np.ones(2), to=3) if worker_id == 0 else recv(0) if worker_id == 3 else None"
            >>> session.run(cell)[3]
            array([1., 1.])
        """
        tag = _checked("send", tag)
        self._call("send", x, to, in_group=False, tag=tag, rendezvous=self.rendezvous)

    def send_object(self, x: Any, to: int, *, tag: int | str = 0) -> None:
        """Send a copy of any object to worker `to`, whose `recv` returns it; do not wait for it.

        It is pickled. Objects of classes that cells define become objects of the receiver's own classes.
        Otherwise like `send`, with which it shares the order of messages.

        Raises:
            UsageMistake: it cannot be pickled. If it cannot be read again, `recv` raises.

        Cost: pickling it, a copy of the bytes, and reading it.

        Example:
            >>> session.run("recv(0) if worker_id else send_object({'lr': 0.1}, to=1)", workers=[0, 1])[1]
            {'lr': 0.1}
        """
        self._send_packed(packed("send_object", x), to, _checked("send_object", tag))

    # Not within `send_object`: so the record finds that name above this call, see `facts_of`.
    def _send_packed(self, content: Any, to: int, tag: int | str) -> None:
        self._call("send", content, to, in_group=False, tag=tag, rendezvous=self.rendezvous, library=PICKLE)

    def _post(self, x: Any, to: int, tag: int | str, shape: tuple[int, ...]) -> Any:
        """Like `send`, but never waits; returns what `_deliver` takes. The user knows `x` by its `shape`."""
        return self._call("send", x, to, in_group=False, tag=tag, theirs=Theirs("send", shape))

    def _receive(self, out: Any, source: int, tag: int | str, theirs: Theirs | None) -> None:
        """Like `recv`, into an array of as many elements; the user knows it as `theirs`."""
        self._call("recv", source, out, in_group=False, tag=tag, theirs=theirs)

    def _deliver(self, sent: Any, tag: int | str) -> None:
        """Wait until what `_post` has sent in this command is asked for."""
        self._call("deliver", sent, in_group=False, tag=tag)

    def recv(
        self,
        source: int | str = ANY,
        out: Any | None = None,
        *,
        tag: int | str = 0,
        timeout: float | None = None,
    ) -> Any:
        """Wait for the next message that worker `source` sends to this one with that `tag`, and return it.

        `source` is an id of the session, as for `send`; ``"any"``: of all workers' messages the one that was
        sent first. To know who has sent it, ask `probe` before. The receiver calls it.

        Returns the shape and dtype sent (a NumPy scalar for a number), the object sent, or `out`. Raises
        SyncTimeout, a TimeoutError, if none has come after `timeout` seconds: the next recv gets what comes
        later; PlaneMismatch if `out` differs in shape or dtype, or an object came: the message is used up;
        and PlaneAborted and PlaneMismatch as `probe`. Cost: with `out` one copy.

        Example:
            >>> session.run("int(recv(0, timeout=60)) if worker_id else send(7, 1)", workers=[0, 1])[1]
            7
        """
        tag = _checked("recv", tag)
        is_any = type(source) is str and source == ANY
        if is_any or timeout is not None:  # what is probed stays where it is: no message is lost
            source = self._probe(None if is_any else (source,), tag, limit_s=seconds(timeout))
        return self._call("recv", source, out, in_group=False, tag=tag)

    def probe(
        self,
        sources: int | str | Iterable[int] = ANY,
        *,
        tag: int | str = 0,
        timeout: float | None = None,
    ) -> int:
        """Wait until any worker has sent this one a message with that `tag`, and return the sender's id.

        Of several messages, the one that was sent first counts. It is not received: the next `recv` of the
        sender and `tag` takes it. `sources` are the workers that may send it, ids of the session. Called by
        the receiver.

        Raises:
            UsageMistake: there is no such worker, or `sources` is empty.
            PlaneAborted: all of them have ended the command without sending a message.
            PlaneMismatch: those that have not ended it wait for this worker themselves.
            SyncTimeout: there is no message after `timeout` seconds.

        Example:
            >>> cell = "[(probe(), recv()) for _ in range(3)] if worker_id == 0 else send(worker_id, 0)"
            >>> sorted(session.run(cell)[0])
            [(1, np.int64(1)), (2, np.int64(2)), (3, np.int64(3))]
        """
        return self._probe(_named("probe", sources), _checked("probe", tag), limit_s=seconds(timeout))

    def _probe(
        self,
        sources: tuple[Any, ...] | None,
        tag: int | str,
        theirs: Theirs | None = None,
        limit_s: float | None = None,
    ) -> int:
        recorder = self.recorder
        sender: int = self._call("probe", sources, in_group=False, tag=tag, theirs=theirs, limit_s=limit_s)
        recorder.found(sender)
        return sender

    def iprobe(self, sources: int | str | Iterable[int] = ANY, *, tag: int | str = 0) -> int | None:
        """Like `probe`, but do not wait: return None if no such message has been sent yet.

        Work between two messages, as in ``while iprobe() is None: step()``, ends when a message is there, or
        with PlaneAborted when none can come any more. Not recorded in the timeline.

        Example:
            >>> session.run("before = iprobe(); barrier(); send(5, worker_id); (before, iprobe(), recv())")[3]
            (None, 3, np.int64(5))
        """
        named, tag = _named("iprobe", sources), _checked("iprobe", tag)
        found: int | None = self._unrecorded(self._plane.iprobe, named, tag)
        return found

    def _announce(self, source: int | None, tag: int | str) -> None:
        """Announce a `recv` that will come in this command: the sender need not wait for it."""
        self._unrecorded(self._plane.announce, source, tag)

    def _unrecorded(self, method: Callable[[Seat, Any], Any], source: Any, tag: int | str) -> Any:
        """Call a method of the plane that waits for nobody; it is not kept in the record."""
        (*_, code, at), within = facts_of("recv", (source,), self._beside)
        scope, present = self._guard.enter()
        try:
            seat = Seat(self.id, self._everybody, scope, present, (code, at), within=within, tag=tag)
            return method(seat, source)
        finally:
            self._guard.leave()

    def _expect(self, work: object, source: int | None, tag: int | str, command: int) -> None:
        """Keep where a receive is asked for, until `_waits_for` is called with its handle `work`."""
        (*_, code, at), _ = facts_of("recv", (source,), self._beside)
        self._asked_for.add(work, (code, at), source, tag, command)

    def _waits_for(self, work: object) -> None:
        self._asked_for.drop(work)

    def _unwaited(self, command: int) -> str:
        """Say what the command has asked for and nothing has waited for, if messages are left; else ""."""

        def has_come(source: int | None, tag: int | str) -> bool:
            senders = range(self.num_workers) if source is None else (source,)
            return any(self._plane.arrived(self.id, each, command, tag) for each in senders)

        return self._asked_for.told(command, has_come)

    def _why_unreceived(self, command: int, sender: int, tag: int | str) -> str:
        """The same of one message, which comes when the command has ended; from any thread."""
        return self._asked_for.told(command, lambda source, asked: source in (None, sender) and asked == tag)

    def _arrived(self, source: int, tag: int | str) -> int:
        """How many messages can be received in this command without waiting."""
        return self._plane.arrived(self.id, source, command_of(self), tag)

    def _has_left(self, other: int) -> bool:
        """Whether a worker has left this command: what waits for it would raise."""
        return self._plane.left[other] >= command_of(self)

    def send_to_next_group(self, x: Any) -> None:
        """Send a copy of `x` to the worker of the same rank in the next group; do not wait.

        Every worker except those of the last group can call it; the receiver calls `recv_from_prev_group`, in
        the same cell or command. Otherwise like `send`.

        Raises:
            UsageMistake: the worker is in the last group.
        """
        if self.group == self.num_groups - 1:
            raise self._no_group("send_to_next_group", "last", "next", "worker.group + 1 < worker.num_groups")
        self.send(x, self.id + self.group_size)

    def recv_from_prev_group(self, out: Any | None = None) -> Any:
        """Wait for the next message from the worker of the same rank in the previous group, and return it.

        Every worker except those of the first group can call it. Otherwise like `recv`.

        Raises:
            UsageMistake: the worker is in the first group.
        """
        if self.group == 0:
            raise self._no_group("recv_from_prev_group", "first", "previous", "worker.group > 0")
        return self.recv(self.id - self.group_size, out)

    def recv_from_worker0(self, out: Any | None = None) -> Any:
        """Wait for the next message that worker 0 of the session sends to this one; like ``recv(0, out)``.

        Raises:
            UsageMistake: the caller is worker 0 itself.
        """
        if self.id == 0:
            raise UsageMistake(
                "recv_from_worker0 was called on worker 0, which would wait for itself; "
                "call it on the others: if worker_id != 0"
            )
        return self.recv(0, out)

    def _no_group(self, call: str, which: str, neighbour: str, condition: str) -> UsageMistake:
        groups = f"{self.num_groups} groups" if self.num_groups > 1 else "1 group, which is the only one"
        return UsageMistake(
            f"{call} was called on worker {self.id} of group {self.group}, the {which} of {groups}: "
            f"there is no {neighbour} group; call it where {condition}"
        )


def _named(verb: str, sources: int | str | Iterable[int]) -> tuple[Any, ...] | None:
    """`sources` of a `probe`; None: any. Which of them are workers is checked by the plane."""
    if isinstance(sources, str):
        several: tuple[Any, ...] = ()
        if sources == ANY:
            return None
    else:
        one = whole_number(sources)
        several = (one,) if one is not None else tuple(sources) if isinstance(sources, Iterable) else ()
    if not several:
        raise UsageMistake(
            f"{verb}: sources must be ids of workers, at least one, or {ANY!r}; got {sources!r}"
        )
    return several


def _checked(verb: str, tag: int | str) -> int | str:
    """A message's `tag`; an integer as Python's own."""
    number = None if isinstance(tag, str) else whole_number(tag)
    if number is None and not isinstance(tag, str):
        raise UsageMistake(f"{verb}: tag must be an integer or text, got {tag!r}")
    return str(tag) if number is None else number
