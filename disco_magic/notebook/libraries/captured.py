"""``with out:`` of an ipywidgets `Output` on a worker: what this worker writes goes into it, and no other's.

ipywidgets asks the front end to put everything into the widget that belongs to the request of the cell. On
several workers that is also what the others write and display, and what one worker's `interact` clears. So
on workers a sink of our own fills `Output.outputs`, as `append_stdout` does.

What a widget's callback does later, when a slider is moved, is done by the kernel's main thread, as ever.
"""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors import class_name, words
from disco_magic.functions.tracebacks import error_text, own_frames
from disco_magic.notebook.output.sink import Sink
from disco_magic.notebook.output.streams import current_sink, use_sink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from disco_magic.notebook.output.arrange import Item

SHOW_EVERY_S: Final = 0.1
"""How long output may wait for more: each time all that the widget holds is sent again, and of messages by
the thousand ZeroMQ drops some, the cell's own among them."""

_CHANNELS: Final = ("stdout", "stderr")


class Capture:
    """Where a worker's sink writes within ``with out:``; see `sink.Screen`.

    Args:
        out: the widget.
        below: where the worker wrote before.
    """

    finished: frozenset[int] = frozenset()

    def __init__(self, out: Any, below: Sink, clock: Callable[[], float] = time.monotonic) -> None:
        self.lock = threading.RLock()
        self.out = out
        self.below = below
        self.sink = Sink(below.worker, self)
        self.sink.home = below.home
        self._clock = clock
        self._kept: list[dict[str, Any]] = list(out.outputs)
        self._ids: list[object] = [None] * len(self._kept)  # of displays that can be updated, in their places
        self._clears = False  # before the next output
        self._shown_s = float("-inf")
        self._later: threading.Timer | None = None

    def lines(self, _worker: int, channel: str, lines: Sequence[str]) -> None:
        """See `Screen`."""
        text = "".join(f"{line}\n" for line in lines)
        self._begin()
        last = self._kept[-1] if self._kept else {}
        if last.get("output_type") == "stream" and last.get("name") == channel:
            self._kept[-1] = {**last, "text": last["text"] + text}
        else:
            self._add({"output_type": "stream", "name": channel, "text": text})
        self._show()

    def touch(self, _sink: Sink) -> None:
        """See `Screen`."""
        self._show()

    def display(
        self, _worker: int, publish: Callable[..., Any], data: dict[str, Any], kwargs: dict[str, Any]
    ) -> None:
        """See `Screen`."""
        known = (kwargs.get("transient") or {}).get("display_id")
        output = {
            "output_type": "display_data",
            "data": _as_json(data),
            "metadata": kwargs.get("metadata") or {},
        }
        if not kwargs.get("update"):
            self._begin()
            self._add(output, known)
        elif known in self._ids:
            self._kept[self._ids.index(known)] = output
        else:  # it stands in the cell
            publish(data, **kwargs)
        self._show()

    def pictures(self, worker: int, pictures: Sequence[Item]) -> None:
        """See `Screen`."""
        for picture in pictures:
            if picture.publish is not None:
                self.display(worker, picture.publish, picture.data, picture.kwargs)

    def clear(self, _worker: int, _clear: Callable[..., Any], *, wait: bool) -> None:
        """See `Screen`; the widget is this worker's own."""
        self._clears = True
        if not wait:
            self._begin()
            self._show()

    def shows(self, _worker: int) -> bool:
        """See `Screen`."""
        return self.below.is_shown

    def finish(self, _worker: int) -> None:
        """See `Screen`: show what has waited."""
        self._put()

    def fail(self, error: BaseException) -> None:
        """Show an error that ends the block."""
        BaseException.with_traceback(error, own_frames(error))
        with self.lock:
            self.sink.finish()
            name, text = class_name(error), error_text(error)
            self._begin()
            self._add({"output_type": "error", "ename": name, "evalue": words(error), "traceback": [text]})
            self._put()

    def _begin(self) -> None:
        if self._clears:
            self._clears = False
            self._kept.clear()
            self._ids.clear()

    def _add(self, output: dict[str, Any], known: object = None) -> None:
        self._kept.append(output)
        self._ids.append(known)

    def _show(self) -> None:
        if self._later is not None:
            return
        wait_s = self._shown_s + SHOW_EVERY_S - self._clock()
        if wait_s <= 0:
            self._put()
            return
        self._later = threading.Timer(wait_s, self._put_later)
        self._later.daemon = True
        self._later.start()

    def _put_later(self) -> None:
        with self.lock:
            if self._later is threading.current_thread():  # else the block has ended
                self._put()

    def _put(self) -> None:
        """Give the widget what there is, bars and unfinished lines as they stand."""
        if self._later is not None:
            self._later.cancel()
        if self.below.is_given_up:
            return
        self._shown_s, self._later = self._clock(), None
        rows = self.sink.shown(_CHANNELS)
        unfinished = [{"output_type": "stream", "name": "stdout", "text": "\n".join(rows)}] if rows else []
        self.out.outputs = (*self._kept, *unfinished)


def _as_json(data: dict[str, Any]) -> Any:
    """A MIME bundle as it travels: images as text."""
    from ipykernel.jsonutil import encode_images, json_clean

    as_text: Any = encode_images
    cleaned: Any = json_clean
    return cleaned(as_text(dict(data)))


_open: ContextVar[tuple[Capture, ...]] = ContextVar("disco_magic_captures", default=())
"""The blocks that the calling worker is in."""


def fit_output(module: ModuleType) -> Callable[[], None]:
    """Let `Output`, which `module` has, capture what one worker writes."""
    kind = module.Output
    enter, leave = kind.__enter__, kind.__exit__

    @wraps(enter)
    def entered(self: Any) -> Any:
        below = current_sink.get()
        if below is None or not _has_kernel():
            return enter(self)
        capture = Capture(self, below)
        _open.set((*_open.get(), capture))
        use_sink(capture.sink)
        return None

    @wraps(leave)
    def left(self: Any, kind_of: Any, error: BaseException | None, trace: Any) -> bool | None:
        opened = _open.get()
        if not opened or opened[-1].out is not self:
            shown: bool | None = leave(self, kind_of, error, trace)
            return shown
        capture = opened[-1]
        _open.set(opened[:-1])
        use_sink(capture.below)
        # As in a plain cell: it is shown in the widget, and the cell goes on; not what stops the cell.
        if not isinstance(error, Exception):
            capture.sink.finish()
            return None
        capture.fail(error)
        return True

    kind.__enter__, kind.__exit__ = entered, left

    def undo() -> None:
        if kind.__enter__ is entered and kind.__exit__ is left:
            kind.__enter__, kind.__exit__ = enter, leave

    return undo


def _has_kernel() -> bool:
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
