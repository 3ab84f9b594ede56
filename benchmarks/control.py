"""Measures our control plane between threads: calls, waits, reads, start, import.

``python -m benchmarks.control EFFORT``
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache, partial
from typing import TYPE_CHECKING

from benchmarks.clock import Effort, batches
from benchmarks.floor import noop
from benchmarks.row import Bound, Row
from benchmarks.side import Side, last_line, serve

if TYPE_CHECKING:
    from disco_magic import ThreadedSession

SIDES = (
    Side("ours", "disco_magic", "benchmarks.control"),
    Side("floor", "bare queues", "benchmarks.floor", part="control"),
    Side("tvm", "TVM", "benchmarks.peer_tvm", ("tvm",), "pip install apache-tvm", part="control"),
)

ROWS = (
    Row(
        "call, end to end",
        "A Python function that does nothing, called thousands of times with results dropped at once, then "
        "one sync of all workers; per call. Floor: one bare queue per worker.",
        "us",
        "call",
        peer="tvm",
        floor="floor:call",
        bounds=(Bound(3e-6),),
    ),
    Row(
        "same, TVM with a C++ function",
        "Ours as above; TVM calls its own `runtime.disco.worker_id`, which needs no Python on the workers.",
        "us",
        "call",
        peer="tvm:call.native",
    ),
    Row(
        "call, end to end, 16 workers",
        "As the first row.",
        "us",
        "call.wide",
        peer="tvm",
        floor="floor:call.wide",
        bounds=(Bound(10e-6),),
    ),
    Row(
        "enqueue, result dropped",
        "1000 calls, the sync after the clock has stopped; the workers run meanwhile.",
        "us",
        "enqueue.dropped",
        peer="tvm",
        floor="floor:enqueue",
        bounds=(Bound(1.5e-6),),
    ),
    Row(
        "enqueue, result kept",
        "The same with results kept in a list until the clock has stopped.",
        "us",
        "enqueue.kept",
        peer="tvm",
        floor="floor:enqueue",
        bounds=(Bound(1.5e-6),),
    ),
    Row(
        "call + sync all",
        "One call and one sync of all workers, one after the other, hundreds of times.",
        "us",
        "round",
        peer="tvm",
        floor="floor:round",
        bounds=(Bound(60e-6),),
    ),
    Row(
        "call + sync all, 16 workers",
        "As the row before.",
        "us",
        "round.wide",
        peer="tvm",
        floor="floor:round.wide",
        bounds=(Bound(400e-6),),
    ),
    Row(
        "`debug_get` of an int",
        "The value of worker 1's register, all workers idle and with nothing left to do: ours looks at it "
        "without waking anybody. Floor: a thread hands a number back.",
        "us",
        "get",
        peer="tvm",
        floor="floor:get",
        bounds=(Bound(50e-6),),
    ),
    Row(
        "call + `debug_get`",
        "One call on all workers and the value of its result on worker 1, which has to wake for it.",
        "us",
        "get.called",
        peer="tvm",
    ),
    Row(
        "session start + first sync",
        "`ThreadedSession(4)` until every worker has answered; everything imported before.",
        "ms",
        "start",
        peer="tvm",
        bounds=(Bound(5e-3),),
    ),
    Row(
        "import",
        "`import disco_magic` in a fresh interpreter; TVM: `import tvm` with NumPy imported before.",
        "ms",
        "import",
        peer="tvm",
        bounds=(Bound(150e-3),),
    ),
    Row(
        "import and `ThreadedSession`",
        "The same with the first use of a lazily imported name.",
        "ms",
        "import.session",
        peer="tvm:import",
    ),
    Row(
        "`%load_ext disco_magic`",
        "In a fresh IPython shell that runs.",
        "ms",
        "load_ext",
        bounds=(Bound(150e-3),),
    ),
)

TIMED = "from time import perf_counter as p\n{prepare}\nt = p()\n{timed}\nprint(p() - t)"
SHELL = "from benchmarks.shell import shell\nip = shell()"


@cache
def session(workers: int) -> ThreadedSession:
    """Return the process's only session with that number of workers, as the peer does."""
    import disco_magic

    disco_magic.register_func("bench.noop", noop, override=True)
    disco_magic.register_func("bench.seven", lambda: 7, override=True)
    return disco_magic.ThreadedSession(workers)


