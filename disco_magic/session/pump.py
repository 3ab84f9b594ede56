"""Carries events from workers to the threads that wait for them.

::

    worker thread --deliver(event)--> [lock: ledger.feed --Expectation complete--> SimpleQueue of the waiter]
                                           |--all replies but two: SOON------------> the same queue
    signal handler ------------------------------------------------ INTERRUPT -----> the same queue

The ledger decides under the lock (`refusing_lock.py`), and the queue is written under it, too: whoever finds
under the lock that nothing is missing finds the answers in the queue. A waiter blocks in
``SimpleQueue.get``, which signals and other threads can end, and wakes now and then (`take` says why).

A sleeping thread takes about as long to wake as two idle workers to answer. So the waiter is woken when
all but two have answered, and wakes while those do: call + sync of four workers 55 us instead of 70, of three
50 instead of 75, of eight 75 to 155 instead of 155 (2 cores, CPython 3.11; the scheduler chooses). If those
two take longer it falls asleep again, once.
"""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeVar

from disco_magic.core.messages import CellDone
from disco_magic.session.sigint import sigint_deferred_to, sigint_to
from disco_magic.workers.fragile import note_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disco_magic.core.ledger import Expectation, Ledger
    from disco_magic.core.messages import Event, Lost
    from disco_magic.session.arguments import Limit
    from disco_magic.session.refusing_lock import RefusingLock

T = TypeVar("T")


class Signal:
    """A message to a waiter other than replies."""


INTERRUPT: Final = Signal()
"""A SIGINT came."""
SOON: Final = Signal()
"""All workers but two have answered; only `take` sees it."""
GIVEN_UP: Final = Signal()
"""The answers are no longer needed: what was waited for has an outcome without them."""
LOOK_UP_S: Final = 0.1
_WAITED_S: Final = 1e-3  # a `get` that takes longer has waited, for the item and then for the GIL

if TYPE_CHECKING:
    Inbox = SimpleQueue[Expectation | Lost | Signal]


class CellInbox(SimpleQueue["Expectation | Lost | Signal"]):
    """The inbox of `attentive`.

    Attributes:
        was_struck: whether a SIGINT was ever put into it: most cells end without one, and need not look.
        is_attended: whether SIGINT calls `strike` now.
    """

    was_struck = False
    is_attended = False
    _hear: Callable[[], object] | None = None

    def strike(self) -> None:
        """Take a SIGINT; called in the main thread, between any two bytecodes.

        Also within `get`: ``SimpleQueue.put`` is reentrant. No KeyboardInterrupt then strikes between two
        halves of a step.
        """
        hear = self._hear
        if hear is None:
            self.put(INTERRUPT)
        else:
            hear()

    def heard(self, hear: Callable[[], object], act: Callable[[], T]) -> T:
        """Return ``act()``; meanwhile, SIGINT calls `hear`."""
        if not self.is_attended:
            with sigint_to(hear):
                return act()
        self._hear = hear  # a second handler over the first would take 4 us
        try:
            return act()
        finally:
            self._hear = None

    def put(self, item: Expectation | Lost | Signal) -> None:  # type: ignore[override]  # it never waits
        """Accept what the pump delivers, or a SIGINT."""
        if item is INTERRUPT:
            self.was_struck = True  # first: whoever finds the item finds this
        super().put(item)


class Mark:
    """A place on a queue that several threads can wait for, at once or one after another."""

    def __init__(self) -> None:
        self._item: Expectation | Lost | Signal | None = None
        self._bell: Inbox = SimpleQueue()

    def put(self, item: Expectation | Lost | Signal) -> None:
        """Accept what the pump delivers."""
        if item is not SOON:
            self._item = item
            self._bell.put(item)

    @property
    def is_passed(self) -> bool:
        """Whether the worker has reached the place, or never will."""
        return self._item is not None

    def wait(self, limit: Limit) -> Expectation | Lost | Signal | None:
        """Return what was delivered; None if nothing was within `limit`."""
        while self._item is None:
            left = limit.left()
            with suppress(Empty):
                # Put back for other waiters. If a Ctrl-C in between loses it, they wake and find `_item`.
                self._bell.put(take(self._bell, LOOK_UP_S if left is None else min(left, LOOK_UP_S)))
            if left == 0:
                break
        return self._item


