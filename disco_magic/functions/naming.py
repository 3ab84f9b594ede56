"""Names that users give to blocks of their work, for timelines and traces."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import TYPE_CHECKING

from disco_magic.errors import UsageMistake, is_told
from disco_magic.functions.calling import Calling
from disco_magic.phrases import class_name

if TYPE_CHECKING:
    from disco_magic.core.recorded import Named
    from disco_magic.recorder import Recorder

__tracebackhide__ = is_told


class NamedSpan(ContextDecorator):
    """A ``with`` block, or a function, with a name in the worker's record; may be entered recursively."""

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
    """Lets users name what a worker does; mixed into `WorkerContext`."""

    def span(self, label: str) -> NamedSpan:
        r"""Return a context manager that names a ``with`` block in timelines; it also decorates functions.

        ``with worker.span("F3"):`` is a bar of that name on the worker's lane of `%disco timeline`, and a
        slice of the trace that it saves. Blocks may be nested.

        Args:
            label: its name, of which 200 characters are kept. Bars whose names differ only in digits have the
                same colour.

        Raises:
            UsageMistake: the name is no text.

        Cost: 2 us. Of a worker the last 4,096 things are kept, its collectives included.

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
