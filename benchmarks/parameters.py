"""Loading parameters: ours on thread workers, beside a plain read and a plain copy of the same bytes.

``python -m benchmarks.parameters [--mib 256] [--workers 4] [--rounds 3] [--repeat 5]``

A safetensors file and a TVM parameter folder of float32 tensors are written to a temporary folder, once. Each
way to load them runs in a process of its own, round after round. The files are in the page cache: what is
measured is the loading, not the disk.

Memory is measured in a further process per way, because tracing slows it down: `tracemalloc` sees every
array that NumPy allocates, in all threads. Its peak during the load, less what is held afterwards (all workers'
parts), is what the workers together, and so worker 0, needed at some moment beyond their parts. The process's
VmHWM is no measure of it: pages of a mapped file count there, though the kernel takes them back when it likes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.row import quantity, spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic import ThreadedSession

SHAPE = (1024, 1024)
TENSOR_NBYTES = 4 * SHAPE[0] * SHAPE[1]
SAFETENSORS, LISTING, BINARY = "model.safetensors", "tensor-cache.json", "params_shard_0.bin"


class Way(NamedTuple):
    """A row: what it is, how often the file's bytes are delivered, and what runs between start and stop."""

    title: str
    copies: Callable[[int], int]
    make: Callable[[ThreadedSession, Path], Callable[[], object]]


# --- files -----------------------------------------------------------------------------------------


