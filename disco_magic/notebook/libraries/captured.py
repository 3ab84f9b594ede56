"""``with out:`` of an ipywidgets `Output` on a worker: it captures this worker's output only.

ipywidgets asks the front end to put all output of the cell's request into the widget. With several workers,
that would include the output of the others, and `interact` on one worker would clear it. So on workers a sink
of ours fills `Output.outputs`, as `append_stdout` does.

Callbacks of widgets, such as when a slider is moved, run in the kernel's main thread as usual.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.callers.tracebacks import error_text, shorten
from disco_magic.errors import PlaneError
from disco_magic.notebook.libraries.contents import as_output, contents_of, show_now
from disco_magic.notebook.output.arrange import display_id
from disco_magic.notebook.output.sink import Sink
from disco_magic.notebook.output.streams import current_sink, use_sink
from disco_magic.phrases import class_name, words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from disco_magic.notebook.output.arrange import Item


class Capture:
    """The `sink.Receiver` of a worker within ``with out:``."""

    finished: frozenset[int] = frozenset()

    def __init__(self, out: Any, root: Sink) -> None:
        self.out = out
        self.root = root
        self.contents = contents_of(out)
        self.lock = self.contents.lock
        self.sink = Sink(root.worker, self)
        self.sink.home = root.home
        with self.lock:
            self.contents.writers[self.sink] = None

    def lines(self, _worker: int, channel: str, lines: Sequence[str]) -> None:
        """See `Receiver`."""
        if not self.root.is_given_up:
            self.contents.add_text(channel, "".join(f"{line}\n" for line in lines))

    def touch(self, _sink: Sink) -> None:
        """See `Receiver`."""
        if not self.root.is_given_up:
            self.contents.show()

    def display(
        self, _worker: int, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any]
    ) -> None:
        """See `Receiver`."""
        if self.root.is_given_up:
            return
        if kwargs.get("update"):  # of a display in the cell; `Sink.display` handles those in widgets
            publish(data, **kwargs)
        else:
            self.contents.add(as_output(data, kwargs), display_id(kwargs))

    def pictures(self, worker: int, pictures: Sequence[Item]) -> None:
        """See `Receiver`."""
        for picture in pictures:
            if picture.publish is not None:
                self.display(worker, picture.publish, picture.data, picture.kwargs)

    def clear(self, _worker: int, _clear: Callable[..., Any], *, wait: bool) -> None:
        """See `Receiver`; the widget belongs to this worker."""
        if not self.root.is_given_up:
            self.contents.clear(wait=wait)

    def shows(self, _worker: int) -> bool:
        """See `Receiver`."""
        return self.root.is_shown

    def finish(self, _worker: int) -> None:
        """See `Receiver`."""
        self.contents.writers.pop(self.sink, None)

    def end(self, error: BaseException | None, *, is_left: bool) -> None:
        """End a block; show `error`, if any. `is_left`: it is not nested in another block of the widget."""
        shown: dict[str, Any] = {}
        if error is not None:
            shorten(error)
            shown = {"output_type": "error", "ename": class_name(error), "evalue": words(error)}
            shown["traceback"] = [error_text(error)]
        with self.lock:
            if is_left:
                self.sink.finish()
            if self.root.is_given_up:
                return
            if shown:
                self.contents.add(shown)
            self.contents.show_end()


_APPENDING = ("append_stdout", "append_stderr", "append_display_data")

_open: ContextVar[tuple[Capture, ...]] = ContextVar("disco_magic_captures", default=())
"""The blocks that the calling worker is in, and blocks of earlier cells that were never left."""


def _opened() -> tuple[Sink | None, tuple[Capture, ...]]:
    """The sink of the calling worker's cell, and the blocks that the worker is in."""
    sink = current_sink.get()
    root = next((each.root for each in _open.get() if each.sink is sink), sink)
    return root, tuple(each for each in _open.get() if each.root is root)


def fit_output(module: ModuleType) -> Callable[[], None]:
    """Let `Output` of `module` capture the output of one worker."""
    kind = module.Output
    enter, leave = kind.__enter__, kind.__exit__

    @wraps(enter)
    def entered(self: Any) -> Any:
        root, opened = _opened()
        if root is None or not _has_kernel():
            return enter(self)
        # A nested block of the same widget continues its line.
        capture = next((each for each in opened if each.out is self), None) or Capture(self, root)
        _open.set((*opened, capture))
        use_sink(capture.sink)
        return None

    @wraps(leave)
    def left(self: Any, kind_of: Any, error: BaseException | None, trace: Any) -> bool | None:
        root, opened = _opened()
        at = max((at for at, each in enumerate(opened) if each.out is self), default=None)
        if root is None or at is None:
            shown: bool | None = leave(self, kind_of, error, trace)
            return shown
        capture, rest = opened[at], opened[:at] + opened[at + 1 :]
        _open.set(rest)
        use_sink(rest[-1].sink if rest else root)
        # As in a plain cell, the error is shown in the widget and the cell goes on. Not errors that stop the
        # cell, nor those of collectives: the workers would diverge without notice.
        is_shown = isinstance(error, Exception) and not isinstance(error, PlaneError)
        capture.end(error if is_shown else None, is_left=capture not in rest)
        return True if is_shown else None

    changed = {"__enter__": entered, "__exit__": left}
    changed |= {name: _after_all(getattr(kind, name)) for name in _APPENDING}
    return replace_all([Replaced(kind, name, method) for name, method in changed.items()])


def _after_all(append: Callable[..., None]) -> Callable[..., None]:
    """Wrap `append`, an `Output` method that adds to `outputs`, to show earlier output before."""

    @wraps(append)
    def appended(self: Any, *given: Any, **options: Any) -> None:
        show_now(self)
        append(self, *given, **options)

    return appended


def _has_kernel() -> bool:
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
