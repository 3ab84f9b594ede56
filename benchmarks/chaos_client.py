"""A client: sends requests to a session and checks everything that comes back."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import numpy as np

import disco_magic as disco
from benchmarks.chaos_faults import Array, mark_of
from benchmarks.chaos_target import Held, Target
from disco_magic.errors import SessionBroken, UnknownName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from queue import SimpleQueue

    from benchmarks.chaos_watch import Tally, Watchdog
    from disco_magic import DRef

    Outcome = tuple[Any, BaseException | None]

_numbers = itertools.count(1)
NOBODY: frozenset[int] = frozenset()
TRIES = 4  # a `get` also raises what failed before it


class Client:
    """The dice and current session of one client; used by one thread.

    Args:
        number: of the client; part of its registers' names.
        seed: of its dice.
        seed: of its dice.
        targets: the sessions.
        waste: takes references for another thread to drop.
        under_fire: calls its argument while a SIGINT may strike; None: not the main thread's client.
        fire_at_calls: whether SIGINTs may strike in calls and waits too, not only in cells.
    """

    def __init__(
        self,
        number: int,
        seed: str,
        targets: Sequence[Target],
        tally: Tally,
        watchdog: Watchdog,
        *,
        waste: SimpleQueue[Any],
        under_fire: Callable[[Callable[[], Any]], Any] | None = None,
        fire_at_calls: bool = True,
    ) -> None:
        self.register = f"c{number}_{next(_numbers)}"
        self._names = 0
        self.dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.targets, self.tally, self.watchdog, self.waste = targets, tally, watchdog, waste
        self._under_fire, self._fire_at_calls = under_fire, fire_at_calls

    def new_name(self) -> str:
        """Return a name bound nowhere: if binding failed, an old name would keep its previous value."""
        self._names += 1
        return f"{self.register}_{self._names}"

    def aim(self) -> None:
        """Choose the session for the next act."""
        self.target = self.dice.choice(self.targets)
        self.life = self.target.life
        self.session = self.target.session
        self.everybody = range(self.target.workers)

    def attempt(
        self, what: str, ask: Callable[[], Any], *expected: type[BaseException], cell: bool = False
    ) -> Outcome:
        """Return (result of `ask`, None) or (None, its error); record an error that nothing can explain."""
        self.tally.operation()
        fire = self._under_fire if cell or self._fire_at_calls else None
        try:
            with self.watchdog.operation(f"{what} on {self.target.name}"):
                return (ask() if fire is None else fire(ask)), None
        except BaseException as error:  # noqa: BLE001 - whatever comes has to be explained
            self._explain(what, error, expected)
            return None, BaseException.with_traceback(error, None)

    def _explain(self, what: str, error: BaseException, expected: tuple[type[BaseException], ...]) -> None:
        if isinstance(error, disco.WorkerError):
            self.target.note(what, error, self.life)
        elif isinstance(error, SessionBroken):
            self.tally.note_lost(f"{what} on {self.target.name}: {error}")
        elif isinstance(error, disco.SessionClosed | UnknownName) and self.target.has_turned_since(self.life):
            return  # names of an earlier life are gone
        elif isinstance(error, KeyboardInterrupt) and self._under_fire is not None:
            self.stopped()
        elif not isinstance(error, expected) and mark_of(error) is None:
            self.tally.note_wrong(f"{what} on {self.target.name}: {type(error).__name__}: {error}")

    def stopped(self, workers: Sequence[int] | None = None, through: float | None = None) -> None:
        """Note that an interrupt by this client is over: it may explain failures of what was sent before."""
        everything = self.session.ledger.seq if through is None else through
        self.target.stopped(self.life, self.everybody if workers is None else workers, everything)

    def compare(self, what: str, got: Any, expected: Any) -> None:
        """Check that a value that came is the predicted one."""
        if np.array_equal(np.asarray(got), np.asarray(expected)):
            self.tally.value()
        else:
            self.tally.note_wrong(f"{what} on {self.target.name}: expected\n{expected}\ngot\n{got}")

    def _arrived(self, what: str, got: Any, expected: Any, *, must_fail: bool) -> None:
        if must_fail:
            self.tally.note_wrong(f"{what} on {self.target.name}: must have failed, is\n{got}")
        else:
            self.compare(what, got, expected)

    def fetch(self, what: str, ref: DRef, worker: int, expected: Any, *, must_fail: bool = False) -> bool:
        """Get a value and compare it; whether it came. Other commands' errors are raised first, once each."""
        for _ in range(TRIES):
            got, error = self.attempt(f"get of {what}", lambda: ref.get(worker))
            if error is None:
                self._arrived(f"{what}, worker {worker}", got, expected, must_fail=must_fail)
                return True
            if must_fail or not isinstance(error, disco.WorkerError):
                return False
        return False

    def held(
        self, what: str, expected: Array, make: Callable[[], DRef], failed: frozenset[int] = NOBODY
    ) -> Held | None:
        """Make a reference and add it to the pool; `failed`: workers on which it can have no value."""
        ref, _ = self.attempt(what, make)
        if ref is None:
            return None
        held = Held(ref, self.life, expected, failed)
        self.target.keep(held)
        return held

    def one(self) -> Held | None:
        """Pick a reference of this life from the pool."""
        held = self.target.pick(self.dice)
        return held if held is not None and held.life == self.life else None

    def whole(self) -> Held | None:
        """Pick one that should have a value on all workers."""
        held = self.one()
        return held if held is not None and not held.failed else None

    def throw_away(self, thing: object) -> None:
        """Drop an object, here or in another thread."""
        if self.dice.random() < 0.5:
            self.waste.put(thing)
