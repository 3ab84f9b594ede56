"""Conformance checks: run your own implementation of a contract through the checks that ours pass."""

from __future__ import annotations

from disco_magic.testing.channel import CHANNEL_CHECKS, check_channel
from disco_magic.testing.launcher import LAUNCHER_CHECKS, check_launcher
from disco_magic.testing.plane import PLANE_CHECKS, check_plane

__all__ = [
    "CHANNEL_CHECKS",
    "LAUNCHER_CHECKS",
    "PLANE_CHECKS",
    "check_channel",
    "check_launcher",
    "check_plane",
]
