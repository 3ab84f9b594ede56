"""Reads a line from a terminal in such a way that an interrupt ends the wait.

`input` would stay in C code until the user presses Enter: the thread would be given up, and would then steal
the first line typed at IPython's prompt.
"""

from __future__ import annotations

import os
import select
import sys
from typing import Final

from disco_magic.isolation.streams import unwrapped
from disco_magic.notebook.output.footer import FOOTER

_LOOK_UP_S: Final = 0.1
_MOST: Final = 1 << 16


def read_line(prompt: str) -> str:
    """Show `prompt` and read a line; return it without its end."""
    keyboard = sys.stdin.fileno()
    moves = os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    if not moves:
        _write(prompt)
    line = b""
    try:
        with FOOTER.aside(_write, prompt if moves else ""):
            _await_input(keyboard)
            # The terminal delivers whole lines.
            line = os.read(keyboard, _MOST)
    finally:
        if not line.endswith(b"\n"):
            _write("\n")
    if not line:
        raise EOFError
    return line.decode(sys.stdin.encoding, "replace").rstrip("\n")


def _await_input(keyboard: int) -> None:
    while not select.select([keyboard], [], [], _LOOK_UP_S)[0]:
        pass


def read_secret(prompt: str) -> str:
    """Like `read_line`, without showing the typed text."""
    import termios

    keyboard = sys.stdin.fileno()
    shown = termios.tcgetattr(keyboard)
    hidden = [*shown[:3], (shown[3] & ~termios.ECHO) | termios.ECHONL, *shown[4:]]
    try:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, hidden)
        return read_line(prompt)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, shown)


def _write(text: str) -> None:
    screen = unwrapped(sys.stdout)
    screen.write(text)
    screen.flush()
