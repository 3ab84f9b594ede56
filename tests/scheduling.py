"""Which process of a run gets which tests."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

BROWSER = "tests/browser/"


class OneBrowser(LoadFileScheduling):
    """Files to processes, those of the browser all to one: JupyterLab and a browser start once."""

    def _split_scope(self, nodeid):
        return BROWSER if nodeid.startswith(BROWSER) else super()._split_scope(nodeid)
