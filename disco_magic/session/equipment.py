"""Chooses what a session runs on (the CPU or which GPUs) and its data plane, from what was asked and exists.

Pure except for counting the GPUs, which happens only where it decides something.
"""

from __future__ import annotations

import operator
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.device import Device, device
from disco_magic.core.words import plural
from disco_magic.devices import find
from disco_magic.errors import PlaneUnavailable, UsageMistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    Devices = Sequence[int | str | Device] | str | Device | None

ON_GPUS: Final = ("device", "nccl")
GPU_KINDS: Final = ("cuda", "rocm")
# Each worker has an array to read and one to write; a kernel takes 128 (`planes.kernels.MOST`).
MOST_SHARING: Final = 64
_RANGE: Final = re.compile(r"\A((?:\w+:)?)(\d{1,4})-(\d{1,4})\Z")
_BRACKETS: Final = re.compile(r"(\w+:)\[([^\]]*)\]")
_BLOCKING: Final = "CUDA_LAUNCH_BLOCKING"
_NOT_ASKED: Final = "GPUs are used only if asked for: devices='auto'"


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of `choose`.

    Attributes:
        num_workers: how many.
        plane_name: what carries collectives.
        devices: each worker's GPU; empty: all compute on the CPU.
        why: the reason in words, where the choice was automatic and there was more than one.
    """

    num_workers: int
    plane_name: str
    devices: tuple[int, ...] = ()
    why: str = ""


def choose(ccl: str, devices: Devices, num_workers: int | None) -> Choice:
    """Choose plane and devices for a session of threads.

    Args:
        ccl: ``"auto"``, ``"threads"``, ``"device"`` or ``"nccl"``.
        devices: each worker's GPU: numbers, names or Devices, or text like ``"0,0,1"``, ``"0-3"`` and
            ``"cuda:0,cuda:1"``; ``"auto"``: GPUs if there are any; ``"cpu"``: none; None: none, unless
            `ccl` needs them.
        num_workers: how many; None: one per GPU.
    """
    named: list[Device] = []
    choice = _choose(ccl, _by_number(devices, named), num_workers)
    if named:
        kind = find.gpu_kind(find.load_cupy())
        if others := dict.fromkeys(str(each) for each in named if each.kind != kind):
            raise UsageMistake(
                f"{', '.join(others)}: the GPUs that cupy finds here are called {kind}:0 and so on"
            )
    return choice


def contradicts(ccl: str, devices: Sequence[int] | str | None) -> bool:
    """Whether one of the two asks for the CPU and the other for GPUs."""
    return (ccl == "threads" and _asks_for_gpus(devices)) or (
        ccl in ON_GPUS and isinstance(devices, str) and devices == "cpu"
    )


def names_others(devices: Devices, there: Sequence[int]) -> bool:
    """Whether `devices` name other GPUs than the workers have, or in another order; ``"auto"`` names none."""
    asked = _by_number(devices, [])
    return asked != "auto" and (_numbers(asked) or ()) != tuple(there)


def count_of(devices: Devices) -> int | None:
    """Return how many workers these devices are for; None if they do not say: ``"auto"``, ``"cpu"``."""
    numbers = _numbers(_by_number(devices, []))
    return None if numbers is None else len(numbers)


def _choose(ccl: str, devices: Sequence[int] | str | None, num_workers: int | None) -> Choice:
    if contradicts(ccl, devices):
        where = "the CPU" if ccl == "threads" else "GPUs"
        raise UsageMistake(
            f"ccl={ccl!r} carries arrays on {where}, but devices are {devices!r}; leave one of the two out"
        )
    numbers = _numbers(devices)
    if numbers is None and not _wants_gpus(ccl, devices):
        left_to_us = devices is None and ccl == "auto" and find.has_driver_files()
        return Choice(_given(num_workers), "threads", why=_NOT_ASKED if left_to_us else "")
    count = find.count_gpus()
    if not count:
        if devices == "auto" and ccl == "auto":
            return Choice(_given(num_workers, "no GPU was found; "), "threads", why="no GPU was found")
        find.load_cupy()  # raises with what exactly is missing
        raise PlaneUnavailable("no GPU is visible to this process; disco.support() says what is there")
    if numbers is None and ccl == "auto" and count > 1 and num_workers != 1 and (why := _no_nccl()):
        workers = 4 if num_workers is None else num_workers
        return Choice(workers, "device", (0,) * workers, f"{why}; all workers share GPU 0")
    if numbers is None:
        numbers = _spread(ccl, count, num_workers)
    return _on(numbers, ccl, count, num_workers)


def _no_nccl() -> str:
    """Why NCCL is not to be chosen automatically; "" if it may be."""
    if _starts_are_waited_for():
        return f"{_BLOCKING} is set, with which NCCL cannot start"
    return "" if find.has_nccl() else "NCCL is not installed"  # cupy's wheels do not bring it


def _starts_are_waited_for() -> bool:
    return os.environ.get(_BLOCKING, "0") not in ("", "0")


def _by_number(devices: Devices, named: list[Device]) -> Any:
    """Return `devices` as GPU numbers; those given by name or as a Device are added to `named`."""
    if isinstance(devices, Device):
        devices = str(devices)
    if isinstance(devices, str):
        devices = _spelled_out(devices)
        if ":" in devices:
            devices = [each.strip() for each in devices.split(",")]
    return [_number(each, named) for each in devices] if isinstance(devices, list | tuple) else devices


def _spelled_out(text: str) -> str:
    """Expand ranges, and the brackets of our own tables: ``cuda:[0-1]`` becomes ``cuda:0,cuda:1``."""
    plain = _BRACKETS.sub(
        lambda found: ",".join(f"{found[1]}{part.strip()}" for part in found[2].split(",")), text
    )
    return ",".join(_RANGE.sub(_each_of, part.strip()) for part in plain.split(","))


def _each_of(found: re.Match[str]) -> str:
    kind, first, last = found[1], int(found[2]), int(found[3])
    if not first <= last < first + MOST_SHARING:
        return found[0]  # refused later, as it stands
    return ",".join(f"{kind}{number}" for number in range(first, last + 1))


def _number(given: object, named: list[Device]) -> object:
    if isinstance(given, str) and ":" in given:
        given = device(given)
    if not isinstance(given, Device) or given.kind not in GPU_KINDS:
        return given
    named.append(given)
    return given.index


def _asks_for_gpus(devices: Sequence[int] | str | None) -> bool:
    return devices is not None and not (isinstance(devices, str) and devices in ("auto", "cpu"))


def _wants_gpus(ccl: str, devices: Sequence[int] | str | None) -> bool:
    return ccl in ON_GPUS or (devices == "auto" and ccl == "auto")


def _given(num_workers: int | None, because: str = "") -> int:
    if num_workers is None:
        raise UsageMistake(f"{because}say how many workers there are to be: num_workers=4, or devices=[0, 1]")
    return num_workers


def _numbers(devices: Sequence[int] | str | None) -> tuple[int, ...] | None:
    """Return the devices that were named; None if none were."""
    if not _asks_for_gpus(devices):
        return None
    said = f"devices are {devices!r}, expected GPU numbers, one per worker: [0, 1] or '0,1', 'auto' or 'cpu'"
    entries: Any = devices.split(",") if isinstance(devices, str) else devices
    try:
        numbers = tuple(int(each) if isinstance(each, str) else operator.index(each) for each in entries)
    except (TypeError, ValueError):
        raise UsageMistake(said) from None
    if not numbers or min(numbers) < 0:
        raise UsageMistake(said)
    return numbers


def _spread(ccl: str, count: int, num_workers: int | None) -> tuple[int, ...]:
    """Choose GPUs if only the number of workers was given."""
    wanted = count if num_workers is None else num_workers
    if ccl == "device":
        return (0,) * (4 if num_workers is None else wanted)
    if wanted <= count:
        return tuple(range(wanted))
    if count == 1 and ccl == "auto":
        return (0,) * wanted
    raise UsageMistake(
        f"{wanted} workers cannot have a GPU each, this process sees {plural(count, 'GPU')}; ask for {count},"
        f" or let all share one: devices=[{', '.join(['0'] * min(wanted, 4))}{', ...' if wanted > 4 else ''}]"
    )


def _on(numbers: tuple[int, ...], ccl: str, count: int, num_workers: int | None) -> Choice:
    workers = len(numbers)
    if num_workers is not None and num_workers != workers:
        raise UsageMistake(
            f"{plural(workers, 'device')} for {plural(num_workers, 'worker')}; give one for each"
        )
    missing = sorted({number for number in numbers if number >= count})
    if missing:
        raise UsageMistake(
            f"there is no GPU {', '.join(map(str, missing))}: this process sees {count}, numbered from 0"
        )
    one, apart = len(set(numbers)) == 1, len(set(numbers)) == workers
    if ccl == "nccl" and not apart:
        raise UsageMistake(
            f"NCCL does not allow two workers on one GPU, but devices are {list(numbers)}; ccl='device' "
            "does, if all are on the same"
        )
    if ccl == "device" and not one:
        raise UsageMistake(
            f"ccl='device' is for workers on one GPU, but devices are {list(numbers)}; use 'nccl'"
        )
    if not one and not apart:
        raise UsageMistake(
            f"devices are {list(numbers)}: either all workers share one GPU, or each has one of its own"
        )
    if one and ccl != "nccl" and workers > MOST_SHARING:
        raise UsageMistake(
            f"{workers} workers on one GPU are more than the {MOST_SHARING} that a kernel can serve"
        )
    if not one and _starts_are_waited_for():
        raise PlaneUnavailable(
            f"with {_BLOCKING} set NCCL cannot start between several GPUs: who starts the first part of a"
            " collective waits for it, and it for the others - restart Python without, or look for the error"
            f" with all workers on one GPU: devices=[0] * {workers}, ccl='device'"
        )
    if ccl != "auto":
        return Choice(workers, ccl, numbers)
    if one:
        why = "the workers share one GPU" if workers > 1 else "one worker needs no NCCL"
        return Choice(workers, "device", numbers, why)
    return Choice(workers, "nccl", numbers, "one GPU per worker")
