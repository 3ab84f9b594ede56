"""A notebook that is none: its streams and its publisher record what reaches them."""

from __future__ import annotations

import io
import re

TILE = re.compile(r'(?<=>)([^<>]+)(?=<)|alt="([^"]*)"')


class Stream(io.StringIO):
    """A stream as kernels have them; what is written goes to the log of the notebook it belongs to."""

    def __init__(self, log, name):
        super().__init__()
        self._log, self._name = log, name

    def write(self, text):
        self._log.append((self._name, text))
        return len(text)

    def set_parent(self, parent):
        raise NotImplementedError


class Notebook:
    """A kernel's streams and publisher; `log` has everything in the order in which it came.

    `seen` has what a reader sees in each display: names of workers, lines, and what pictures are called.
    """

    def __init__(self):
        self.log, self.seen = [], []
        self.streams = Stream(self.log, "out"), Stream(self.log, "err")

    def publish(self, data, metadata=None, **kwargs):
        kind = "html" if "text/html" in data else "image"
        self.log.append((f"update {kind}" if kwargs.get("update") else kind, metadata["disco"]["workers"]))
        self.seen.append(["".join(found) for found in TILE.findall(data.get("text/html", ""))])

    def set_parent(self, parent):
        raise NotImplementedError


def show_image(notebook, sink, name="figure", **kwargs):
    data = {"text/plain": name, "image/png": "iVBOR"}
    sink.display(notebook.kernel.publish, data, {"metadata": None, **kwargs})
