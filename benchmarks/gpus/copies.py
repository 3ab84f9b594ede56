"""Copies between host and GPU: through staging buffers, alone and in a session, next to plain copies."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from benchmarks.gpus import data
from benchmarks.gpus.ceilings import WORDS, pinned_array, pinned_copy
from benchmarks.gpus.stand import GIB, KIB, MIB, size_text
from disco_magic.devices import pinned, staging
from disco_magic.devices.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.gpus.stand import Stand

TARGET = 0.85
LEAST_FOR_TARGET = 64 * MIB


def measure(stand: Stand) -> None:
    """Measure both directions and several sizes, with pageable and pinned host memory."""
    sizes = stand.effort.pick(
        [MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB], [MIB, 64 * MIB], [64 * KIB, 5 * MIB]
    )
    from disco_magic import ThreadedSession

    with ThreadedSession(1, devices=[0]) as session:
        for nbytes in sizes:
            _Size(stand, session, nbytes).measure()


class _Size:
    """All measurements of one size."""

    def __init__(self, stand: Stand, session: Any, nbytes: int) -> None:
        self.stand, self.session, self.nbytes = stand, session, nbytes
        self.hosts = {"pageable": data.noise(nbytes), "pinned": pinned_array(stand.cupy, nbytes)}
        self.hosts["pinned"][...] = self.hosts["pageable"]
        self.device = stand.cupy.asarray(self.hosts["pageable"])
        self.remote = session.copy_to_worker_0(self.hosts["pageable"])
        self.staging = Staging(stand.cupy, stand.stream, stand.cupy.cuda.Device())

    def measure(self) -> None:
        """Measure plain copies, staging alone, and copies through a session."""
        for direction in ("to", "from"):
            pinned_copy(self.stand, direction, self.device, self.hosts["pinned"], self.nbytes)
            for kind, host in self.hosts.items():
                self._tell(direction, kind, "buffers", self.stand.by_events(self._staged(direction, host)))
                self._tell(direction, kind, "session", self.stand.by_clock(self._called(direction, host)))
        back = np.zeros(self.nbytes, np.uint8)
        self.session.copy_from_worker_0(back, self.remote)
        if not (back == self.hosts["pageable"]).all():
            raise RuntimeError(f"{size_text(self.nbytes)} came back changed")

    def _staged(self, direction: str, host: Any) -> Callable[[int], object]:
        if direction == "to":
            return lambda _: self.staging.upload(self.device, host)
        return lambda _: self.staging.download(host, self.device)

    def _called(self, direction: str, host: Any) -> Callable[[int], object]:
        verb = self.session.copy_to_worker_0 if direction == "to" else self.session.copy_from_worker_0
        call = partial(verb, host, self.remote)
        return lambda _: call()

    def _tell(self, direction: str, kind: str, way: str, seconds: list[float]) -> None:
        what = f"{WORDS[direction]}, {size_text(self.nbytes)}: {kind}, "
        what += "staging alone" if way == "buffers" else "copy_to_worker_0"
        if way == "session" and direction == "from":
            what = what.replace("_to_", "_from_")
        self.stand.tell(
            f"{direction}.{self.nbytes}.{way}.{kind}",
            what,
            seconds,
            self.nbytes,
            against=f"{direction}.{self.nbytes}.plain",
            least_share=TARGET if way == "session" and self.nbytes >= LEAST_FOR_TARGET else None,
        )


# --- which chunks, buffers and threads ---------------------------------------------------------------


@contextmanager
def tuned(chunk: int, buffers: int, width: int) -> Iterator[None]:
    """Run staging with these numbers instead of the shipped ones, and with its own helper threads."""
    helpers: SimpleQueue[Any] = SimpleQueue()
    threads = [threading.Thread(target=pinned.help_with, args=(helpers,)) for _ in range(1, width)]
    for thread in threads:
        thread.start()
    with (
        patch.multiple(staging, CHUNK_NBYTES=chunk, LEAST_NBYTES=chunk),
        patch.multiple(pinned, BUFFERS=buffers, THREADS=width, wanted_help=lambda: helpers),
    ):
        try:
            yield
        finally:
            for _ in threads:
                helpers.put(None)
            for thread in threads:
                thread.join()


def tune(stand: Stand) -> None:
    """Measure every combination, for pageable memory and one size; the row with the least time is best."""
    nbytes = stand.effort.pick(256 * MIB, 64 * MIB, 5 * MIB)
    cores = os.cpu_count() or 2
    chunks = stand.effort.pick([MIB // 2, MIB, 2 * MIB, 4 * MIB, 8 * MIB], [MIB, 4 * MIB], [MIB])
    buffers = stand.effort.pick([2, 3], [2], [2])
    widths = [n for n in stand.effort.pick([1, 2, 4, 6, 8, 12, 16], [2, 8], [2]) if n <= cores]
    host, straight = data.noise(nbytes), pinned_array(stand.cupy, nbytes)
    device = stand.cupy.asarray(host)
    for direction in ("to", "from"):
        pinned_copy(stand, direction, device, straight, nbytes)
    stand.effort = replace(stand.effort, fewest=min(5, stand.effort.fewest), figure_s=0.0)
    for chunk, count, width in product(chunks, buffers, widths):
        with tuned(chunk, count, width):
            made = Staging(stand.cupy, stand.stream, stand.cupy.cuda.Device())
            ends = {"to": made.upload, "from": made.download}
            for direction, function in ends.items():
                arguments = (device, host) if direction == "to" else (host, device)
                seconds = stand.by_events(lambda _, f=function, a=arguments: f(*a))  # type: ignore[misc]
                stand.tell(
                    f"{direction}.{nbytes}.{chunk}.{count}.{width}",
                    f"{WORDS[direction]}: chunks of {size_text(chunk)}, {width} threads, {count} buffers",
                    seconds,
                    nbytes,
                    against=f"{direction}.{nbytes}.plain",
                    notes={"chunk": chunk, "buffers": count, "threads": width, "direction": direction},
                )