class Pump:
    """Feeds the ledger and wakes waiters; `deliver` may be called from any thread.

    Args:
        ledger: fed under `lock`.
        lock: the session's.
    """

    def __init__(self, ledger: Ledger, lock: RefusingLock) -> None:
        self._ledger = ledger
        self._locked = lock
        self._inboxes: dict[int, Inbox | Mark] = {}

    def expect(self, seq: int, workers: tuple[int, ...], inbox: Inbox | Mark) -> None:
        """Put the replies to command `seq` into `inbox`. Call it under the lock, before sending."""
        self._ledger.expect(seq, workers)
        self._inboxes[seq] = inbox
        if self._ledger.lost is not None:
            inbox.put(self._ledger.lost)  # the loss was reported before this was expected

    def forget(self, seq: int) -> tuple[int, ...]:
        """Stop expecting replies to `seq`; return workers that had not replied. Call it under the lock."""
        missing = self._ledger.forget(seq)
        self._inboxes.pop(seq, None)
        return missing

    def excuse(self, replies: Sequence[CellDone]) -> None:
        """Count these replies to a cell as received: the workers will send them late."""
        self._locked(self._excuse, replies)

    def _excuse(self, replies: Sequence[CellDone]) -> None:
        done = self._ledger.excuse(replies)
        if done is not None:
            self._inboxes.pop(done.seq).put(done)

    def deliver(self, event: Event) -> None:
        """Process an event from a worker."""
        self._locked(self._feed, event)

    def _feed(self, event: Event) -> None:
        ledger = self._ledger
        done = ledger.feed(event)
        if done is not None:
            self._inboxes.pop(done.seq).put(done)
        elif ledger.lost is not None:
            for inbox in self._inboxes.values():
                inbox.put(ledger.lost)
        elif type(event) is not CellDone and ledger.is_nearly_answered(event.seq):
            self._inboxes[event.seq].put(SOON)


def take(
    inbox: Inbox, timeout_s: float | None, on_look: Callable[[], None] | None = None
) -> Expectation | Lost | Signal:
    """Return the next item; `queue.Empty` after `timeout_s` seconds, None: never.

    Wakes now and then, because a signal that arrives between CPython's last check for signals and the wait
    itself does not end that wait. While workers compute this is not rare: the waiter is in that gap for as
    long as it waits for the GIL. Of 40 interrupts while three workers computed, half arrived there.

    Args:
        inbox: the inbox to read.
        timeout_s: 0 looks once.
        on_look: called whenever it wakes and finds nothing.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left = LOOK_UP_S if deadline is None else max(0.0, deadline - time.monotonic())
        began = perf_counter()
        try:
            item = inbox.get(timeout=min(left, LOOK_UP_S))
        except Empty:
            if left < LOOK_UP_S:
                raise
            if on_look is not None:
                on_look()
        else:
            if item is INTERRUPT and perf_counter() - began > _WAITED_S:
                note_wait()
            if item is not SOON:
                return item


def take_sigint(inbox: CellInbox, hear: Callable[[], object] | None = None) -> bool:
    """Whether a SIGINT is among the items; answers are put back for other waiting threads.

    `hear` is called if a SIGINT interrupts the calling thread meanwhile.
    """
    if not inbox.was_struck:
        return False
    items = []
    with attentive() as later:  # a SIGINT half-way would lose the answers
        with suppress(Empty):
            while True:
                items.append(inbox.get_nowait())
        for item in items:
            if item is INTERRUPT:
                continue
            inbox.put(item)
    if hear is not None and not later.empty():
        hear()
    return INTERRUPT in items or not later.empty()


class attentive(sigint_to):  # noqa: N801 - a context manager, as `sigint_to`
    """Gives an inbox for a cell about to be sent; while active, a SIGINT is put into it.

    Without this a Ctrl-C between sending a cell and waiting for it would leave the cell running, and one
    between two queues would send it to some workers only.
    """

    def __init__(self) -> None:
        self._inbox = CellInbox()
        super().__init__(self._inbox.strike)

    def __enter__(self) -> CellInbox:  # type: ignore[override]  # what the cell is sent with
        super().__enter__()
        self._inbox.is_attended = self._hear is not None
        return self._inbox

    def __exit__(self, *_: object) -> None:
        self._inbox.is_attended = False
        super().__exit__()


@contextmanager
def sigint_held_back() -> Iterator[None]:
    """Hold back a SIGINT during a step that it would break, and raise it afterwards."""
    inbox: Inbox = SimpleQueue()
    try:
        with sigint_deferred_to(lambda: inbox.put(INTERRUPT)):
            yield
    finally:
        if not inbox.empty():
            signal.raise_signal(signal.SIGINT)
