"""How arrays on GPUs are seen from outside of their workers: what is computed still is not waited for.

A worker queues its work on a stream of its own. An array is there as soon as Python has it, its elements come
later. Whoever looks at them from another thread asks first whether the stream is done.

    launchers: `sights_of(places)` --> describe_all(values, sample, sights)
                                   --> with seen_by(sight): function(values)  --> describe, elements_of
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from disco_magic.core.device import Device
from disco_magic.errors import NoPicture
from disco_magic.locks import new_lock
from disco_magic.values.gathering import Gatherer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disco_magic.core.place import Place
    from disco_magic.values.wanted import Array, Wanted


class Gatherers:
    """One for each GPU that is looked at, made when it is.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._lock = new_lock()
        self._made: dict[int, Gatherer] = {}

    def on(self, index: int) -> Gatherer:
        """That of a GPU."""
        with self._lock:
            if index not in self._made:
                self._made[index] = Gatherer(self.cupy, index)
            return self._made[index]


class Sight:
    """What can be seen of the arrays of one worker, or of several whose values are looked at together.

    Any thread may use it; the thread keeps its device and stream.

    Args:
        places: of the workers.
        gatherers: shared with the other workers of the session.
    """

    def __init__(self, places: Sequence[Place], gatherers: Gatherers) -> None:
        self.places = tuple(places)
        self._gatherers = gatherers

    def with_others(self, others: Sequence[Sight]) -> Sight:
        """The same with the workers of others."""
        return Sight([place for sight in (self, *others) for place in sight.places], self._gatherers)

    def check(self, index: int) -> None:
        """Whether what is on a GPU can be seen.

        Raises:
            NoPicture: the workers compute on it still.
        """
        here = [place for place in self.places if place.device.index == index]
        if not (all(place.is_idle() for place in here) if here else self._null_is_idle(index)):
            device = Device(self.places[0].device.kind, index)
            raise NoPicture(f"its elements are still being computed on {device}; refresh")

    def check_all(self) -> None:
        """Whether everything that the workers have can be seen.

        Raises:
            NoPicture: they compute still.
        """
        for index in dict.fromkeys(place.device.index for place in self.places):
            self.check(index)

    def _null_is_idle(self, index: int) -> bool:
        # The workers' own arrays on another GPU: there, they have no other stream than anybody.
        with self._gatherers.cupy.cuda.Device(index):
            return bool(self._gatherers.cupy.cuda.Stream.null.done)

    def read(self, wanted: Wanted) -> Array:
        """Elements as an array of one axis, without a look whether they are computed: see `check`.

        Raises:
            NoPicture: the GPU is busy with other work, or they cannot be had at all.
        """
        index = int(wanted.array.device.id)
        found = self._gatherers.on(index).gather([wanted])
        if found is None:
            device = Device(self.places[0].device.kind, index)
            raise NoPicture(f"{device} is busy and did not come to it; refresh")
        return found[0]

    def read_all(self, wanted: Sequence[Wanted]) -> list[Array | None]:
        """For each its elements as an array of one axis; None while they are computed, or cannot be had."""
        found: list[Array | None] = [None] * len(wanted)
        for index in dict.fromkeys(int(each.array.device.id) for each in wanted):
            numbers = [n for n, each in enumerate(wanted) if int(each.array.device.id) == index]
            for n, elements in zip(numbers, self._brought(index, [wanted[n] for n in numbers]), strict=False):
                found[n] = elements
        return found

    def _brought(self, index: int, wanted: Sequence[Wanted]) -> Sequence[Array]:
        """Elements on one GPU; none if they cannot be had."""
        try:
            self.check(index)
            return self._gatherers.on(index).gather(wanted) or ()
        except Exception:  # noqa: BLE001 - also one that is lost: its workers say so when they compute
            return ()


_current: ContextVar[Sight | None] = ContextVar("sight", default=None)


def current_sight() -> Sight | None:
    """Through what the calling thread sees values at the moment; None: they are its own."""
    return _current.get()


@contextmanager
def seen_by(sight: Sight | None) -> Iterator[None]:
    """Values that the calling thread is about to look at are those of `sight`'s workers."""
    token = _current.set(sight)
    try:
        yield
    finally:
        _current.reset(token)


def sights_of(places: Sequence[Place]) -> list[Sight | None]:
    """For each worker's place what is seen of it; None for the host, where everything is."""
    gatherers = next((Gatherers(place.xp) for place in places if place.device.kind != "cpu"), None)
    if gatherers is None:
        return [None] * len(places)
    return [None if place.device.kind == "cpu" else Sight([place], gatherers) for place in places]
