"""Which process of a run gets which tests, and when."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

BROWSER = "tests/browser/"
# What takes longest: begun late, it would be alone at the end, on one of all the cores.
LONG = (BROWSER, "tests/test_gpu_rehearsal.py")


def long_ones_first(items):
    """Reorder tests in place."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


class OneBrowser(LoadFileScheduling):
    """Files to processes, those of the browser all to one: JupyterLab and a browser start once."""

    def _split_scope(self, nodeid):
        return BROWSER if nodeid.startswith(BROWSER) else super()._split_scope(nodeid)
