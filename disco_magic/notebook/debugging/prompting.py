"""Changes a worker's output and collectives while the user is at the prompt of its debugger."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from disco_magic.errors import UsageMistake
from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.sink import Sink
from disco_magic.notebook.output.streams import current_sink, use_sink, using_sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disco_magic.functions.calling import Guard
    from disco_magic.functions.context import WorkerContext


@contextmanager
def at_prompt(worker: WorkerContext) -> Iterator[None]:
    """The user is at the prompt of `worker` in this block, which the worker's thread executes."""
    with _aloud(worker.id), _alone(worker):
        yield


class _Aloud(Page):
    """Shows the output of one worker's debugger at once; output of the cell itself is handled as usual."""

    def __init__(self, worker: int) -> None:
        super().__init__((worker,), (worker,))
        self.area = None

    def lines(self, worker: int, channel: str, lines: Sequence[str]) -> None:
        """See `Page.lines`; without the empty line that pdb adds to everything."""
        text = [*lines]
        while text and not text[-1].strip():
            text.pop()
        if text:
            super().lines(worker, channel, text)

    def clear(self, worker: int, clear: Callable[..., Any], *, wait: bool) -> None:
        """Do nothing: the output around the prompt belongs to the cell."""


@contextmanager
def _aloud(worker: int) -> Iterator[None]:
    below = current_sink.get()
    # Without a sink, so that the page does not write to the stream that routes by worker.
    with using_sink(None):
        sink = Sink(worker, _Aloud(worker))
        sink.home = None if below is None else below.home
        use_sink(sink)
        try:
            yield
        finally:
            sink.finish()


class AtPrompt:
    """Replaces a worker's guard of collectives, to refuse collectives, which would never return.

    The other members wait for their turn to ask, which comes only when this worker continues.

    Attributes:
        below: the original guard, which a successor of this thread uses.
    """

    def __init__(self, worker: WorkerContext, below: Guard) -> None:
        self.below = below
        self._worker = worker.id
        self._thread = threading.get_ident()

    def enter(self) -> tuple[int, tuple[int, ...] | None]:
        """See `Guard`."""
        if threading.get_ident() != self._thread:
            return self.below.enter()
        raise UsageMistake(
            f"a collective was called at the debugger's prompt of worker {self._worker}, and would wait "
            "there for workers whose own prompts come later; step over a line of the cell that calls it, on "
            "all of them (n)"
        )

    def leave(self) -> None:
        """See `Guard`."""
        self.below.leave()

    def at(self) -> int | None:
        """See `Guard`."""
        return self.below.at()


@contextmanager
def _alone(worker: WorkerContext) -> Iterator[None]:
    guard = worker._guard  # noqa: SLF001 - the runtime asks it, nobody else replaces it
    if worker.num_workers > 1 and not isinstance(guard, AtPrompt):
        worker._guard = AtPrompt(worker, guard)  # noqa: SLF001
    try:
        yield
    finally:
        worker._guard = guard  # noqa: SLF001