def write_files(folder: Path, mib: int) -> int:
    """The same tensors in both formats; their number."""
    count = max(1, mib * 2**20 // TENSOR_NBYTES)
    rng = np.random.default_rng(0)
    names = [f"param_{number}" for number in range(count)]
    spans = [(number * TENSOR_NBYTES, (number + 1) * TENSOR_NBYTES) for number in range(count)]
    header = {
        name: {"dtype": "F32", "shape": SHAPE, "data_offsets": span}
        for name, span in zip(names, spans, strict=True)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    md5 = hashlib.md5(usedforsecurity=False)
    with (folder / SAFETENSORS).open("wb") as single, (folder / BINARY).open("wb") as shard:
        single.write(struct.pack("<Q", len(text)) + text)
        for _ in names:
            data = rng.random(SHAPE, "float32").tobytes()
            single.write(data)
            shard.write(data)
            md5.update(data)
    (folder / LISTING).write_text(json.dumps(listing(names, spans, md5.hexdigest())))
    return count


def listing(names: list[str], spans: list[tuple[int, int]], md5: str) -> dict[str, Any]:
    """The content of ``tensor-cache.json``."""
    records = [
        {
            "name": name,
            "shape": SHAPE,
            "dtype": "float32",
            "format": "raw",
            "nbytes": end - start,
            "byteOffset": start,
        }
        for name, (start, end) in zip(names, spans, strict=True)
    ]
    file = {"dataPath": BINARY, "format": "raw-shard", "nbytes": spans[-1][1], "records": records}
    return {"metadata": {}, "records": [file | {"md5sum": md5}]}


# --- ways to load them -----------------------------------------------------------------------------


def split(session: ThreadedSession, folder: Path, axis: int | None, verb: str) -> Callable[[], object]:
    """A load of every tensor, split along an axis or not at all."""
    from disco_magic.loader.plan import Shard

    plan = {} if axis is None else {"*": Shard(axis)}
    if verb == "load_safetensors":
        return partial(session.load_safetensors, folder / SAFETENSORS, plan)
    return partial(session.load_tensor_cache, folder, plan, check_md5=False)


def shard_loader(
    session: ThreadedSession, folder: Path, *, cut: bool = True, check_md5: bool = False
) -> Callable[[], object]:
    """Disco's way: worker 0 reads, a function cuts, the parts are scattered; without one, it is a broadcast."""
    from disco_magic import register_func

    count = session.num_workers
    rows = SHAPE[0] // count

    @register_func("benchmarks.rows", override=True)
    def cut_rows(whole: np.ndarray, out: np.ndarray) -> None:
        np.copyto(out, whole.reshape(out.shape))

    text = (folder / LISTING).read_text()
    step = ["benchmarks.rows", [[count, rows, SHAPE[1]], "float32"]]
    names = [entry["name"] for entry in json.loads(text)["records"][0]["records"]] if cut else []
    info = json.dumps({name: [step] for name in names})

    def load() -> object:
        loader = session.call_packed(
            "runtime.disco.ShardLoader", str(folder / LISTING), text, info, None, check_md5
        )
        loaded = session.call_packed("runtime.disco.ShardLoaderLoadAll", loader)
        session.sync_all()
        return loaded

    return load


def plain_read(_: ThreadedSession, folder: Path) -> Callable[[], object]:
    """One thread reads the file."""
    return partial(np.fromfile, folder / BINARY, np.uint8)


def plain_copy(session: ThreadedSession, folder: Path) -> Callable[[], object]:
    """As many threads as workers each copy their part of an array into fresh memory."""
    parts = np.split(np.fromfile(folder / BINARY, np.uint8), session.num_workers)

    def copy() -> object:
        targets = [np.empty_like(part) for part in parts]
        threads = [threading.Thread(target=np.copyto, args=pair) for pair in zip(targets, parts, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return targets

    return copy


def once(_: int) -> int:
    """Every byte goes to one worker."""
    return 1


def everybody(workers: int) -> int:
    """Every byte goes to every worker."""
    return workers


WAYS = {
    "read": Way("`np.fromfile`, one thread", once, plain_read),
    "copy": Way("`np.copyto` to fresh memory, a thread per worker", once, plain_copy),
    "axis0": Way("load_safetensors, axis 0", once, partial(split, axis=0, verb="load_safetensors")),
    "axis1": Way("load_safetensors, axis 1", once, partial(split, axis=1, verb="load_safetensors")),
    "whole": Way(
        "load_safetensors, replicated", everybody, partial(split, axis=None, verb="load_safetensors")
    ),
    "cache0": Way("load_tensor_cache, axis 0", once, partial(split, axis=0, verb="load_tensor_cache")),
    "shards": Way("ShardLoaderLoadAll, cut along axis 0", once, shard_loader),
    "shards.md5": Way("the same with MD5 sums", once, partial(shard_loader, check_md5=True)),
    "broadcast": Way("ShardLoaderLoadAll, broadcast", everybody, partial(shard_loader, cut=False)),
}


# --- one process -----------------------------------------------------------------------------------


def child(key: str, folder: Path, workers: int, repeat: int) -> None:
    """Load one way and print what it took: seconds per load, or with ``repeat=0`` bytes beyond the parts."""
    from disco_magic import ThreadedSession

    np.fromfile(folder / SAFETENSORS, np.uint8)
    with ThreadedSession(workers) as session:
        load = WAYS[key].make(session, folder)
        load()  # imports, and the first touch of everything
        session.sync_all()
        result = [seconds(load, session) for _ in range(repeat)] or beyond(load, session)
    print(json.dumps(result))


def seconds(load: Callable[[], object], session: ThreadedSession) -> float:
    """One load until all workers have their parts; they are dropped after the clock has stopped."""
    start = perf_counter()
    kept = load()
    taken = perf_counter() - start
    del kept
    session.sync_all()
    return taken


def beyond(load: Callable[[], object], session: ThreadedSession) -> int:
    """Bytes that were allocated at the peak of a load beyond what it leaves."""
    tracemalloc.start()
    kept = load()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    session.sync_all()
    return peak - held


def launch(key: str, folder: Path, workers: int, repeat: int) -> Any:
    """`child` in a fresh process."""
    words = ["--child", key, "--folder", str(folder), "--workers", str(workers), "--repeat", str(repeat)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.parameters", *words],
        stdout=subprocess.PIPE,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    return json.loads(done.stdout)


# --- the table -------------------------------------------------------------------------------------


def compare(folder: Path, workers: int, rounds: int, repeat: int) -> list[tuple[str, ...]]:
    """All ways in turn, round after round; the rows of the table."""
    samples: dict[str, list[float]] = {key: [] for key in WAYS}
    for number in range(rounds):
        for key in WAYS:
            samples[key] += launch(key, folder, workers, repeat)
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    nbytes = (folder / BINARY).stat().st_size
    floor = nbytes / median(samples["read"])
    rows = []
    for key, way in WAYS.items():
        speed = nbytes * way.copies(workers) / median(samples[key])
        peak = f"{launch(key, folder, workers, 0) / 2**20:.1f} MiB"
        ratio = f"{quantity(speed / floor, '')} x"
        rows.append((way.title, spread(samples[key], "ms"), f"{speed / 1e9:.2f}", ratio, peak))
    return rows


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.parameters", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--mib", type=int, default=256, help="size of either file")
    parser.add_argument("--workers", type=int, default=4, help="a divisor of 1024")
    parser.add_argument("--rounds", type=int, default=3, help="processes per way")
    parser.add_argument("--repeat", type=int, default=5, help="loads per process")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.folder, args.workers, args.repeat)
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        count = write_files(Path(name), args.mib)
        rows = compare(Path(name), args.workers, args.rounds, args.repeat)
    head = ("what", "time", "GB/s delivered", "of `np.fromfile`", "peak beyond the parts")
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(f"\n{count} tensors of {TENSOR_NBYTES / 2**20:.0f} MiB, {args.workers} workers\n")
    for row in (head, tuple("-" * width for width in widths), *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
