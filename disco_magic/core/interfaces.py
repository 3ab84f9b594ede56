"""The contracts at the joints of a session: Channel (control plane), Plane (data plane), Launcher.

Everything else may rely on what is written here and on nothing more. `disco_magic.testing` holds
conformance checks that any implementation can be run through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from disco_magic.core.doctor import Position, State
    from disco_magic.core.messages import Event, Message
    from disco_magic.core.seat import Seat
    from disco_magic.core.snapshot import RegisterInfo
    from disco_magic.core.stats import Account
    from disco_magic.core.timeline import Record
    from disco_magic.errors import Failure

    Counts = tuple[int, ...] | None  # lengths along an axis, per rank; None: all equal
    OfWorker = Callable[[int], str]
    OfMessage = Callable[[int, int, int, int | str], str]  # receiver, scope, source, tag


class Plane(Protocol):
    """Moves arrays between workers; knows no session and no channel.

    Callers may rely on:
      * All members of a call get the same answer: every one returns, or every one raises.
      * Nothing is written before the arguments of all members were checked against each other.
      * A caller waits only while every member it waits for can still come. As soon as one has left the
        scope (`leave`), the scope is aborted (`abort`), or the members wait for each other in a circle,
        all callers concerned raise.
      * Calls of one scope leave nothing behind that a later scope could see.

    The plane relies on:
      * One thread per worker makes that worker's calls; `leave`, `abort` and `close` come from any thread.
      * Scopes of one worker strictly grow, and every worker leaves each scope that was sent to it.
      * No asynchronous exception is injected into a thread while it is inside a plane call.

    Attributes:
        name: what it is called in errors and tables.
        left: worker -> the last scope that it has left, see `leave`.
        waiting: worker -> what it waits for, if it waits. ``.call_of(worker)`` says in words in what call,
            and at which line of the user's code; ``.missing()`` is whom it waits for, nobody if data is being
            moved; ``.any_suffices`` whether one of them is enough (`probe`). Then only the last departure
            counts.
        mail: worker -> what it has not received, see `unread`.
    """

    name: str
    left: list[int]
    waiting: dict[int, Any]
    mail: Sequence[Mapping[Any, Any]]

    def leave(self, worker: int, scope: int, failure: Failure | None = None) -> None:
        """Record that `worker` makes no further call in `scope` or earlier; `failure` says why, if it failed.

        A driver may instead write ``left[worker] = scope`` and call this only if `waiting` is not empty
        afterwards: `waiting` is filled before `left` is read.
        """

    def unread(self, worker: int, scope: int) -> list[str]:
        """What `worker` was sent in `scope` and has not received: in words, the first few and how many more.

        There can only be any if ``mail[worker]`` is not empty. That maps source, scope and tag to what was
        sent, in queues of objects that `describe` says in words. `leave` drops them.
        """

    def arrived(self, worker: int, source: int, scope: int, tag: int | str) -> int:
        """How many messages from `source` with that tag `worker` could `recv` in `scope` without waiting."""

    def waited_s(self, worker: int) -> float:
        """Seconds that `worker` has spent asleep in calls, waiting for others; from any thread."""

    def library_of(self, worker: int) -> str:
        """`Seat.library` of the worker that gave the array of `worker`'s last broadcast, scatter or recv."""

    def reducible(self, worker: int, x: Any, op: str, out: Any | None) -> Any:
        """`x` of `worker` as allreduce moves it: contiguous, in native byte order; `x` itself if it is so.

        Contacts no other worker and joins no call.

        Raises:
            UsageMistake: allreduce would refuse `x`, or not write to `out`, whatever the others pass.
        """

    def waiting_s(self, worker: int) -> float | None:
        """Seconds that `worker` has been asleep in the call it is in; None if it is in none."""

    def observe(self, look: OfWorker, held_up: OfWorker, unreceived: OfMessage) -> None:
        """Register ``look(worker)``, which says where a worker is that has not come to a call, for errors.

        And ``held_up(worker)``, which says why a worker that waits can never go on, because others wait until
        it has imported a module, else "". And ``unreceived(worker, scope, source, tag)``, which says what a
        worker that has left a scope asked for in the place of a message, else "". They wait for no worker and
        run no user code.
        """

    def abort(self, through: int, reason: str) -> None:
        """Make every call with ``scope <= through`` raise PlaneAborted, both waiting and future calls."""

    def close(self) -> None:
        """Release all callers and refuse further calls. Idempotent."""

    def forsake(self, reason: str) -> None:
        """Refuse all calls, in the child of a fork, where no other worker exists."""

    def allreduce(self, seat: Seat, x: Any, op: str, out: Any | None) -> Any:
        """Reduce `x` over the members; every member gets the result."""

    def reduce(self, seat: Seat, x: Any, op: str, root: int, out: Any | None) -> Any | None:
        """Reduce `x` over the members; the member of rank `root` gets the result, the others None."""

    def allgather(self, seat: Seat, x: Any, axis: int, out: Any | None) -> Any:
        """Concatenate the members' arrays along `axis` in rank order; every member gets the result."""

    def gather(self, seat: Seat, x: Any, root: int, axis: int, out: Any | None) -> Any | None:
        """Like `allgather`, for the member of rank `root` only; the others get None."""

    def reduce_scatter(  # noqa: PLR0917 - by position, as its siblings
        self, seat: Seat, x: Any, op: str, axis: int, counts: Counts, out: Any | None
    ) -> Any:
        """Reduce over the members, then split along `axis`, evenly or by `counts`; rank r gets part r."""

    def broadcast(self, seat: Seat, x: Any | None, root: int, out: Any | None) -> Any:
        """Copy the array of rank `root` to every member."""

    def scatter(  # noqa: PLR0917 - by position, as its siblings
        self, seat: Seat, x: Any | None, root: int, axis: int, counts: Counts, out: Any | None
    ) -> Any:
        """Split the array of rank `root` along `axis`; rank r gets part r.

        Parts are equal, or have the lengths in the root's `counts`, one number per member.
        """

    def alltoall(self, seat: Seat, x: Any, axis: int, counts: Counts, out: Any | None) -> Any:
        """Split along `axis`; part j goes to rank j; the received parts are joined in rank order.

        Parts are equal, or have the lengths in `counts`, one number per member.
        """

    def barrier(self, seat: Seat) -> None:
        """Return when every member has called it."""

    def send(self, seat: Seat, x: Any, to: int) -> Any:
        """Send a copy of `x` to worker `to`, with the tag of `seat`; return what `deliver` takes.

        Returns at once, or, with ``seat.rendezvous``, when `to` has called `recv` or `announce` for it.
        """

    def deliver(self, seat: Seat, sent: Any) -> None:
        """Wait until the receiver has called `recv` or `announce` for what the caller sent in this scope."""

    def announce(self, seat: Seat, source: int | None) -> None:
        """Declare that the caller is going to `recv` from `source`, None: any, in this scope; do not wait."""

    def recv(self, seat: Seat, source: int, out: Any | None) -> Any:
        """Wait for the next array that worker `source` sends to the caller in this scope with that tag."""

    def probe(self, seat: Seat, sources: Sequence[int] | None) -> int:
        """Wait until one of `sources` (None: any worker) has sent the caller a message with that tag.

        Returns the sender of the one that was sent first. The message stays where it is.
        """

    def iprobe(self, seat: Seat, sources: Sequence[int] | None) -> int | None:
        """As `probe`, but do not wait: None if there is no such message, but a source may still send one."""


