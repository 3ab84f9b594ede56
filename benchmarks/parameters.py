"""Measures loading parameters on our thread workers, next to a plain read and copy of the same bytes.

``python -m benchmarks.parameters [--mib 256] [--workers 4] [--rounds 5]``

A safetensors file and a TVM parameter folder with the same float32 tensors are written to a temporary folder.
Every load happens in a process of its own, because memory freed by an earlier load makes the next one faster:
the session starts, a file with one small tensor is loaded, so that everything is imported, then the clock.
The files are in the page cache: the loading is measured, not the disk. Fresh memory is the larger part of it
and, on a virtual machine that gets its memory from the host page by page, the part that varies: read a figure
next to that of the plain copy, and repeat it.

Memory is measured in another process, because that slows a load down: `tracemalloc` sees every array that
NumPy allocates, in all threads. Its peak during the load, less what is held afterwards (all workers' parts),
is what the workers together, and so worker 0, needed at some moment beyond their parts. The process's VmHWM
would mislead: it includes pages of a mapped file, which the kernel reclaims whenever it likes.
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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.row import quantity, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic import ThreadedSession

LARGE, SMALL = (4096, 2048), (64, 4)
SAFETENSORS, LISTING, BINARY = "model.safetensors", "tensor-cache.json", "params_shard_0.bin"


class Way(NamedTuple):
    """A row: its title, how often the file's bytes are delivered, and what runs while the clock does."""

    title: str
    copies: Callable[[int], int]
    make: Callable[[ThreadedSession, Path], Callable[[], object]]


# --- files -----------------------------------------------------------------------------------------


def write_files(folder: Path, count: int, shape: tuple[int, int]) -> None:
    """Write `count` tensors in both formats."""
    nbytes = 4 * shape[0] * shape[1]
    spans = {f"param_{number}": (number * nbytes, (number + 1) * nbytes) for number in range(count)}
    header = {name: {"dtype": "F32", "shape": shape, "data_offsets": span} for name, span in spans.items()}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng, md5 = np.random.default_rng(0), hashlib.md5(usedforsecurity=False)
    folder.mkdir(exist_ok=True)
    with (folder / SAFETENSORS).open("wb") as single, (folder / BINARY).open("wb") as shard:
        single.write(struct.pack("<Q", len(text)) + text)
        for _ in spans:
            data = rng.random(shape, "float32").tobytes()
            single.write(data)
            shard.write(data)
            md5.update(data)
    records = [
        {
            "name": name,
            "shape": shape,
            "dtype": "float32",
            "format": "raw",
            "nbytes": nbytes,
            "byteOffset": start,
        }
        for name, (start, _) in spans.items()
    ]
    file = {"dataPath": BINARY, "format": "raw-shard", "nbytes": count * nbytes, "records": records}
    manifest = {"metadata": {}, "records": [file | {"md5sum": md5.hexdigest()}]}
    (folder / LISTING).write_text(json.dumps(manifest))


# --- ways to load them -----------------------------------------------------------------------------


def split(session: ThreadedSession, folder: Path, axis: int | None, verb: str) -> Callable[[], object]:
    """Prepare a load of every tensor, split along an axis or not at all."""
    from disco_magic.loader.plan import Shard

    plan = {} if axis is None else {"*": Shard(axis)}
    if verb == "load_safetensors":
        return partial(session.load_safetensors, folder / SAFETENSORS, plan, progress=False)
    return partial(session.load_tensor_cache, folder, plan, check_md5=False, progress=False)


