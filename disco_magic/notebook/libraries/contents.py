"""The contents of an `Output` widget of ipywidgets, shared by all blocks and workers that write into it.

A widget's state is sent as a whole whenever it changes. So frequent output is collected, the longer the more
there is; at the end of a cell everything is sent.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

from disco_magic.notebook.later import LATER
from disco_magic.notebook.output.arrange import display_id
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from disco_magic.notebook.output.sink import Sink

SHOW_EVERY_S: Final = 0.1
"""How long output is collected: each update sends the whole state, and ZeroMQ drops messages when there are
thousands, even the cell's own."""

_SHARE: Final = 10  # at most a tenth of the time is spent on sending
_AT_ONCE: Final = 10  # block ends per second that are shown without delay

_CHANNELS: Final = ("stdout", "stderr")
# One lock for all widgets, because a block of one widget may update a display in another. Observers run
# while it is held.
_lock: Final = new_rlock()

Output = dict[str, Any]


class Contents:
    """The outputs of one widget, and those that are still to be shown in it.

    Changes that others make to the widget (``append_stdout``, ``outputs = ()``) are kept.

    Attributes:
        lock: an RLock, held around every call.
        writers: sinks that write into it, whose blocks have not ended.
    """

    lock: Final = _lock

    def __init__(self, out: Any) -> None:
        self.writers: WeakKeyDictionary[Sink, None] = WeakKeyDictionary()
        self._out = ref(out)
        self._base: list[Output] = []  # the outputs in the widget
        self._given: object = None  # the tuple that we set; another one was set by others
        self._unfinished: list[Output] = []  # the unfinished lines in `_base`
        self._new: list[Output] = []  # outputs not yet in the widget; text in parts
        self._displays: dict[object, Output] = {}  # displays that can be updated, by id
        self._clears = False  # whether to clear before the next output
        self._shown_s: deque[float] = deque(maxlen=_AT_ONCE)
        self._pause_s = SHOW_EVERY_S
        self._due: object = None  # marks the call that shows what is new; None: there is none

    def add_text(self, channel: str, text: str) -> None:
        """Add whole lines of a stream."""
        self._begin()
        last = self._new[-1] if self._new else {}
        if last.get("output_type") == "stream" and last["name"] == channel:
            last["text"].append(text)
        else:
            self._new.append({"output_type": "stream", "name": channel, "text": [text]})
        self.show()

    def add(self, output: Output, known: object = None) -> None:
        """Add a display or an error; `known`: the id by which it can be updated."""
        self._begin()
        self._new.append(output)
        if known is not None:
            self._displays[known] = output
            _holders[str(known)] = self
        self.show()

    def update(self, known: object, output: Output) -> bool:
        """Replace the display with that id by `output`; return whether there is one."""
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
        """Clear everything, now or before the next output."""
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
        """Take over changes that others have made to the widget's state."""
        out = self._out()
        if out is not None and out.outputs is not self._given:
            self._given = out.outputs
            ours = set(map(id, self._unfinished))
            self._base = [each for each in out.outputs if id(each) not in ours]

    def show(self) -> None:
        """Show the outputs soon."""
        if self._due is not None:
            return
        wait_s = self._shown_s[-1] + self._pause_s - time.monotonic() if self._shown_s else 0
        if wait_s <= 0:
            self.put()
            return
        mark = object()
        _waiting.add(self)
        LATER.call(wait_s, partial(self._put_if_due, mark))
        self._due = mark  # last: an interrupt may strike before

    def show_end(self) -> None:
        """Show the end of a block: at once, unless many blocks end in short succession."""
        many = len(self._shown_s) == _AT_ONCE and time.monotonic() - self._shown_s[0] < 1
        if many:
            self.show()
        else:
            self.put()

    def _put_if_due(self, mark: object) -> None:
        with self.lock:
            if self._due is mark:  # not if it was shown meanwhile
                self.put()

    def put(self) -> None:
        """Put all outputs into the widget."""
        self._due = None
        _waiting.discard(self)
        out = self._out()
        if out is None:
            return
        began = time.monotonic()
        self._shown_s.append(began)  # first, because writers may write now, which should wait
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
        self._pause_s = max(SHOW_EVERY_S, _SHARE * (time.monotonic() - began))

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
    """The `Contents` of a widget, always the same object."""
    with _lock:
        found = _contents.get(out)
        if found is None:
            found = _contents[out] = Contents(out)
        return found


def show_now(out: Any) -> None:
    """Put collected output into a widget, before others add to it."""
    with _lock:
        found = _contents.get(out)
        if found is not None:
            found.put()


def as_output(data: dict[str, Any], kwargs: dict[str, Any]) -> Output:
    """The output of ``publish(data, **kwargs)`` in the form of a notebook's file, with images as text."""
    from ipykernel.jsonutil import encode_images, json_clean

    as_text: Any = encode_images
    cleaned: Any = json_clean
    return {
        "output_type": "display_data",
        "data": cleaned(as_text(dict(data))),
        "metadata": kwargs.get("metadata") or {},
    }


def updated(data: dict[str, Any], kwargs: dict[str, Any]) -> bool:
    """If ``publish(data, **kwargs)`` updates a display in a widget, do that; return whether it does."""
    known = display_id(kwargs) if kwargs.get("update") else None
    found = None if known is None else _holders.get(str(known))
    if found is None:
        return False
    with found.lock:
        return found.update(known, as_output(data, kwargs))


def show_all() -> None:
    """Show all collected output, at the end of a cell."""
    if not _waiting:
        return
    with _lock:
        for contents in list(_waiting):
            contents.put()
