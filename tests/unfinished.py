"""What a program writes to stderr when it ends in the middle of a session's work."""

from __future__ import annotations

import re

_SAID = re.compile(
    r"the program has ended, and what was not done by then is stopped: (.*?)\n"
    r"session\.sync_all\(\) waits for it, and so does a handle's wait\(\)\n",
    re.DOTALL,
)


def apart(written):
    """What is said of each session that was in the middle of something, and what is written besides."""
    return _SAID.findall(written), _SAID.sub("", written)
