"""A look at all elements of large arrays: in a thread of its own, with a bar, and a button that ends it."""

from __future__ import annotations

import threading
from html import escape
from typing import TYPE_CHECKING, Final

import ipywidgets as widgets

from disco_magic.errors import DiscoError, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    # Called with the share that is done, 0 to 1; says whether to go on.
    Share = Callable[[float], bool]

PATIENCE_S: Final = 1.0
"""A part of an array takes some 10 ms; a value's own ``__repr__`` may never end, and is left to itself."""

_STEPS: Final = 100


class LongLook:
    """Makes HTML that takes a while, one piece at a time.

    Args:
        show: takes the HTML, and the sentence that stands there meanwhile.

    Attributes:
        box: the bar and the button; hidden while nothing is being made.

    Threads: `start` and `stop` come from any thread, one at a time; `show` is called from the thread
    that makes the HTML, and from that of `start`.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._bar = widgets.IntProgress(min=0, max=_STEPS, description="reading")
        button = widgets.Button(
            description="Stop reading", layout=widgets.Layout(width="auto"), tooltip="leave it at that"
        )
        button.on_click(lambda _: self._ending.set())
        self.box = widgets.HBox([self._bar, button], layout=widgets.Layout(display="none"))

    def start(self, make: Callable[[Share], str]) -> None:
        """Make HTML by ``make(share)``, which reports how far it is; what was being made is given up."""
        self.stop()
        self._ending = ending = threading.Event()
        self._bar.value = 0
        self.box.layout.display = None
        self._show("<div>reading \u2026</div>")
        self._thread = threading.Thread(
            target=self._run, args=(make, ending), name="disco-long-look", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Give up what is being made: nothing of it is shown. Waits a moment, in which a part is read."""
        thread, self._thread = self._thread, None
        self._ending.set()
        self.box.layout.display = "none"
        if thread is not None and thread is not threading.current_thread():
            thread.join(PATIENCE_S)

    def _run(self, make: Callable[[Share], str], ending: threading.Event) -> None:
        def share(done: float) -> bool:
            if ending.is_set():  # the bar may be another look's by now
                return False
            step = int(done * _STEPS)
            if step != self._bar.value:  # a message for each per cent, not for each part
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
            self.box.layout.display = "none"
            self._show(html)
