"""What one worker did and when: its own thread writes, any thread reads.

An ordinary call costs nothing here. When a worker falls asleep it notes the *spell* since it woke, if that
was long enough to be visible, with the times that its stopwatch takes anyway. Cells, copies and calls that go
through the interpreter are noted one by one, and collectives when the worker calls them.

The record is small: a collective's text is made only when it is read, and no array is kept alive.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.messages import Call, Run, full
from disco_magic.core.recorded import ASLEEP, LONG, end_of, kind_of, seq_of, start_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from disco_magic.core.messages import Command, Message
    from disco_magic.core.recorded import Done, Facts, Joined, Led, Named, Parted, Place
    from disco_magic.core.timeline import Meeting, Record

    Describe = Callable[[Command], str]

KEPT: Final = 4096
"""How many spans are kept per worker; older ones are dropped."""
SHORT_S: Final = 1e-3
"""Spells, copies and calls shorter than this are not kept: a picture would not show them."""


# Types of the arguments that are kept of a failed call.
_PLAIN: Final = frozenset({int, str, bool})


class Recorder:
    """The record of one worker.

    Only the worker's own thread calls the methods that write; if that thread is given up, the worker goes on
    with a successor unknown to the thread (`succeed`). Appending to a deque, copying it and replacing an
    attribute are atomic in CPython: a reader in another thread sees either the old or the new state.

    Args:
        kept: how many spans are kept.

    Attributes:
        spell: the commands since the worker woke; `ASLEEP` while it sleeps.
        opened: when the current command that goes through the interpreter began; None if there is none.
        joined: the collective that the worker is in.
        quiet: how many commands executed nothing: a sync, a name bound, a register dropped.
        led_by: returns what led to the line that calls a collective, from its code: for a cell with
            ``--check``; None: that is not kept.
        broken: the last collective of the cell that could not be carried out, in words; "" if all were.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.spell = ASLEEP
        self.opened: float | None = None
        self.joined: Joined | None = None
        self.quiet = 0
        self.led_by: Callable[[CodeType], Led] | None = None
        self.broken = ""
        self._done: deque[Done | Parted] = deque(maxlen=kept)
        self._total = 0
        self._began: float | None = None
        self._ended: float | None = None
        self._scope = -1
        self._made: dict[tuple[int, ...], int] = {}
        self._led: dict[Meeting, Led] = {}  # of the last command that was watched
        self._slept_s = 0.0
        self._slept_before_s = 0.0  # at `opened`
        self._named: list[Named] = []  # open blocks, the outer ones first

    # --- the worker's thread: its life -----------------------------------------------------------------

    def begin(self, seq: int) -> None:
        """Note that a thread begins, with command `seq` or a later one."""
        now = perf_counter()
        if self._began is None:
            self._began = now
        self.spell = now, seq, None, self.quiet

    def end(self) -> None:
        """Note that the worker has ended."""
        self._ended = perf_counter()
        self.spell = ASLEEP

    def succeed(self, slept_s: float) -> Recorder:
        """Return the same record for another thread; whatever this thread still writes is not in it.

        `slept_s` is the total time that the worker has spent asleep in plane calls.
        """
        heir = Recorder()
        heir._done = self._done.copy()
        heir._total, heir._began, heir._slept_s = self._total, self._began, slept_s
        heir._slept_before_s = self._slept_before_s
        heir.spell, heir.opened, heir.quiet = self.spell, self.opened, self.quiet
        return heir

    # --- the worker's thread: commands -----------------------------------------------------------------

    def rests(self, now: float, last: int, describe: Describe) -> None:
        """Note the end of the spell, in which command `last` is the last one."""
        start, first, function, quiet = self.spell
        count = last - first + 1 - (self.quiet - quiet)
        if count < 1 or now - start < SHORT_S:
            return
        name = "" if function is None else describe(Call(first, 0, function, ()))[:LONG]
        if count == 1:
            self._keep(("call", start, now, name or "call", f"command {last}", last, None))
        else:
            detail = f"commands {first} to {last}{name and f', the first: {name}'}"
            self._keep(("calls", start, now, f"{count:,} calls", detail, last, None))

    def passes(self, command: Command, describe: Describe) -> None:
        """Note that `command` executes nothing; record what came before it for a caller that waits for it."""
        start, first, _, quiet = self.spell
        if command.seq == first:
            self.spell = start, first + 1, None, quiet
        elif (now := perf_counter()) - start < SHORT_S:
            self.quiet += 1
        else:
            self.rests(now, command.seq - 1, describe)
            self.spell = now, command.seq + 1, None, self.quiet

    def opens(self, command: Command, describe: Describe) -> None:
        """Note that `command`, which goes through the interpreter, begins."""
        start, first, _, _ = self.spell
        self._slept_before_s = self._slept_s
        if first == command.seq:
            self.opened = start  # it has just woken the worker
        else:
            self.opened = perf_counter()
            self.rests(self.opened, command.seq - 1, describe)

    def closes(self, command: Command, describe: Describe) -> None:
        """Note that it has ended; do nothing if it was closed before."""
        start, now = self.opened, perf_counter()
        if start is None:
            return
        if now - start >= SHORT_S or type(command) is Run:
            waited_s, words = self._slept_s - self._slept_before_s, describe(command)[:LONG]
            seq = command.seq
            self._keep((kind_of(command), start, now, words, f"command {seq}", seq, waited_s))
        self.opened = None
        self.spell = now, command.seq + 1, None, self.quiet

    def fails(self, command: Command, summary: str, describe: Describe) -> None:
        """Note that `command` has ended with an error; `summary` as in `Failure`."""
        if self.opened is None:
            self.rests(perf_counter(), command.seq, describe)
        self.closes(command, describe)
        now = perf_counter()
        self.spell = now, command.seq + 1, None, self.quiet
        told = summary[:LONG], f"in {describe(command)[:LONG]}"
        before: Any = self._done[-1] if self._done else ("",)
        if before[0] == "error" and before[3:5] == told:
            # Thousands of commands skipped by one interrupt must not push out everything else.
            self._done[-1] = ("error", before[1], now, *told, command.seq, None)
        else:
            self._keep(("error", now, now, *told, command.seq, None))

    # --- the worker's thread: collectives --------------------------------------------------------------

    def joins(self, facts: Facts, scope: int, members: tuple[int, ...]) -> Joined:
        """Note that the worker calls a collective; with fewer than two `members` it meets none."""
        number = 0
        if len(members) < 2:
            members = ()
        else:
            if scope != self._scope:
                self._scope, self._made = scope, {}
                if self.led_by is not None:
                    self._led = {}
            number = self._made[members] = self._made.get(members, 0) + 1
        verb, kind, shape, rest, code, offset = facts
        if members and self.led_by is not None:
            self._led[members, scope, number] = self.led_by(code)
            if len(self._led) > KEPT:
                del self._led[next(iter(self._led))]
        joined = perf_counter(), verb, kind, shape, rest, code, offset, members, scope, number
        self.joined = joined
        return joined

    def found(self, source: int) -> None:
        """Note that the last call, a `probe`, was ended by a message of worker `source`."""
        start, verb, kind, shape, rest, *more = self._done[-1]
        self._done[-1] = (start, verb, kind, shape, (source, *rest[1:]), *more)

    def parts(self, joined: Joined, slept_s: float, error: str = "", *, refused: bool = False) -> None:
        """Note that the collective has ended.

        Args:
            joined: from `joins`.
            slept_s: the total time that the worker has spent asleep in plane calls.
            error: name of the exception that it raised.
            refused: whether the call was rejected: the worker joined no others, and may try again.
        """
        asleep_s, self._slept_s = slept_s - self._slept_s, slept_s
        if error:
            start, verb, kind, shape, rest, code, offset, members, scope, number = joined
            if refused and members:
                self._made[members] -= 1
                members = ()
            # The faulty argument may be an array in the place of something else.
            plain = tuple([each if type(each) in _PLAIN else None for each in rest])
            joined = start, verb, kind, shape, plain, code, offset, members, scope, number
        self._done.append(joined + (perf_counter(), asleep_s, error))  # noqa: RUF005 - twice as fast as stars
        self._total += 1
        self.joined = None

    # --- the worker's thread: what the user has named --------------------------------------------------

    def enters(self, label: str) -> Named:
        """Note that a named block begins."""
        named = perf_counter(), label[:LONG]
        self._named.append(named)
        return named

    def leaves(self, named: Named) -> None:
        """Note that a named block ends."""
        # By identity: a block in a generator may end before its inner ones, and two may begin at once.
        self._named = [each for each in self._named if each is not named]
        start, label = named
        self._keep(("span", start, perf_counter(), label, "", None, None))

    def _keep(self, done: Done | Parted) -> None:
        self._done.append(done)
        self._total += 1

    # --- any thread ------------------------------------------------------------------------------------

    def record(
        self,
        worker: int,
        now: Message | None,
        waiting_s: float | None,
        *,
        describe: Describe,
        place: Place,
        seq: int | None = None,
    ) -> Record:
        """What is known of the worker, including what is in progress, as unfinished.

        Args:
            worker: its id.
            now: the command that it executes.
            waiting_s: how long it has been asleep in the collective it is in.
            describe: a command in words.
            place: the line of the user's code in words, from a code object and an offset in it.
            seq: only spans of this command, apart from what is in progress; None: of all commands.
        """
        # What pictures are made of takes 15 ms to import, for which the start of a session should not wait.
        from disco_magic.core.spans import attended, doing_of, led, spans_of
        from disco_magic.core.timeline import Record, Span

        # Read what is in progress first, what has ended second, so that nothing that ends now is missed.
        opened, spell, joined, total = self.opened, self.spell, self.joined, self._total
        named = list(self._named)
        done = list(self._done)
        until = perf_counter() if self._ended is None else self._ended
        began = until if self._began is None else self._began
        told = done if seq is None else [each for each in done if seq_of(each) == seq]
        by: dict[Any, Led] = self._led.copy()
        spans = [span for each in told for span in spans_of(worker, each, place)]
        spans = [led(span, by.get(span.meeting), place) for span in spans]
        starts = {start_of(each) for each in told}
        doing = None
        if now is not None:
            command = full(now)
            doing = doing_of(worker, command, opened, spell, until=until, words=describe(command)[:LONG])
        if doing is not None and (doing.kind, doing.start_s) not in starts:
            spans.append(doing)
        spans += [
            Span(worker, "span", label, start, until, unfinished=True)
            for start, label in named
            if ("span", start) not in starts
        ]
        if joined is not None and ("collective", joined[0]) not in starts:
            spans += attended(worker, joined, until, place, waiting_s=waiting_s)
        dropped = max(0, total - len(done))
        whole_from = max(began, end_of(done[0])) if dropped else began
        return Record(tuple(spans), began, until, whole_from, dropped)