def call(effort: Effort, workers: int) -> list[float]:
    """Time `count` calls with results dropped, then one sync: seconds per call."""
    here = session(workers)
    function = here.get_global_func("bench.noop")
    return batches(function, effort.count(8000 // workers), effort.repeat, inside=here.sync_all)


def enqueue_dropped(effort: Effort) -> list[float]:
    """Time the calls alone, results dropped at once."""
    here = session(effort.workers)
    function = here.get_global_func("bench.noop")
    return batches(function, 1000, effort.repeat, after=here.sync_all)


def enqueue_kept(effort: Effort) -> list[float]:
    """Time the calls alone, results kept until the clock has stopped."""
    here, kept = session(effort.workers), []
    function = here.get_global_func("bench.noop")

    def drop() -> None:
        here.sync_all()
        kept.clear()
        here.sync_all()

    return batches(lambda: kept.append(function()), 1000, effort.repeat, after=drop)


def round_trip(effort: Effort, workers: int) -> list[float]:
    """Time one call and one sync of all workers."""
    here = session(workers)
    function = here.get_global_func("bench.noop")

    def once() -> None:
        function()
        here.sync_all()

    return batches(once, effort.count(1000 // workers), effort.repeat)


def debug_get(effort: Effort) -> list[float]:
    """Read the int in worker 1's register, all workers idle."""
    here = session(effort.workers)
    register = here.get_global_func("bench.seven")()
    here.sync_all()
    if register.debug_get_from_remote(1) != 7:
        raise RuntimeError("worker 1 does not hold 7")
    return batches(lambda: register.debug_get_from_remote(1), effort.count(300), effort.repeat)


def call_and_get(effort: Effort) -> list[float]:
    """Time one call and reading its value on worker 1."""
    seven = session(effort.workers).get_global_func("bench.seven")
    return batches(lambda: seven().debug_get_from_remote(1), effort.count(300), effort.repeat)


def start(effort: Effort) -> list[float]:
    """Time starting a session and its first sync; it is shut down after the clock has stopped."""
    from disco_magic import ThreadedSession

    made: list[ThreadedSession] = []

    def once() -> None:
        made.append(ThreadedSession(effort.workers))
        made[-1].sync_all()

    return batches(once, 1, effort.repeat, after=lambda: made.pop().shutdown())


def fresh(effort: Effort, timed: str, prepare: str = "") -> list[float]:
    """Return the seconds that `timed` takes in a fresh interpreter after `prepare`."""
    program = TIMED.format(prepare=prepare, timed=timed)
    return [in_interpreter(program) for _ in range(effort.count(5) + 1)][1:]


def in_interpreter(program: str) -> float:
    """Run `program` in a fresh interpreter and return the number it prints."""
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(last_line(run.stderr))
    return float(run.stdout)


if __name__ == "__main__":
    serve(
        {
            "import": partial(fresh, timed="import disco_magic"),
            "import.session": partial(fresh, timed="import disco_magic; disco_magic.ThreadedSession"),
            "load_ext": partial(fresh, timed="ip.run_line_magic('load_ext', 'disco_magic')", prepare=SHELL),
            "call": lambda effort: call(effort, effort.workers),
            "call.wide": lambda effort: call(effort, 16),
            "enqueue.dropped": enqueue_dropped,
            "enqueue.kept": enqueue_kept,
            "round": lambda effort: round_trip(effort, effort.workers),
            "round.wide": lambda effort: round_trip(effort, 16),
            "get": debug_get,
            "get.called": call_and_get,
            "start": start,
        }
    )
