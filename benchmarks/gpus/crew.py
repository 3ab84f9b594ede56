"""Measures on all workers of a session at once."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.gpus.stand import Stand

    # Takes a worker's context; returns what the worker does in each round.
    Prepare = Callable[[Any], Callable[[int], object]]


class Crew:
    """The workers of a session on one GPU.

    Args:
        stand: the section's.
        session: the workers' session.
    """

    def __init__(self, stand: Stand, session: Any) -> None:
        self.stand, self.session = stand, session
        self.workers: int = session.num_workers

    def all(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call ``function(context, *arguments)`` on every worker; return the results."""
        import disco_magic

        def work() -> Any:
            return function(disco_magic.worker(), *arguments)

        return self.session.call_packed(work).get_all()  # type: ignore[no-any-return]

    def by_events(self, prepare: Prepare) -> list[float]:
        """Return seconds per round, from the first worker's start to the last's end, on the GPU's clock."""
        cuda = self.stand.cupy.cuda
        reference = cuda.Event()
        events = [(cuda.Event(), cuda.Event()) for _ in range(self.workers)]
        calls: list[Any] = [None] * self.workers

        def ready(me: Any) -> None:
            calls[me.id] = prepare(me)

        def rounds(me: Any, count: int) -> None:
            call, (start, end) = calls[me.id], events[me.id]
            if me.id == 0:
                reference.record(me.place.stream)
            me.barrier()
            start.record(me.place.stream)
            for number in range(count):
                call(number)
            end.record(me.place.stream)
            me.place.finish()

        def batch(count: int) -> float:
            self.all(rounds, count)
            starts, ends = (
                [float(cuda.get_elapsed_time(reference, pair[side])) for pair in events] for side in range(2)
            )
            return (max(ends) - min(starts)) / 1e3

        self.all(ready)
        return self.stand.sampled(batch)

    def by_clock(self, prepare: Prepare, repeat: int, count: int = 1) -> list[float]:
        """As `by_events`, on the host's clock; `count` rounds make a sample."""
        from benchmarks.clock import spans, widths

        def work(me: Any) -> Any:
            call = prepare(me)

            def several() -> None:
                for number in range(count):
                    call(number)

            return spans(me.barrier, several, repeat)

        return widths(self.all(work), count)


@contextmanager
def crew(stand: Stand, workers: int) -> Iterator[Crew]:
    """Open a session of `workers` on the first GPU."""
    from disco_magic import ThreadedSession

    with ThreadedSession(workers, devices=[0] * workers) as session:
        yield Crew(stand, session)
