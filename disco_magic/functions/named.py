"""What a worker does in words of the user's: bars of a timeline."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import TYPE_CHECKING

from disco_magic.errors import UsageMistake
from disco_magic.functions.calling import Calling
from disco_magic.phrases import class_name

if TYPE_CHECKING:
    from disco_magic.core.recorded import Named
    from disco_magic.recorder import Recorder


class NamedSpan(ContextDecorator):
    """A ``with`` block, or a function, with a name in the worker's record; may be entered within itself."""

    def __init__(self, me: Calling, label: str) -> None:
        self._me = me
        self._label = label
        self._entered: list[tuple[Recorder, Named]] = []

    def __enter__(self) -> None:
        recorder = self._me.recorder  # a thread that is given up keeps this one
        self._entered.append((recorder, recorder.enters(self._label)))

    def __exit__(self, *_: object) -> None:
        recorder, named = self._entered.pop()
        recorder.leaves(named)


class Naming(Calling):
    """Names for what a worker does; mixed into `WorkerContext`."""

    def span(self, label: str) -> NamedSpan:
        r"""A context manager that gives a ``with`` block a name in timelines; or a decorator of a function.

        ``with worker.span("F3"):`` is a bar of that name on the worker's lane of `%disco timeline`, and a
        slice of the trace that it saves. Blocks may lie in each other.

        Args:
            label: its name, of which 200 characters are kept. Bars whose names differ in digits alone have
                one colour.

        Raises:
            UsageMistake: the name is no text.

        Cost: 2 us. With its collectives it is one of the 4,096 last things that are kept of a worker.

        Example:
            >>> session.run("for n in range(3):\n    with worker.span(f'step {n}'): barrier()").errors
            {}
            >>> [span.label for span in session.timeline().lane(2) if span.kind == "span"]
            ['step 0', 'step 1', 'step 2']
        """
        if not isinstance(label, str):
            raise UsageMistake(
                f'worker.span takes a name, got {class_name(label)}: `with worker.span("F3"):`'
            )
        return NamedSpan(self, label)
