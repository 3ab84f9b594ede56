"""Compiles the double of NCCL, puts it in NCCL's place, and orders faults of it.

The first ``libnccl.so.2`` of a process is the one for all who ask for this name later: `load` it before
anything imports ``cupy.cuda.nccl``, and cupy, unmodified, talks to the double. It stays until the process
ends. So only fixtures of tests that need it load it; what looks for an installed NCCL looks at files, or
has a process of its own. What the double does and promises is in ``nccl_double.h``.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from disco_magic.testing.gpu.kernels import KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu import SimulatedGpus

SONAME: Final = "libnccl.so.2"
ANY: Final = -1  # whichever rank comes first
UNHANDLED_CUDA_ERROR: Final = 1
SYSTEM_ERROR: Final = 2
INTERNAL_ERROR: Final = 3
INVALID_ARGUMENT: Final = 4
INVALID_USAGE: Final = 5
REMOTE_ERROR: Final = 6
IN_PROGRESS: Final = 7  # cupy 14.2 has no name for this and the next: it raises KeyError
TIMEOUT: Final = 8

_HERE: Final = Path(__file__).parent
_LINE_SIZE: Final = 320
_DEADLINE_S: Final = 60.0
_CURRENT: Final = ctypes.CFUNCTYPE(ctypes.c_int)
_NULL: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)


def compiler() -> str | None:
    """The path of a C compiler."""
    return next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)


def compile_into(folder: Path, *options: str) -> Path:
    """Compile the double; `options` come after those it needs.

    Raises:
        RuntimeError: the compiler refused; what it said is in the message.
    """
    library = folder / SONAME
    command = [compiler() or "cc", "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-pthread"]
    command += ["-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{SONAME}", "-o", str(library)]
    # Contracted to a fused multiply-add, a product would be rounded once less.
    command += ["-ffp-contract=off", *options, *map(str, sorted(_HERE.glob("nccl*.c"))), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own sources
    if done.returncode != 0:
        raise RuntimeError(f"the double of NCCL does not compile:\n{' '.join(command)}\n{done.stderr}")
    return library


def _is_too_late() -> bool:
    """Whether this process has its NCCL, or cupy has looked for one: it does not look again."""
    if "cupy.cuda.nccl" in sys.modules:
        return True
    try:
        ctypes.CDLL(SONAME, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def available() -> str | None:
    """Why the double cannot be used here; None if it can. Loads nothing."""
    if not sys.platform.startswith("linux"):
        return f"the double of NCCL is for Linux, not for {sys.platform}"
    if importlib.util.find_spec("cupy") is None:
        return "cupy is not installed: pip install cupy-cuda13x (it needs no GPU here)"
    if compiler() is None:
        return "no C compiler (gcc, cc, clang) was found to make the double of NCCL"
    if load.cache_info().currsize == 0 and _is_too_late():
        return f"cupy.cuda.nccl or another {SONAME} is loaded in this process, and stays"
    return None


def _compiled(folder: Path) -> Path:
    """The double in `folder`, or where the environment wants what tests compile.

    All processes of a run have the same place there, and dozens of them load it.
    """
    if KERNELS not in os.environ:
        return compile_into(folder)
    sources = b"".join(path.read_bytes() for path in sorted(_HERE.glob("nccl*.[ch]")))
    kept = Path(os.environ[KERNELS], f"{hashlib.sha256(sources).hexdigest()[:32]}.{SONAME}")
    if not kept.exists():
        shutil.copy(compile_into(folder), own := kept.with_suffix(f".{os.getpid()}"))
        own.replace(kept)  # nobody loads an incomplete file
    return kept


@functools.cache
def load() -> Double:
    """Compile the double and load it in NCCL's place; the same one for the whole process.

    Costs more than a second, once; less if another process of the run has compiled it. The library's file is
    removed, at the end of the run or at once; its mapping stays.

    Raises:
        RuntimeError: another NCCL was loaded before, or there is no compiler.
    """
    if _is_too_late():
        raise RuntimeError(f"cupy.cuda.nccl or another {SONAME} is loaded: load the double first")
    with tempfile.TemporaryDirectory(prefix="disco-nccl-") as folder:
        library = ctypes.CDLL(str(_compiled(Path(folder))), mode=ctypes.RTLD_GLOBAL)
    return Double(library)


class Double:
    """The orders that the double takes, and what it has seen.

    A rank is that in the communicator which was made with a unique id; communicators split from it keep it,
    whatever their own ranks are: it names the worker. Functions are named without ``nccl``: ``"AllReduce"``.
    All methods may be called from any thread, and while others are inside of the double.

    Args:
        library: what `load` compiled and loaded.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        name = library.disco_nccl_function_name
        name.restype = ctypes.c_char_p
        library.disco_nccl_calls.restype = ctypes.c_uint64
        library.disco_nccl_mistake.restype = ctypes.c_bool
        self._functions: dict[str, int] = {}
        while (text := name(len(self._functions))) is not None:
            self._functions[text.decode()] = len(self._functions)

    def fail(self, function: str, status: int, *, rank: int = ANY, after: int = 0) -> None:
        """Have one call of `function` on `rank` return `status` and do nothing; `after` calls go well before.

        Functions without a communicator (``GroupEnd``, ``GetUniqueId``) count as of the rank of the last
        communicator that their thread has used. Making one is ``CommInitRankConfig`` for cupy 14. Orders for
        the same calls are carried out one after the other.
        """
        self._library.disco_nccl_fail(self._functions[function], rank, status, after)

    def stall(self, rank: int) -> None:
        """Let `rank` never come: its operations and its joining of communicators wait until `release`."""
        self._library.disco_nccl_stall(self._rank(rank), ctypes.c_bool(True))

    def release(self, rank: int) -> None:
        """What `rank` was held back from goes on."""
        self._library.disco_nccl_stall(self._rank(rank), ctypes.c_bool(False))

    def async_error(self, rank: int, status: int) -> None:
        """Put the living communicators of `rank` in error: they report it, and do nothing until their abort.

        Raises:
            LookupError: it has none, so that nothing would come of the order.
        """
        if not self._library.disco_nccl_async_error(rank, status):
            raise LookupError(f"rank {rank} has no communicator that could get an error")

    def fail_forming(self, status: int) -> None:
        """Whoever waits for ranks that do not come to a new communicator returns with `status`, now."""
        self._library.disco_nccl_fail_forming(status)

    def delay(self, most_us: int, seed: int = 0) -> None:
        """Let each launch begin 0 to `most_us` microseconds late; a seed means the same delays each time."""
        self._library.disco_nccl_set_delay(ctypes.c_uint(most_us), ctypes.c_uint64(seed))

    def set_version(self, code: int) -> None:
        """What ``ncclGetVersion`` answers; 22903 (2.29.3) until it is set."""
        self._library.disco_nccl_set_version(code)

    def set_device(self, rank: int, device: int) -> None:
        """The device of `rank` in communicators made from now on, whatever device is current there.

        Two ranks on one device are refused when they come together, as NCCL refuses them.
        """
        self._library.disco_nccl_set_device(self._rank(rank), device)

    def set_gpus(self, gpus: SimulatedGpus | None) -> None:
        """Communicators are made on the current one of `gpus`; None, as first: on that of the rank's number.

        Stays until it is set again, also after a `reset`.
        """
        self._gpus = _CURRENT(), _NULL()
        if gpus is not None:
            queues = gpus.queues
            self._gpus = _CURRENT(gpus.cupy.cuda.runtime.getDevice), _NULL(lambda at: queues(at)[0].handle)
        self._library.disco_nccl_set_gpus(*self._gpus)

    def calls(self, function: str) -> int:
        """How often `function` was called since the last `reset`, also when it failed."""
        return int(self._library.disco_nccl_calls(self._functions[function]))

    @property
    def alive(self) -> int:
        """Communicators that were made and neither destroyed nor aborted."""
        return int(self._library.disco_nccl_alive())

    @property
    def in_flight(self) -> int:
        """Operations that were launched and whose stream has not come past them."""
        return int(self._library.disco_nccl_in_flight())

    @property
    def waiting(self) -> int:
        """Threads that wait in the double: for peers, for a release, for their own work when they destroy."""
        return int(self._library.disco_nccl_waiting())

    @property
    def mistakes(self) -> list[str]:
        """What no correct program does, in order: calls that do not fit, bad arguments, use after the end."""
        line = ctypes.create_string_buffer(_LINE_SIZE)
        lines: list[str] = []
        while self._library.disco_nccl_mistake(len(lines), line):
            lines.append(line.value.decode())
        return lines

    def until_waiting(self, count: int) -> None:
        """Return when `count` threads wait in the double.

        Raises:
            TimeoutError: they do not, within a minute.
        """
        self._until(lambda: self.waiting >= count, f"{count} waiting threads")

    def until_in_flight(self, count: int) -> None:
        """Return when `count` operations are in flight; raises as `until_waiting` does."""
        self._until(lambda: self.in_flight == count, f"{count} operations in flight")

    def until_idle(self) -> None:
        """Return when nothing is in flight: streams come past what was aborted a moment after the abort."""
        self.until_in_flight(0)

    def abort_all(self) -> int:
        """Let everyone who waits go on: abort all communicators, and refuse those that are being made.

        Returns:
            How many communicators were alive. Their objects may be destroyed later, which does nothing.
        """
        return int(self._library.disco_nccl_abort_all())

    def reset(self) -> int:
        """`abort_all`, which says what it returns; then forget all orders, counters and mistakes."""
        left = self.abort_all()
        self._library.disco_nccl_forget()
        return left

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        pause = threading.Event()
        for _ in range(int(_DEADLINE_S * 1000)):
            if holds():
                return
            pause.wait(0.001)
        raise TimeoutError(f"expected {what}, got {self.waiting} waiting, {self.in_flight} in flight")

    @staticmethod
    def _rank(rank: int) -> int:
        """Refuse what the C side would take for another address."""
        if not 0 <= rank < 256:
            raise ValueError(f"the double has the ranks 0 to 255, not {rank}")
        return rank
