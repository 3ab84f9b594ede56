"""Conformance checks: run your own implementation of a contract through the tests of ours."""

from __future__ import annotations

from disco_magic.testing.plane import PLANE_CHECKS, check_plane

__all__ = ["PLANE_CHECKS", "check_plane"]
