"""One section: ``python -m benchmarks.gpus SECTION [--quick]``; prints its figures line by line."""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import sys
from typing import Any

from benchmarks.gpus.stand import Effort, Skipped, Stand
from disco_magic.devices.find import nccl_of
from disco_magic.functions.affinity import cores
from tests.gpu.machine import SIMULATED, machine

ABOUT, SKIPPED = "@about ", "@skipped "
# section -> module and function.
SECTIONS = {
    "copies": "copies.measure",
    "tuning": "copies.tune",
    "collectives": "collectives.measure",
    "latency": "latency.measure",
    "nccl": "nccl.measure",
    "pair": "nccl.measure_pair",
    "waiting": "waiting.measure",
}


def main() -> None:
    """Measure one section and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpus", description=__doc__)
    parser.add_argument("section", choices=["about", *SECTIONS])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--deadline", type=float, default=300, help="seconds; then all stacks are written")
    args = parser.parse_args()
    faulthandler.dump_traceback_later(args.deadline, exit=True)
    with machine() as cupy:
        if args.section == "about":
            sys.stdout.write(f"{ABOUT}{json.dumps(about(cupy))}\n")
            return
        module, _, function = SECTIONS[args.section].partition(".")
        effort = Effort.of(quick=args.quick, simulated=SIMULATED)
        measure = getattr(importlib.import_module(f"benchmarks.gpus.{module}"), function)
        try:
            measure(Stand(cupy, effort, args.section))
        except Skipped as reason:
            sys.stdout.write(f"\n{SKIPPED}{reason}\n")
    faulthandler.cancel_dump_traceback_later()


def about(cupy: Any) -> dict[str, Any]:
    """Describe the machine and its versions."""
    import platform

    import numpy as np

    device, runtime = cupy.cuda.Device(0), cupy.cuda.runtime
    nccl = nccl_of(cupy)
    return {
        "simulated": SIMULATED,
        "gpu": runtime.getDeviceProperties(0)["name"].decode(),
        "gpus": runtime.getDeviceCount(),
        "compute_capability": device.compute_capability,
        "multiprocessors": device.attributes["MultiProcessorCount"],
        "l2_nbytes": device.attributes.get("L2CacheSize"),
        "memory_nbytes": device.mem_info[1],
        "driver": runtime.driverGetVersion(),
        "runtime": runtime.runtimeGetVersion(),
        "nccl": None if nccl is None else _version(nccl),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "cores": cores(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _version(nccl: Any) -> int | str:
    """NCCL's version; an error in words, which need not end everything."""
    try:
        return int(nccl.get_version())
    except (RuntimeError, KeyError) as reason:  # KeyError: a status that cupy has no name for
        return f"unknown ({type(reason).__name__}: {reason})"


if __name__ == "__main__":
    main()
