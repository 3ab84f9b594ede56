"""``python -m tests.simulation --seed 17 --steps 4021 --trace`` replays a seed, ``--seeds 0:9`` tries all."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.world import run


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the one to replay")
    parser.add_argument("--seeds", help="FIRST:AFTER_LAST, the ones to try")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--size", type=int, help="workers; drawn from the seed if not given")
    parser.add_argument("--trace", action="store_true", help="a line for everything that happens")
    chosen = parser.parse_args(argv)
    first, last = map(int, (chosen.seeds or f"{chosen.seed or 0}:{(chosen.seed or 0) + 1}").split(":"))
    failed = []
    for seed in range(first, last):
        try:
            counts = run(seed, chosen.steps, size=chosen.size, trace=print if chosen.trace else None)
        except BaseException as error:
            if chosen.seeds is None:
                raise
            print(f"seed {seed}: {type(error).__name__}: {error}\n  {getattr(error, '__notes__', [''])[-1]}")
            failed.append(seed)
        else:
            print(f"seed {seed}: {chosen.steps} steps, {sum(counts.values())} events of {len(counts)} kinds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