class Channel(Protocol):
    """Ordered lane to one worker: whole messages, first in, first out."""

    def send(self, command: Message) -> None:
        """Append a command. Never blocks, never fails while the channel is open."""

    def close(self) -> None:
        """Accept no further commands; those already sent are still executed."""


class Launcher(Protocol):
    """Brings workers up, watches them, takes them down."""

    def start(self, deliver: Callable[[Event], None]) -> Sequence[Channel]:
        """Start all workers or none (LaunchError); `deliver` receives their events from any thread."""

    def forsake(self, reason: str) -> None:
        """In the child of a fork, where no other worker exists, let the worker's collectives raise."""

    def prepare(self, seq: int, scope: Any, contexts: Mapping[int, Any]) -> None:
        """Tell workers in what scope, and each in what context, to execute cell `seq`, which is sent next."""

    def interrupt(self, through: int, workers: Sequence[int]) -> Sequence[int]:
        """End what `workers` execute if its `seq` is ``<= through``; skip what they have not begun.

        Returns the workers that were executing something. A repeated call interrupts again where needed.
        """

    def skip(self, through: int, workers: Sequence[int]) -> None:
        """Let `workers` skip all commands up to `through` that they have not begun; a running one goes on."""

    def withdraw(self, seq: int, workers: Sequence[int]) -> Sequence[int]:
        """End cell `seq` where it is executing, like `interrupt`; workers that have not begun it never will.

        What was sent before goes on. Returns the workers that had not begun it: these fail it when it is due.
        """

    def replace_stuck(self, workers: Sequence[int]) -> Sequence[int]:
        """Give up threads that an interrupt did not end; their workers go on. Returns those workers."""

    def look(self, *, numbered: bool, sample: int) -> list[list[tuple[str, RegisterInfo]]]:
        """Per worker ``(label, picture)`` of its registers, of at most `sample` elements; never waits."""

    def marks(self) -> Sequence[Mapping[str, tuple[str, ...]]]:
        """Per worker the registers marked as equal, with the mesh axes along which; never waits."""

    def look_at(self, register: int, since: int) -> list[RegisterInfo | None]:
        """Per worker the picture of one numbered register, None if there is none; never waits.

        `since` is the command that fills it: before that, the register holds the value of a former owner.
        """

    def examine(
        self,
        register: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        circles: Sequence[tuple[int, ...]],
        since: int = 0,
    ) -> list[Any]:
        """Call ``function(*values, *arguments)`` for each circle, with its workers' values of a register.

        `register` is a label, ``x`` or ``#5``; `since` as with `look_at`. Never waits for what a worker
        executes, and sends no command. None where a worker of the circle has no value. The values are the
        workers' own, and may change meanwhile: `function` does not modify them, keeps no reference to them
        and runs none of their code. Its exceptions propagate. It and the arguments may have to travel to
        where the values are.
        """

    def examine_names(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], workers: Sequence[int]
    ) -> list[Any]:
        """Call ``function(bound, behind, *arguments)`` for each of `workers`, with the names its cells see.

        `bound` holds the names that cells have bound, `behind` those that they see anyway: two dictionaries
        from text to the workers' own values, made for this call and emptied at its end. Otherwise like
        `examine`; what the function returns is plain data, which may have to travel back.
        """

    def beside(self, worker: int, timeout_s: float) -> AbstractContextManager[bool]:
        """Let the calling thread work at a worker's place in a ``with`` block: see `devices.visiting`."""

    def has_rested(self, worker: int, seq: int) -> bool:
        """Whether a worker sleeps, has executed command `seq`, and has reported everything that came of it.

        `seq` is the last command that the worker was sent. Never waits; False if only the worker could say.
        """

    def has_left(self, worker: int, seq: int) -> bool:
        """Whether a worker has executed or skipped command `seq`, or a later one; never waits."""

    def glance(self, worker: int, register: int) -> Any:
        """The value of a register of a worker that has rested, if nothing can change it, else ABSENT."""

    def positions(self) -> Sequence[Position]:
        """What every worker is doing now; never waits for a worker."""

    def stopping(self, workers: Sequence[int]) -> Mapping[int, State]:
        """Those of `workers` that were interrupted and have not ended: "stopping" or "cleaning".

        Never waits.
        """

    def given_up(self) -> int:
        """How many given-up threads have not ended; they may still change what they share with others."""

    def backlog(self) -> Sequence[int]:
        """Per worker the commands sent and not done, including the one it executes; never waits."""

    def accounts(self) -> Sequence[Account]:
        """What every worker holds and how it spent its time; never waits for a worker."""

    def records(self, seq: int | None = None) -> Sequence[Record]:
        """What every worker did and when, as far as that is kept; never waits for a worker.

        Only what belongs to command `seq`, and what is running; None: everything.
        """

    def stop(self, timeout_s: float, through: int = 0) -> Sequence[Position]:
        """End all workers, after Stop was sent to them.

        What was sent may take `timeout_s` seconds; then what is left of it, up to `through`, is interrupted.
        Idempotent. Afterwards nothing of them is left, except threads in C code.

        Returns what every worker was doing when the time was over; empty if all had ended by then.
        """
