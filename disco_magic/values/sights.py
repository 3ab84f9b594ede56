"""Sights: how arrays on GPUs are read from outside of their workers, without waiting for computations.

A worker queues its work on a stream of its own. An array exists as soon as Python has it, its elements are
computed later. A thread that looks at them asks first whether the stream is done.

    launchers: `sights_of(places)` --> describe_all(values, sample, sights)
                                   --> with seen_by(sight): function(values)  --> describe, elements_of
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from disco_magic.core.device import Device
from disco_magic.errors import NoPicture
from disco_magic.threads.locks import new_lock
from disco_magic.values.gathering import Gatherer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disco_magic.core.place import Place
    from disco_magic.values.wanted import Array, Wanted


class Gatherers:
    """A `Gatherer` for each GPU that is looked at, made when it is needed."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._lock = new_lock()
        self._made: dict[int, Gatherer] = {}

    def on(self, index: int) -> Gatherer:
        """Return the gatherer of a GPU."""
        with self._lock:
            if index not in self._made:
                self._made[index] = Gatherer(self.cupy, index)
            return self._made[index]


class Sight:
    """Reads the arrays of one worker, or of several whose values are looked at together.

    Any thread may use it; the thread keeps its device and stream.
    """

    def __init__(self, places: Sequence[Place], gatherers: Gatherers) -> None:
        self.places = tuple(places)
        self._gatherers = gatherers

    def with_others(self, others: Sequence[Sight]) -> Sight:
        """Return a sight of these workers and those of `others`."""
        return Sight([place for sight in (self, *others) for place in sight.places], self._gatherers)

    def check(self, index: int) -> None:
        """Check that what is on a GPU can be read."""
        here = [place for place in self.places if place.device.index == index]
        if not (all(place.is_idle() for place in here) if here else self._null_is_idle(index)):
            device = Device(self.places[0].device.kind, index)
            raise NoPicture(f"its elements are still being computed on {device}; refresh")

    def check_all(self) -> None:
        """Check that everything that the workers have can be read."""
        for index in dict.fromkeys(place.device.index for place in self.places):
            self.check(index)

    def _null_is_idle(self, index: int) -> bool:
        # A worker's own arrays on another GPU: there, all threads use the null stream.
        with self._gatherers.cupy.cuda.Device(index):
            return bool(self._gatherers.cupy.cuda.Stream.null.done)

    def read(self, wanted: Wanted) -> Array:
        """Return elements as an array of one axis, without checking that they are computed: see `check`."""
        index = int(wanted.array.device.id)
        found = self._gatherers.on(index).gather([wanted])
        if found is None:
            device = Device(self.places[0].device.kind, index)
            raise NoPicture(f"{device} is busy and did not answer in time; refresh")
        return found[0]

    def read_all(self, wanted: Sequence[Wanted]) -> list[Array | None]:
        """As `read`, for each of several; None if it is still being computed, or cannot be read."""
        found: list[Array | None] = [None] * len(wanted)
        for index in dict.fromkeys(int(each.array.device.id) for each in wanted):
            numbers = [n for n, each in enumerate(wanted) if int(each.array.device.id) == index]
            for n, elements in zip(numbers, self._brought(index, [wanted[n] for n in numbers]), strict=False):
                found[n] = elements
        return found

    def _brought(self, index: int, wanted: Sequence[Wanted]) -> Sequence[Array]:
        """Return elements on one GPU; none if they cannot be read."""
        try:
            self.check(index)
            return self._gatherers.on(index).gather(wanted) or ()
        except Exception:  # noqa: BLE001 - also if the GPU is lost: its workers report that when they compute
            return ()


_current: ContextVar[Sight | None] = ContextVar("sight", default=None)


def current_sight() -> Sight | None:
    """The sight through which the calling thread is looking at values; None: they are its own."""
    return _current.get()


@contextmanager
def seen_by(sight: Sight | None) -> Iterator[None]:
    """Within the block, the values that the calling thread looks at are those of `sight`'s workers."""
    token = _current.set(sight)
    try:
        yield
    finally:
        _current.reset(token)


def sights_of(places: Sequence[Place]) -> list[Sight | None]:
    """Return the sight of each worker's place; None for the host, where everything can be read."""
    gatherers = next((Gatherers(place.xp) for place in places if place.device.kind != "cpu"), None)
    if gatherers is None:
        return [None] * len(places)
    return [None if place.device.kind == "cpu" else Sight([place], gatherers) for place in places]
