"""What is in an `Output` widget of ipywidgets: one per widget, whoever writes into it in whichever block.

A widget's state is sent as a whole whenever it changes. So what comes quickly waits for more, the longer the
more there is; a cell that ends lets nothing wait.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

from disco_magic.locks import new_rlock
from disco_magic.notebook.output.arrange import display_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHOW_EVERY_S: Final = 0.1
"""How long output may wait for more: each time all that the widget holds is sent again, and of messages by
the thousand ZeroMQ drops some, the cell's own among them."""

_SHARE: Final = 10  # of the time at most a tenth is spent on sending
_AT_ONCE: Final = 10  # blocks whose ends are shown without waiting, in a second

_CHANNELS: Final = ("stdout", "stderr")
# One for all: a block of one widget may update what another one displays. Setting a widget's state runs its
# observers, within it.
_lock: Final = new_rlock()

Output = dict[str, Any]


class Writer(Protocol):
    """Who writes into a widget: a `Sink`."""

    def shown(self, channels: Sequence[str], /) -> list[str]:
        """Its lines that go on, as they stand; what has become whole lines is written now."""


class Contents:
    """The outputs of one widget, and what is still to be shown in it.

    What others have put into the widget meanwhile (``append_stdout``, ``outputs = ()``) is left there.

    Args:
        out: the widget; not kept alive.

    Attributes:
        lock: an RLock, held around every call.
        writers: those whose blocks have not ended.
    """

    lock: Final = _lock

    def __init__(self, out: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self.writers: WeakKeyDictionary[Writer, None] = WeakKeyDictionary()
        self._out = ref(out)
        self._clock = clock
        self._base: list[Output] = []  # what the widget has
        self._given: object = None  # the tuple that it has it in; another one is somebody else's
        self._unfinished: list[Output] = []  # of that, the lines that go on
        self._new: list[Output] = []  # what it has not got yet; text in parts
        self._displays: dict[object, Output] = {}  # those that can be updated, by their ids
        self._clears = False  # before the next output
        self._shown_s: deque[float] = deque(maxlen=_AT_ONCE)
        self._pause_s = SHOW_EVERY_S
        self._later: threading.Timer | None = None

    def add_text(self, channel: str, text: str) -> None:
        """Whole lines of a stream."""
        self._begin()
        last = self._new[-1] if self._new else {}
        if last.get("output_type") == "stream" and last["name"] == channel:
            last["text"].append(text)
        else:
            self._new.append({"output_type": "stream", "name": channel, "text": [text]})
        self.show()

    def add(self, output: Output, known: object = None) -> None:
        """A display or an error; `known`: the id by which it can be updated."""
        self._begin()
        self._new.append(output)
        if known is not None:
            self._displays[known] = output
            _holders[str(known)] = self
        self.show()

    def update(self, known: object, output: Output) -> bool:
        """Whether there is a display of that id, which is `output` now."""
        self._look()
        old = self._displays.get(known)
        for place in (self._base, self._new):
            for at, each in enumerate(place):
                if each is old:
                    place[at] = self._displays[known] = output
                    self.show()
                    return True
        return False

    def clear(self, *, wait: bool) -> None:
        """Forget everything, now or before the next output."""
        self._clears = True
        if not wait:
            self._begin()
            self.show()

    def _begin(self) -> None:
        if self._clears:
            self._clears = False
            self._look()
            self._base, self._new, self._displays = [], [], {}

    def _look(self) -> None:
        """Take over what others have made of the widget's state."""
        out = self._out()
        if out is not None and out.outputs is not self._given:
            self._given = out.outputs
            ours = set(map(id, self._unfinished))
            self._base = [each for each in out.outputs if id(each) not in ours]

    def show(self) -> None:
        """Show what there is, soon."""
        if self._later is not None:
            return
        wait_s = self._shown_s[-1] + self._pause_s - self._clock() if self._shown_s else 0
        if wait_s <= 0:
            self.put()
            return
        self._later = threading.Timer(wait_s, self._put_later)
        self._later.daemon = True
        _waiting.add(self)
        Context().run(self._later.start)  # it shows what all have written

    def show_end(self) -> None:
        """Show the end of a block: at once, unless many of them follow each other."""
        many = len(self._shown_s) == _AT_ONCE and self._clock() - self._shown_s[0] < 1
        if many:
            self.show()
        else:
            self.put()

    def _put_later(self) -> None:
        with self.lock:
            if self._later is threading.current_thread():  # else it was shown meanwhile
                self.put()

    def put(self) -> None:
        """Give the widget what there is."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        _waiting.discard(self)
        out = self._out()
        if out is None:
            return
        began = self._clock()
        self._shown_s.append(began)  # first: writers may write now, which is to wait
        rows = [row for writer in list(self.writers) for row in writer.shown(_CHANNELS)]
        self._look()
        new, self._new = self._new, []
        for each in new:
            self._append(each)
        self._unfinished = (
            [{"output_type": "stream", "name": "stdout", "text": "\n".join(rows)}] if rows else []
        )
        out.outputs = (*self._base, *self._unfinished)
        self._given = out.outputs
        self._pause_s = max(SHOW_EVERY_S, _SHARE * (self._clock() - began))

    def _append(self, output: Output) -> None:
        if output["output_type"] != "stream":
            self._base.append(output)
            return
        text, last = "".join(output["text"]), self._base[-1] if self._base else {}
        if last.get("output_type") == "stream" and last.get("name") == output["name"]:
            self._base[-1] = {**last, "text": last["text"] + text}
        else:
            self._base.append({**output, "text": text})


_contents: WeakKeyDictionary[Any, Contents] = WeakKeyDictionary()
_holders: WeakValueDictionary[str, Contents] = WeakValueDictionary()
_waiting: WeakSet[Contents] = WeakSet()


def contents_of(out: Any) -> Contents:
    """Those of a widget, always the same."""
    with _lock:
        found = _contents.get(out)
        if found is None:
            found = _contents[out] = Contents(out)
        return found


def show_now(out: Any) -> None:
    """Let a widget have what waits for more, before somebody else adds to it."""
    with _lock:
        found = _contents.get(out)
        if found is not None:
            found.put()


def as_output(data: dict[str, Any], kwargs: dict[str, Any]) -> Output:
    """What ``publish(data, **kwargs)`` shows, as a notebook's file has it: images as text."""
    from ipykernel.jsonutil import encode_images, json_clean

    as_text: Any = encode_images
    cleaned: Any = json_clean
    return {
        "output_type": "display_data",
        "data": cleaned(as_text(dict(data))),
        "metadata": kwargs.get("metadata") or {},
    }


def updated(data: dict[str, Any], kwargs: dict[str, Any]) -> bool:
    """Whether ``publish(data, **kwargs)`` updates a display in a widget, which has been done then."""
    known = display_id(kwargs) if kwargs.get("update") else None
    found = None if known is None else _holders.get(str(known))
    if found is None:
        return False
    with found.lock:
        return found.update(known, as_output(data, kwargs))


def show_all() -> None:
    """Let nothing wait any more: the cell has ended."""
    for contents in list(_waiting):
        with contents.lock:
            contents.put()
