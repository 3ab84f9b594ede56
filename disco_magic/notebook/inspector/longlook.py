"""Looks at all elements of large arrays in a separate thread, with a progress bar and a stop button."""

from __future__ import annotations

import threading
from html import escape
from typing import TYPE_CHECKING, Final

import ipywidgets as widgets

from disco_magic.errors import DiscoError, Stopped
from disco_magic.notebook.live.controls import button

if TYPE_CHECKING:
    from collections.abc import Callable

    # Called with the finished share, 0 to 1; returns whether to go on.
    Share = Callable[[float], bool]

PATIENCE_S: Final = 1.0
"""How long `stop` waits. A part of an array takes about 10 ms; a value's ``__repr__`` may never end."""

_STEPS: Final = 100


class LongLook:
    """Makes HTML that takes a while, one at a time.

    Threads: `start` and `stop` may be called from any thread, one at a time; `show` is called from the thread
    that makes the HTML, and from that of `start`.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._reading = False
        self._bar = widgets.IntProgress(min=0, max=_STEPS, description="reading")
        stop = button("Stop reading", "leave it at that")
        stop.on_click(lambda _: self._ending.set())
        self.box = widgets.HBox([self._bar, stop], layout=widgets.Layout(display="none"))

    def start(self, make: Callable[[Share], str]) -> None:
        """Start ``make(share)``, which reports its progress by calling `share`; stop an earlier one."""
        self.stop()
        self._ending = ending = threading.Event()
        self._bar.value = 0
        self.box.layout.display = None
        self._show("<div>reading \u2026</div>")
        self._reading = True
        self._thread = threading.Thread(
            target=self._run, args=(make, ending), name="disco-long-look", daemon=True
        )
        self._thread.start()

    def stop(self) -> bool:
        """Stop, and show nothing of it; return whether there was something to stop.

        Waits a moment for the current part to be read.
        """
        thread, self._thread = self._thread, None
        self._ending.set()
        self.box.layout.display = "none"
        if thread is not None and thread is not threading.current_thread():
            thread.join(PATIENCE_S)
        stopped, self._reading = self._reading, False
        return stopped

    def _run(self, make: Callable[[Share], str], ending: threading.Event) -> None:
        def share(done: float) -> bool:
            if ending.is_set():  # the bar may belong to another look by now
                return False
            step = int(done * _STEPS)
            if step != self._bar.value:  # one message per percent, not per part
                self._bar.value = step
            return not ending.is_set()

        try:
            html = make(share)
        except Stopped:
            html = "<div>stopped before all elements were read</div>"
        except DiscoError as error:
            html = f"<div>{escape(str(error))}</div>"
        except Exception as error:  # noqa: BLE001 - nobody else would see a bug of ours in this thread
            html = f"<div>\u26a0 {escape(type(error).__name__)}: {escape(str(error))}</div>"
        if self._thread is threading.current_thread():
            self._reading = False
            self.box.layout.display = "none"
            self._show(html)