def shard_loader(
    session: ThreadedSession, folder: Path, *, functions: Sequence[str] = ("rows",), check_md5: bool = False
) -> Callable[[], object]:
    """Prepare Disco's way: worker 0 reads, functions cut, parts are scattered; without any, a broadcast."""
    from disco_magic import register_func

    @register_func("benchmarks.rows", override=True)
    def cut_rows(whole: np.ndarray, out: np.ndarray) -> None:
        np.copyto(out, whole.reshape(out.shape))

    @register_func("benchmarks.negated", override=True)
    def negate(whole: np.ndarray, out: np.ndarray) -> None:
        np.negative(whole, out=out)

    text, info = (folder / LISTING).read_text(), {}
    for entry in json.loads(text)["records"][0]["records"]:
        rows, columns = entry["shape"]
        shapes = {
            "rows": [session.num_workers, rows // session.num_workers, columns],
            "negated": [rows, columns],
        }
        info[entry["name"]] = [[f"benchmarks.{name}", [shapes[name], "float32"]] for name in functions]

    def load() -> object:
        loader = session.call_packed(
            "runtime.disco.ShardLoader", str(folder / LISTING), text, json.dumps(info), None, check_md5
        )
        loaded = session.call_packed("runtime.disco.ShardLoaderLoadAll", loader)
        session.sync_all()
        return loaded

    return load


def plain_read(_: ThreadedSession, folder: Path) -> Callable[[], object]:
    """Prepare reading the file in one thread."""
    return partial(np.fromfile, folder / BINARY, np.uint8)


def plain_copy(session: ThreadedSession, folder: Path, *, whole: bool = False) -> Callable[[], object]:
    """Prepare copying an array into fresh memory with a thread per worker, each its part or all of it."""
    source = np.fromfile(folder / BINARY, np.uint8)
    parts = [source] * session.num_workers if whole else np.split(source, session.num_workers)

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
    """Return the number of deliveries if every byte goes to one worker."""
    return 1


def everybody(workers: int) -> int:
    """Return the number of deliveries if every byte goes to every worker."""
    return workers


WAYS = {
    "read": Way("`np.fromfile`, one thread", once, plain_read),
    "copy": Way("`np.copyto` to fresh memory, a thread per worker", once, plain_copy),
    "copy.whole": Way("the same, all of it by every thread", everybody, partial(plain_copy, whole=True)),
    "axis0": Way("load_safetensors, axis 0", once, partial(split, axis=0, verb="load_safetensors")),
    "axis1": Way("load_safetensors, axis 1", once, partial(split, axis=1, verb="load_safetensors")),
    "whole": Way(
        "load_safetensors, replicated", everybody, partial(split, axis=None, verb="load_safetensors")
    ),
    "cache0": Way("load_tensor_cache, axis 0", once, partial(split, axis=0, verb="load_tensor_cache")),
    "shards": Way("ShardLoaderLoadAll, cut along axis 0", once, shard_loader),
    "shards.md5": Way("the same with MD5 sums", once, partial(shard_loader, check_md5=True)),
    "shards.two": Way(
        "ShardLoaderLoadAll, negated, then cut", once, partial(shard_loader, functions=("negated", "rows"))
    ),
    "broadcast": Way("ShardLoaderLoadAll, broadcast", everybody, partial(shard_loader, functions=())),
}


# --- one process -----------------------------------------------------------------------------------


def child(key: str, folder: Path, workers: int, *, traced: bool) -> None:
    """Load in one way and print what it took: seconds, or with `traced` bytes beyond the parts."""
    from disco_magic import ThreadedSession

    with ThreadedSession(workers) as session:
        WAYS[key].make(session, folder / "small")()  # imports everything that a load needs
        load = WAYS[key].make(session, folder)
        session.sync_all()
        print((beyond if traced else seconds)(load))


def seconds(load: Callable[[], object]) -> float:
    """Time one load until all workers have their parts."""
    start = perf_counter()
    kept = load()
    taken = perf_counter() - start
    del kept
    return taken


def beyond(load: Callable[[], object]) -> float:
    """Return the bytes allocated at the peak of a load beyond what it leaves."""
    tracemalloc.start()
    kept = load()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return peak - held


def launch(key: str, folder: Path, workers: int, *more: str) -> float:
    """Run `child` in a fresh process; return the number it prints."""
    words = ["--child", key, "--folder", str(folder), "--workers", str(workers), *more]
    command = [sys.executable, "-m", "benchmarks.parameters", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
    return float(done.stdout)


# --- the table -------------------------------------------------------------------------------------


def compare(folder: Path, workers: int, rounds: int) -> list[tuple[str, ...]]:
    """Measure all ways in turn, round after round; return the rows of the table."""
    samples: dict[str, list[float]] = {key: [] for key in WAYS}
    for number in range(rounds):
        for key in WAYS:
            samples[key].append(launch(key, folder, workers))
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    nbytes = (folder / BINARY).stat().st_size
    floor = nbytes / median(samples["read"])
    rows = []
    for key, way in WAYS.items():
        speed = nbytes * way.copies(workers) / median(samples[key])
        peak = launch(key, folder, workers, "--traced") / 2**20
        figures = (f"{speed / 1e9:.2f}", f"{quantity(speed / floor, '')} x", f"{peak:.1f} MiB")
        rows.append((way.title, spread(samples[key], "ms"), *figures))
    return rows


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parameters")
    parser.add_argument("--mib", type=int, default=256, help="size of either file, a multiple of 32")
    parser.add_argument("--workers", type=int, default=4, help="1, 2, 4, 8, ...")
    parser.add_argument("--rounds", type=int, default=5, help="loads of each way, a process each")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure and print."""
    args = arguments()
    if args.child:
        child(args.child, args.folder, args.workers, traced=args.traced)
        return 0
    tensor_mib = 4 * LARGE[0] * LARGE[1] // 2**20
    count = max(1, args.mib // tensor_mib)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        write_files(Path(name), count, LARGE)
        write_files(Path(name) / "small", 1, SMALL)
        rows = compare(Path(name), args.workers, args.rounds)
    head = ("what", "time", "GB/s delivered", "of `np.fromfile`", "peak beyond the parts")
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(f"\n{count} tensors of {tensor_mib} MiB, {args.workers} workers\n")
    for row in (head, tuple("-" * width for width in widths), *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
