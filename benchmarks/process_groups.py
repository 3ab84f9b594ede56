"""Compares `torch.distributed` on the workers of a session with four processes that use Gloo.

``python -m benchmarks.process_groups``

Both sides execute the same text, `PROGRAM`, each in processes of its own, in turn, for several rounds, with
one thread of PyTorch per rank. Needs PyTorch. A wrong result ends it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

RANKS = 4
PROGRAM = """
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
rank, size = dist.get_rank(), dist.get_world_size()

def seconds(step, times):
    step()
    took = []
    for _ in range(7):
        dist.barrier()
        began = time.perf_counter()
        for _ in range(times):
            step()
        took.append((time.perf_counter() - began) / times)
    return sorted(took)[3]

small, large = torch.ones(10), torch.ones(4 << 20)
part, whole = torch.full((1 << 20,), float(rank)), torch.empty(size << 20)
net = DistributedDataParallel(nn.Sequential(*(nn.Linear(64, 64) for _ in range(8))))
optimizer, inputs = torch.optim.SGD(net.parameters(), lr=0.01), torch.randn(8, 64)

def train():
    optimizer.zero_grad()
    net(inputs).square().mean().backward()
    optimizer.step()

figures = {
    "all_reduce of 10 numbers": seconds(lambda: dist.all_reduce(small.fill_(1)), 200),
    "all_reduce of 16 MiB": seconds(lambda: dist.all_reduce(large.fill_(1)), 5),
    "all_gather_into_tensor of 4 MiB each": seconds(lambda: dist.all_gather_into_tensor(whole, part), 5),
    "barrier": seconds(dist.barrier, 200),
    "a step of DDP, 8 layers of 64": seconds(train, 20),
}
right = small[0] == size and bool((large == size).all())
right = right and all(bool((each == r).all()) for r, each in enumerate(whole.chunk(size)))
if not right:
    raise SystemExit("a wrong result")
"""


def ours() -> dict[str, float]:
    """Measure on the workers of a session."""
    import disco_magic as disco

    session = disco.ThreadedSession(RANKS)
    session.run("import torch.distributed as dist\ndist.init_process_group()")
    session.run(PROGRAM)
    figures: dict[str, float] = session["figures"].get(0)
    session.shutdown()
    return figures


def _rank(rank: int, meeting: str, answer: Any) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    names: dict[str, Any] = {}
    exec(PROGRAM, names)  # noqa: S102 - our own program
    if rank == 0:
        answer.put(names["figures"])
    dist.destroy_process_group()


def gloo() -> dict[str, float]:
    """Measure on processes with Gloo."""
    import tempfile

    spawn = multiprocessing.get_context("spawn")
    answer = spawn.Queue()
    with tempfile.TemporaryDirectory() as folder:
        given = [(rank, str(Path(folder) / "meeting"), answer) for rank in range(RANKS)]
        processes = [spawn.Process(target=_rank, args=each) for each in given]
        for process in processes:
            process.start()
        figures: dict[str, float] = answer.get(timeout=300)
        for process in processes:
            process.join()
    return figures


def main() -> None:
    """Measure, and print a table of medians over the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--side", choices=("ours", "gloo"), help="measure one side once, and print it as JSON"
    )
    given = parser.parse_args()
    if given.side:
        print(json.dumps({"ours": ours, "gloo": gloo}[given.side]()))
        return
    rounds: dict[str, list[dict[str, float]]] = {"ours": [], "gloo": []}
    for _ in range(given.rounds):
        for side, figures in rounds.items():
            line = [sys.executable, "-m", __spec__.name, "--side", side]
            done = subprocess.run(line, check=True, capture_output=True, text=True)
            figures.append(json.loads(done.stdout.splitlines()[-1]))
    print("| us, medians of", given.rounds, "rounds | workers | processes with Gloo | Gloo / workers |")
    print("|---|---|---|---|")
    for name in rounds["ours"][0]:
        mine, theirs = (median(each[name] for each in figures) * 1e6 for figures in rounds.values())
        print(f"| {name} | {mine:,.0f} | {theirs:,.0f} | {theirs / mine:.1f} |")


if __name__ == "__main__":
    main()
