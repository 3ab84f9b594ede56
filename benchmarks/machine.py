"""Describes the machine and the versions that a table belongs to."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from benchmarks.floor import bandwidth
from disco_magic.functions.affinity import cores

PACKAGES = ("numpy", "ipython", "ipykernel", "apache-tvm", "mpi4py", "mpich", "ipyparallel")


def describe() -> list[str]:
    """Return lines that say when, where and with what; measures load for a second, and memory bandwidth."""
    busy = psutil.cpu_percent(interval=1.0)
    return [
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; the cores were {busy:.0f} % busy before.",
        f"Machine: {processor()}, {cores()} cores, {platform.system()} {platform.machine()}.",
        f"Memory bandwidth: {bandwidth() / 1e9:.1f} GB/s with four copying threads (reads and writes).",
        f"Versions: Python {platform.python_version()}, {', '.join(installed())}.",
    ]


def processor() -> str:
    """Return the processor's name as Linux reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def installed() -> list[str]:
    """Return names and versions of the relevant packages that are installed."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found
